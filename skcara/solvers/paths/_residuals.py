r"""Mean squared errors on held-out rows, residual by residual.

Where the target is nearly a linear function of the features, the mean squared error is
a small difference of large moments. One read of the residuals then gives the errors
that are in doubt: a row is multiplied with the coefficients of the folds that hold it
out, and with no others.

Rounding
--------
With the offset ``o`` of the predictions at the shift ``(c, t)``, the residual
:math:`(y - t) - (x - c)^\top b - o` of a row is wrong by at most :math:`\gamma_n` times
the sum of the absolute values of its terms, and by the error of ``o``. By the
inequality of Minkowski the root mean square of this is at most

.. math:: \epsilon = \gamma_n \bigl(\mathrm{rms}(y - t)
          + \textstyle\sum_j \mathrm{rms}(x_j - c_j) |b_j| + |o|\bigr) + |\delta o| ,

and the mean square ``m`` of the residuals is wrong by at most
:math:`(2 \sqrt m + \epsilon)\, \epsilon`, and by what its own sum loses.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skcara.data import SumTask, rows_at, squared
from skcara.solvers.paths._moments import gamma

# Roundings besides those of sums: shift, weight, square, division.
_MORE_ROUNDINGS = 16


@dataclass(frozen=True, eq=False)
class DoubtfulPoints:
    """Coefficients of one fold whose errors are to be computed from residuals.

    Attributes
    ----------
    batch : int
        Number of the batch of the fold.
    counts : ndarray of int of shape (n_atoms,)
        How often the rows of an atom are in the test set.
    coefs : ndarray of shape (n_features, n_points)
    offsets, offset_errors : ndarray of shape (n_points,)
        Predictions at the shift relative to that of the target, and bounds on their
        errors.
    """

    batch: int
    counts: np.ndarray
    coefs: np.ndarray
    offsets: np.ndarray
    offset_errors: np.ndarray


@dataclass(frozen=True, eq=False)
class HeldOutSquares(SumTask):
    """Task that sums the squared residuals of test rows.

    Attributes
    ----------
    folds : tuple of DoubtfulPoints
    shift : ndarray of shape (n_features + 1,)
        What features and target are measured from.
    """

    folds: tuple
    shift: np.ndarray

    def visit(self, chunk):
        """For each fold: rows, their weight, and sums of squares.

        The squares are those of the residuals, the features and the target.
        """
        n_rows, n_features = chunk.rows.shape
        labels = chunk.atom.reshape(n_rows, -1)
        sums = []
        for fold in self.folds:
            counts = fold.counts[labels[:, fold.batch]]
            chosen = np.flatnonzero(counts)
            rows = rows_at(chunk.rows, chosen)
            if self.shift[:n_features].any():
                rows = rows - self.shift[:n_features]
            rows = rows.astype(np.float64, copy=False)
            target = chunk.target[chosen] - self.shift[n_features]
            weights = counts[chosen].astype(np.float64)
            if chunk.weights is not None:
                weights *= chunk.weights[chosen]
            residuals = target[:, None] - rows @ fold.coefs - fold.offsets
            squares = squared(rows) if sparse.issparse(rows) else rows**2
            sums += [
                len(chosen),
                weights.sum(),
                weights @ residuals**2,
                weights @ squares,
                weights @ target**2,
            ]
        return sums

    def finish(self, total):
        """Errors and bounds for each fold, pairs of arrays of shape (n_points,)."""
        return [
            _errors(fold, *total[5 * number : 5 * number + 5])
            for number, fold in enumerate(self.folds)
        ]


def _errors(fold, n_rows, weight, residuals, features, target):
    errors = residuals / weight
    reach = np.sqrt(features / weight) @ np.abs(fold.coefs)
    reach += np.sqrt(target / weight) + np.abs(fold.offsets)
    epsilon = gamma(len(fold.coefs) + _MORE_ROUNDINGS) * reach + fold.offset_errors
    bounds = (2 * np.sqrt(errors) + epsilon) * epsilon
    return errors, bounds + gamma(n_rows + _MORE_ROUNDINGS) * errors
