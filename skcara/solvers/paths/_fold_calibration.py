r"""Weights of sampled rows that give a training set its exact gradient at a point.

A linear term could do that too, but it acts in every direction alike. Where a column is
nearly separated the loss decays exponentially: there the gradient of a sample, wrong by
a few per cent, stays so wherever the point goes, while a linear term that corrects it
at one point is many times too large at the next, and no minimiser may be left. Weights
correct such an error once and for all. They are those of the least chi-square distance
from the given ones, :math:`w_i (1 + c_i^\top \lambda)` with the gradients :math:`c_i`
of single rows (see :mod:`skcara.recombination`), as far as no row becomes much more or
less important; what then is missing is left to a linear term.
"""

import numpy as np
from scipy import sparse

from skcara.data import SparseGram, gram, row_range, scaled_rows
from skcara.solvers._quadratic import ScaledCholesky

# Factors by which weights may change: rows that would change more are the only ones of
# their kind in the sample, and say little about others.
_LEAST_FACTOR, _LARGEST_FACTOR = 0.1, 10.0
# Entries of rows that are multiplied at a time: they stay in the cache.
_PART_ENTRIES = 2**17


def calibrate_folds(sample, params, weights, gradients):
    """Weights with which the rows have given gradients at some points.

    Parameters
    ----------
    sample : FoldSample
    params, gradients : ndarray of shape (n_points, n_params, n_outputs)
    weights : ndarray of shape (n_points, n_rows)

    Returns
    -------
    weights : ndarray of shape (n_points, n_rows)
    """
    return np.array(
        [
            _calibrate(sample, *point)
            for point in zip(params, weights, gradients, strict=True)
        ]
    )


def _calibrate(sample, params, weights, gradient):
    """The same for one point."""
    slopes = sample.loss.derivative(sample.target, sample.rows @ params)
    missing = gradient - sample.rows.T @ (slopes * weights[:, None])
    moments = ScaledCholesky(_second_moments(sample.rows, slopes, weights))
    direction = moments.solve(missing.ravel()).reshape(params.shape)
    factors = 1.0 + np.einsum("ik,ik->i", sample.rows @ direction, slopes)
    return weights * np.clip(factors, _LEAST_FACTOR, _LARGEST_FACTOR)


def _second_moments(rows, slopes, weights):
    """Sum of the squares of the gradients of rows, (n_coords, n_coords)."""
    (n_rows, n_params), n_outputs = rows.shape, slopes.shape[1]
    total = np.zeros((n_params * n_outputs,) * 2)
    slopes = slopes * np.sqrt(weights)[:, None]
    step = max(_PART_ENTRIES // (n_params * n_outputs), 256)
    if sparse.issparse(rows) and n_outputs == 1:
        return SparseGram(scaled_rows(rows, slopes[:, 0])).toarray()
    for start in range(0, n_rows, step):
        part = slice(start, min(start + step, n_rows))
        own = row_range(rows, part.start, part.stop)
        own = own.toarray() if sparse.issparse(own) else own
        products = own[:, :, None] * slopes[part, None, :]
        total += gram(products.reshape(len(own), -1))
    return total
