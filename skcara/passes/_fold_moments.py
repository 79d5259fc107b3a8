"""Means and variances of the columns on all training sets."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skcara.data import Facts, FoldSets, SumTask, sparse_moments
from skcara.objective import ColumnMoments

# Rows of a fold are copied in pieces that stay in the cache.
_PIECE_ROWS = 2**13


@dataclass(frozen=True, eq=False)
class FoldMoments(SumTask):
    """Moments of the columns on each training set.

    The answer is a list of :class:`~skcara.objective.ColumnMoments`.

    Attributes
    ----------
    facts : Facts
    sets : FoldSets
    factors : ndarray of shape (n_classes,), optional
        By which the weight of a row is multiplied, for each class.
    """

    facts: Facts
    sets: FoldSets
    factors: np.ndarray | None = None

    def visit(self, chunk):
        """Sums around the reference row, of weights, columns and their squares."""
        shape = self.sets.n_folds, self.facts.n_features
        sums = [np.zeros(shape[0]), np.zeros(shape), np.zeros(shape)]
        for piece, train, _ in self.sets.pieces(chunk, _PIECE_ROWS):
            weights = np.ones(piece.n_rows) if piece.weights is None else piece.weights
            if self.factors is not None:
                weights = weights * self.factors.take(piece.target)
            weighted = train * weights
            if train.shape[1] == 1:
                # One product for all folds.
                weighted = weights[None]
            factors = train if train.shape[1] == 1 else 1.0
            sums[0] += np.ravel(factors * weighted.sum(axis=1, keepdims=True))
            first, second = self._moments(piece.rows, weighted.T)
            sums[1] += factors * first.T
            sums[2] += factors * second.T
        return sums

    def _moments(self, rows, weights):
        """Sums for each column of weights, shape (n_features, n_sets)."""
        reference = self.facts.reference_row
        if sparse.issparse(rows):
            return sparse_moments(rows, weights, reference)
        rows = np.subtract(rows, reference, dtype=np.float64)
        return rows.T @ weights, np.square(rows).T @ weights

    def finish(self, total):
        """Return the moments of each fold."""
        return [
            ColumnMoments.from_sums(sums, squares, self.facts.reference_row, weight)
            for weight, sums, squares in zip(*total, strict=True)
        ]
