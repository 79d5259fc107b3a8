"""Hessians of the losses of all training sets at a few points."""

from dataclasses import dataclass

import numpy as np

from skcara.data import Coordinates, FoldSets, SumTask
from skcara.objective import Loss

# Entries of copied rows: they stay in the cache.
_PIECE_ENTRIES = 2**17
_MIN_PIECE_ROWS = 256


@dataclass(frozen=True, eq=False)
class FoldHessians(SumTask):
    """Hessians of the summed losses of all training sets, without penalty.

    Rows of one atom add the same matrix to all folds that train on them: folds that
    consist of few atoms cost together what one of them costs.

    The answer has shape (n_points, n_folds, n_coords, n_coords).

    Attributes
    ----------
    coordinates : Coordinates
    loss : Loss
    sets : FoldSets
    params : ndarray of shape (n_points, n_params, n_outputs)
    """

    coordinates: Coordinates
    loss: Loss
    sets: FoldSets
    params: np.ndarray

    def visit(self, chunk):
        """Hessians of the rows of a chunk."""
        n_points, n_params, n_outputs = self.params.shape
        n_coords = n_params * n_outputs
        sums = np.zeros((n_points, self.sets.n_folds, n_coords, n_coords))
        n_rows = max(_PIECE_ENTRIES // n_coords, _MIN_PIECE_ROWS)
        for piece, train, _ in self.sets.pieces(chunk, n_rows):
            rows = self.coordinates.design_rows(piece.rows)
            weights = np.ones(piece.n_rows) if piece.weights is None else piece.weights
            for total, params in zip(sums, self.params, strict=True):
                prediction = rows @ params
                for weight, folds in _distinct(train):
                    matrix = self.loss.hessian(
                        rows, weight * weights, piece.target, prediction
                    )
                    total[folds] += matrix
        return [sums]

    def finish(self, total):
        """Return the matrices."""
        return total[0]


def _distinct(counts):
    """Yield distinct positive rows of weights, and the folds that have them."""
    distinct, number = np.unique(counts, axis=0, return_inverse=True)
    for position, weight in enumerate(distinct):
        if weight.any():
            yield weight, np.flatnonzero(number.ravel() == position)
