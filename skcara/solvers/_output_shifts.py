r"""Numbers that are added to all outputs of a column, in models with an L1 term.

The loss of several classes does not change with such a number :math:`c`, but the L1
term :math:`l1 \sum_k |p_k + c|` does: without any other curvature it is least where as
many outputs of the column are positive as negative, one of them being zero. Nothing
else finds that place quickly: coordinates alone would change the loss, and on a face
without zeros the matrix is singular along :math:`c`, so that steps end at the first
sign that changes. Outside of that direction faces with a zero in each column are as
well-conditioned as the loss.
"""

import numpy as np

_EPS = np.finfo(np.float64).eps
# Sums of slopes that cancel, relative to their terms: what is left is rounding.
_ROUNDING = 64 * _EPS


class OutputShifts:
    """The best numbers for all columns of a model.

    Parameters
    ----------
    matrix : ndarray of shape (n_coords, n_coords)
    l1 : ndarray of shape (n_coords,)
        The same for all outputs of a column.
    is_shifted : ndarray of bool of shape (n_coords,)
        Coordinates that may have any value; all outputs of a column, or none is moved.
    n_outputs : int
        So many coordinates, one after the other, belong to the same column.
    """

    def __init__(self, matrix, l1, is_shifted, n_outputs: int):
        shape = len(l1) // n_outputs, n_outputs
        self._shape = shape
        self._columns = is_shifted.reshape(shape).all(axis=1).nonzero()[0]
        self._l1 = l1.reshape(shape)[self._columns, 0]
        blocks = matrix.reshape(shape + shape)[self._columns, :, self._columns, :]
        curvature, sizes = blocks.sum(axis=(1, 2)), np.einsum("ijj->i", blocks)
        # Of a loss that does not change with such a number, rounding is left.
        curvature[curvature <= n_outputs * _EPS * sizes] = 0.0
        self._curvature = curvature

    def minimize(self, params, slope):
        """Params that were shifted to the minimum of the model, columns one by one.

        Parameters
        ----------
        params, slope : ndarray of shape (n_coords,)
            And the slope of the smooth part there.
        """
        values = params.reshape(self._shape)[self._columns]
        slopes = slope.reshape(self._shape)[self._columns]
        pull = slopes.sum(axis=1)
        pull[np.abs(pull) <= _ROUNDING * np.abs(slopes).sum(axis=1)] = 0.0
        shift = least_shift(values, pull, self._l1, self._curvature)
        moved = params.copy()
        moved.reshape(self._shape)[self._columns] += shift[:, None]
        return moved


def least_shift(values, pull, l1, curvature):
    r"""Minimise :math:`l1 \sum_k |v_k + c| + g c + \tfrac12\, h c^2`, row by row.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_terms)
    pull, l1, curvature : ndarray of shape (n_rows,)
        ``g``, ``l1 > 0`` and ``h >= 0``.

    Returns
    -------
    shift : ndarray of shape (n_rows,)
        ``c``; zero where there is no minimum.
    """
    n_rows, n_terms = values.shape
    rows, zeros = np.arange(n_rows), np.sort(-values, axis=1)
    # Slopes behind the zeros of the terms, at each of which they jump by twice l1.
    after = pull[:, None] + curvature[:, None] * zeros
    after += l1[:, None] * (2.0 * np.arange(1, n_terms + 1) - n_terms)
    n_falling = (after < 0).sum(axis=1)
    is_behind = n_falling == n_terms
    place = np.minimum(n_falling, n_terms - 1)
    shift, here = zeros[rows, place], after[rows, place]
    here = np.where(is_behind, here, np.maximum(here - 2.0 * l1, 0.0))
    # Between two zeros, or behind all of them, only a parabola has a minimum.
    has_minimum = curvature > 0
    shift -= np.where(has_minimum, here / np.where(has_minimum, curvature, 1.0), 0.0)
    shift[is_behind & ~has_minimum] = 0.0
    return shift
