r"""Whether a sample misses what few rows say.

See :mod:`skcara.passes._influence` for the rows that are then drawn instead.
"""

import numpy as np

from skcara.data import squared

# Effective number of rows behind a Hessian entry below which it is concentrated.
_MIN_EFFECTIVE_ROWS = 1500
_CHECKED_ROWS = 8192


def hessian_diagonal(reduced, params):
    """Diagonal of the Hessian of a reduced loss, (n_params, n_outputs)."""
    return _curvature_moments(reduced, params, stride=1)[0]


def is_concentrated(reduced, params, *, least: int = _MIN_EFFECTIVE_ROWS) -> bool:
    r"""Whether some coordinate is carried by so few rows that a sample may miss it.

    The effective number of rows behind a sum of terms :math:`a_i` is
    :math:`(\sum a_i)^2 / \sum a_i^2`. A part of the rows is enough to estimate it.

    Parameters
    ----------
    reduced : ReducedProblem
    params : ndarray of shape (n_params, n_outputs)
    least : int
        Effective number of rows that is enough.
    """
    stride = -(-reduced.n_rows // _CHECKED_ROWS)
    first, second = _curvature_moments(reduced, params, stride)
    if not first.all():
        return True
    effective_rows = stride * first**2 / second
    return bool(effective_rows.min() < least)


def _curvature_moments(reduced, params, stride):
    """Sums of the terms of the Hessian diagonal, and of their squares."""
    first, second = np.zeros(reduced.shape), np.zeros(reduced.shape)
    for part, rows in reduced.parts(stride):
        curvature = reduced.loss.curvature(reduced.target[part], rows @ params)
        curvature *= reduced.weights[part, None]
        squares = squared(rows)
        first += squares.T @ curvature
        second += squared(squares).T @ np.square(curvature)
    return first, second
