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
    """Hessians of the summed losses of training sets at some points, without penalty.

    Rows of one atom add the same matrix to all folds that train on them: at one point,
    folds that consist of few atoms cost together what one of them costs.

    The answer is a list with one array of shape (n_folds, n_coords, n_coords) for each
    point.

    Attributes
    ----------
    coordinates : Coordinates
    loss : Loss
    sets : FoldSets
    params : ndarray of shape (n_points, n_params, n_outputs)
    folds : list of ndarray of int
        Folds that are asked for at each point.
    """

    coordinates: Coordinates
    loss: Loss
    sets: FoldSets
    params: np.ndarray
    folds: list[np.ndarray]

    def visit(self, chunk):
        """Hessians of the rows of a chunk."""
        n_coords = self.params[0].size
        sums = [np.zeros((len(folds), n_coords, n_coords)) for folds in self.folds]
        n_rows = max(_PIECE_ENTRIES // n_coords, _MIN_PIECE_ROWS)
        for piece, train, _ in self.sets.pieces(chunk, n_rows):
            rows = self.coordinates.design_rows(piece.rows)
            weights = np.ones(piece.n_rows) if piece.weights is None else piece.weights
            for total, params, folds in zip(sums, self.params, self.folds, strict=True):
                prediction = rows @ params
                for counts, members in _distinct(train[folds]):
                    total[members] += self.loss.hessian(
                        rows, counts * weights, piece.target, prediction
                    )
        return sums


def _distinct(counts):
    """Yield distinct positive rows of weights, and the positions that have them."""
    distinct, number = np.unique(counts, axis=0, return_inverse=True)
    for position, weight in enumerate(distinct):
        if weight.any():
            yield weight, np.flatnonzero(number.ravel() == position)
