r"""Means and variances of the columns on all training sets.

Some rows have a weight ``W``, a mean ``m`` and a *scatter*
:math:`S = \sum_i w_i (x_i - m)^2`. Two sets of rows have together, with
:math:`d = m_2 - m_1`,

.. math:: W = W_1 + W_2 , \qquad m = m_1 + \tfrac{W_2}{W} d , \qquad
          S = S_1 + S_2 + \tfrac{W_1 W_2}{W} d^2 .

Only non-negative things are added, so that nothing cancels. Sums around one point for
all training sets would: an outlier takes that point far away from all sets that do not
contain it.

References
----------
Tony F. Chan, Gene H. Golub, Randall J. LeVeque, Algorithms for computing the sample
variance: analysis and recommendations, The American Statistician 37, 1983.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skcara.data import Facts, FoldSets, SumTask, sparse_moments
from skcara.objective import ColumnMoments

# Rows of a fold are copied in pieces that stay in the cache.
_PIECE_ROWS = 2**13
# Distance of a mean from the reference row, in standard deviations, up to which squares
# are summed around that row: the variance then loses two digits at most.
_MAX_OFFSET = 4.0
# Rounding of a mean, relative to it: a column with a smaller spread is constant.
_MEAN_ROUNDING = 64 * np.finfo(np.float64).eps


@dataclass(eq=False)
class _Scatters:
    """Weight, mean and scatter of some rows, for each of some sets.

    Attributes
    ----------
    weight : ndarray of shape (n_sets, 1)
    mean, scatter : ndarray of shape (n_sets, n_features)
        Of no meaning in a set without weight.
    """

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray

    @classmethod
    def of_nothing(cls, n_sets, n_features):
        shape = n_sets, n_features
        return cls(np.zeros((n_sets, 1)), np.zeros(shape), np.zeros(shape))

    def __iadd__(self, other):
        distance = other.mean - self.mean
        own, self.weight = self.weight, self.weight + other.weight
        share = _divide(other.weight, self.weight)
        self.mean += share * distance
        self.scatter += other.scatter + own * share * distance**2
        return self

    def repeated(self, counts):
        """Sets that contain the rows of the only set so many times, shape (n, 1)."""
        mean = np.broadcast_to(self.mean, (len(counts), self.mean.shape[1]))
        return _Scatters(counts * self.weight, mean, counts * self.scatter)


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
        """Weights, means and scatters of the rows of a chunk, for all folds."""
        total = _Scatters.of_nothing(self.sets.n_folds, self.facts.n_features)
        for piece, train, _ in self.sets.pieces(chunk, _PIECE_ROWS):
            weights = np.ones(piece.n_rows) if piece.weights is None else piece.weights
            if self.factors is not None:
                weights = weights * self.factors.take(piece.target)
            if train.shape[1] == 1:
                # One product for all folds.
                total += self._scatters(piece.rows, weights[None]).repeated(train)
            else:
                total += self._scatters(piece.rows, train * weights)
        return [total]

    def _scatters(self, rows, weights):
        """Scatters of rows with weights of shape (n_sets, n_rows)."""
        weight = weights.sum(axis=1, keepdims=True)
        sums, squares = (one.T for one in self._sums(rows, weights.T))
        offset = _divide(sums, weight)
        scatter = squares - sums * offset
        found = _Scatters(weight, self.facts.reference_row + offset, scatter)
        is_far = sums * offset > _MAX_OFFSET**2 * scatter
        for number in np.flatnonzero(is_far.any(axis=1)):
            columns = np.flatnonzero(is_far[number])
            found.mean[number, columns], found.scatter[number, columns] = (
                _centred_scatter(rows, columns, weights[number])
            )
        return found

    def _sums(self, rows, weights):
        """Sums of columns and their squares around the reference row."""
        reference = self.facts.reference_row
        if sparse.issparse(rows):
            return sparse_moments(rows, weights, reference)
        rows = np.subtract(rows, reference, dtype=np.float64)
        return rows.T @ weights, np.square(rows).T @ weights

    def finish(self, total):
        """Return the moments of each fold."""
        [found] = total
        variance = found.scatter / found.weight
        variance[variance <= (_MEAN_ROUNDING * found.mean) ** 2] = 0.0
        return list(map(ColumnMoments, found.mean, variance))


def _centred_scatter(rows, columns, weights):
    """Mean and scatter of some columns, from sums around their own means."""
    members = np.flatnonzero(weights)
    weights, rows = weights[members], rows[members][:, columns]
    if sparse.issparse(rows):
        # Hardly more than the entries: a column with many zeros is not far from zero.
        rows = rows.toarray()
    rows = rows.astype(np.float64, copy=False)
    shares = weights / weights.sum()
    mean = shares @ rows
    deviations = rows - mean
    correction = shares @ deviations
    squares = shares @ np.square(deviations) - correction**2
    return mean + correction, weights.sum() * np.maximum(squares, 0.0)


def _divide(numbers, weight):
    """Quotients, zero where there is no weight."""
    return numbers / np.where(weight > 0, weight, 1.0)
