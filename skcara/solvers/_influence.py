r"""Rows that carry the curvature of a coordinate almost alone.

A uniform sample represents a coordinate ``c = (param j, output k)`` well if its Hessian
entry :math:`H_{cc} = \sum_i \mu_i h_{ik} x_{ij}^2` is a sum of many terms of similar
size. Rare levels of a category, rare classes and heavy tails are different: a few rows
make up the sum, and a sample without them knows nothing about the coordinate. The
*influence* of a row,

.. math:: s_i = \tfrac12 \mu_i \sum_{jk} (h_{ik} + r_{ik}^2)\, x_{ij}^2 / H_{cc} ,

adds up its shares in all coordinates, with the curvature :math:`h_{ik}` and the
derivative :math:`r_{ik}` of its loss (whose square has the same mean). Sampling in
proportion to the influence keeps such rows with certainty and with their own weight.
"""

import numpy as np

from skcara.data import predictions, squared

# Effective number of rows behind a Hessian entry below which it is concentrated.
_MIN_EFFECTIVE_ROWS = 1500
_CHECKED_ROWS = 8192
# Entries smaller than this share of the typical one are unknown to the sample.
_NEGLIGIBLE = 1e-9
# Rows are drawn in proportion to their influence, whose accuracy does not matter as
# long as the weights of the drawn rows make up for what is used. Half precision covers
# the range from 1 down to 1e-12 in this unit, in a quarter of the memory.
_UNIT = 2.0**-15


def hessian_diagonal(reduced, params):
    """Diagonal of the Hessian of a reduced loss, (n_params, n_outputs)."""
    return _curvature_moments(reduced, params, stride=1)[0]


def is_concentrated(reduced, params) -> bool:
    r"""Whether some coordinate is carried by so few rows that a sample may miss it.

    The effective number of rows behind a sum of terms :math:`a_i` is
    :math:`(\sum a_i)^2 / \sum a_i^2`. A part of the rows is enough to estimate it.
    """
    stride = -(-reduced.n_rows // _CHECKED_ROWS)
    first, second = _curvature_moments(reduced, params, stride)
    if not first.all():
        return True
    effective_rows = stride * first**2 / second
    return bool(effective_rows.min() < _MIN_EFFECTIVE_ROWS)


def _curvature_moments(reduced, params, stride):
    """Sums of the terms of the Hessian diagonal, and of their squares."""
    first, second = np.zeros(reduced.shape), np.zeros(reduced.shape)
    for part, rows in reduced.parts(stride):
        curvature = row_curvature(reduced.loss, reduced.target[part], rows @ params)
        curvature *= reduced.weights[part, None]
        squares = squared(rows)
        first += squares.T @ curvature
        second += squared(squares).T @ np.square(curvature)
    return first, second


class RowDensity:
    """Half the influence of the rows, half their weights, where it is asked for.

    Parameters
    ----------
    problem : Problem
    influence : ndarray of shape (n_rows,)
        In any unit.
    """

    def __init__(self, problem, influence):
        self._problem = problem
        self._influence = influence
        self._total = influence.sum(dtype=np.float64)

    def __getitem__(self, rows):
        share = self._influence[rows].astype(np.float64)
        share /= self._total
        share += self._problem.row_weights(rows)
        return share


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
    influence : ndarray of float16 of shape (n_rows,)
        In units of ``_UNIT``, and at most one: a row has no more than the whole of a
        coordinate, and where the diagonal is unknown nothing else bounds its share.
    """
    typical = np.mean(diagonal, where=diagonal > 0) if diagonal.any() else 1.0
    inverse = 1.0 / np.maximum(diagonal, _NEGLIGIBLE * typical)
    design = problem.design
    coef, intercept = design.effective_params(params)
    # (x - shift)^2 = x^2 - 2 shift x + shift^2, without touching the rows.
    shift, scale = design.chunk_shift[:, None], design.chunk_scale[:, None]
    quadratic = inverse[: design.n_features] / scale**2
    linear = -2 * shift * quadratic
    constant = (shift**2 * quadratic).sum(axis=0)
    constant += inverse[design.n_features :].sum(axis=0)
    influence = np.empty(problem.n_rows, dtype=np.float16)

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        target = problem.target[part]
        prediction = predictions(rows, coef) + intercept
        size = rows @ linear + constant if shift.any() else constant
        size = np.maximum(size + squared(rows) @ quadratic, 0.0)
        importance = row_curvature(problem.loss, target, prediction)
        importance += np.square(problem.loss.derivative(target, prediction))
        exact = 0.5 * np.einsum("ik,ik->i", importance, size)
        exact *= problem.row_weights(part)
        influence[part] = np.minimum(exact, 1.0, out=exact) / _UNIT
        return ()

    design.map_reduce(visit)
    return influence


def row_curvature(loss, target, prediction):
    """Diagonal of the second derivative of each row's loss, (n_rows, n_outputs)."""
    second = loss.second_derivative(target, prediction)
    return second[:, None] if second.ndim == 1 else np.einsum("ikk->ik", second).copy()
