r"""Rows that carry the curvature of a coordinate almost alone.

A uniform sample represents a coordinate ``c = (param j, output k)`` well if its Hessian
entry :math:`H_{cc} = \sum_i \mu_i h_{ik} x_{ij}^2` is a sum of many terms of similar
size. Rare levels of a category, rare classes and heavy tails are different: a few rows
make up the sum, and a sample without them knows nothing about the coordinate. The
*influence* of a row,

.. math:: s_i = \tfrac12 \sum_{jk} (h_{ik} + r_{ik}^2)\, x_{ij}^2 / H_{cc} ,

measures its share in all coordinates at once, with the curvature :math:`h_{ik}` and the
derivative :math:`r_{ik}` of its loss (whose square has the same mean). Sampling in
proportion to the influence keeps such rows with certainty and with their own weight.
"""

import numpy as np
from scipy import sparse

# Effective number of rows behind a Hessian entry below which it is concentrated.
_MIN_EFFECTIVE_ROWS = 1500
# Entries smaller than this share of the typical one are unknown to the sample.
_NEGLIGIBLE = 1e-9


def hessian_diagonal(reduced, prediction):
    """Diagonal of the Hessian of a reduced loss, and the rows that carry it.

    Returns
    -------
    diagonal : ndarray of shape (n_params, n_outputs)
    effective_rows : ndarray of shape (n_params, n_outputs)
        Inverse participation of the rows, at most their number.
    """
    curvature = row_curvature(reduced.loss, reduced.target, prediction)
    curvature *= reduced.weights[:, None]
    squares = _squared(reduced.rows)
    diagonal = squares.T @ curvature
    fourth = _squared(squares).T @ np.square(curvature)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(diagonal > 0, diagonal**2 / fourth, 0.0)
    return diagonal, effective


def is_concentrated(effective_rows) -> bool:
    """Whether some coordinate is carried by so few rows that a sample may miss it."""
    return bool(effective_rows.min() < _MIN_EFFECTIVE_ROWS)


def row_influence(problem, params, diagonal):
    """Influence of every row at ``params``, in one pass.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    diagonal : ndarray of shape (n_params, n_outputs)
        Diagonal of the Hessian, as far as it is known.

    Returns
    -------
    influence : ndarray of shape (n_rows,)
    """
    inverse = 1.0 / np.maximum(diagonal, _NEGLIGIBLE * np.median(diagonal))
    n_features = problem.design.n_features
    intercept_share = inverse[n_features:].sum(axis=0)
    intercept = params[n_features:].sum(axis=0)
    influence = np.empty(problem.n_rows)

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        target = problem.target[part]
        prediction = rows @ params[:n_features] + intercept
        size = _squared(rows) @ inverse[:n_features] + intercept_share
        importance = row_curvature(problem.loss, target, prediction)
        importance += np.square(problem.loss.derivative(target, prediction))
        influence[part] = 0.5 * np.einsum("ik,ik->i", importance, size)
        return ()

    problem.design.map_reduce(visit, explicit=True)
    return influence


def row_curvature(loss, target, prediction):
    """Diagonal of the second derivative of each row's loss, (n_rows, n_outputs)."""
    second = loss.second_derivative(target, prediction)
    return second[:, None] if second.ndim == 1 else np.einsum("ikk->ik", second).copy()


def _squared(rows):
    return rows.power(2) if sparse.issparse(rows) else np.square(rows)
