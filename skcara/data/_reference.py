"""A point near all rows, and how far they are from it, learned from some of them.

The shares of the rows are weights that add up to one.
"""

import numpy as np
from scipy import sparse

from skcara.data._rows import centred_strips, row_strips

_EPS = np.finfo(np.float64).eps
# Share of a mean square that must be left after that of the mean is subtracted: two
# digits are lost where it is less.
_MIN_SHARE_LEFT = 0.01


def weighted_centre(values, shares):
    """Weighted mean of the columns, exactly the value of a constant column.

    It is zero in a column of sparse rows that has no entry in some of them.
    """
    if sparse.issparse(values):
        is_full = np.bincount(values.indices, minlength=values.shape[1]) == len(shares)
        centre = np.zeros(values.shape[1])
        centre[is_full] = weighted_centre(values[:, is_full].toarray(), shares)
        return centre
    mean = shares @ values
    # Two rows tell of most columns that they are not constant.
    if not np.count_nonzero(values[0] == values[-1]):
        return mean
    return np.where((values == values[0]).all(axis=0), values[0], mean)


def weighted_square(rows, shares, centre):
    """Weighted mean square of the deviations of the columns from their centre.

    It is exactly zero for a column in which nothing but rounding is left of them. The
    mean squares of sparse rows are those of their entries.
    """
    if sparse.issparse(rows):
        return shares @ rows.power(2)
    # Squares of the rows as they are cost half of those of deviations, which columns
    # far from zero need to keep their digits.
    raw = _weighted_sums(row_strips(rows, np.square), shares, len(centre))
    with np.errstate(invalid="ignore"):  # squares may be too large
        square = raw - centre**2
    far = np.flatnonzero(~(square > _MIN_SHARE_LEFT * raw))
    if far.size:
        strips = centred_strips(rows[:, far], centre[far])
        squares = ((part, np.square(one, out=one)) for part, one in strips)
        square[far] = _weighted_sums(squares, shares, len(far))
    # The error of a sum over the rows.
    square[np.sqrt(square) <= len(rows) * _EPS * np.abs(centre)] = 0.0
    return square


def _weighted_sums(strips, shares, n_columns):
    total = np.zeros(n_columns)
    for part, values in strips:
        total += shares[part] @ values
    return total
