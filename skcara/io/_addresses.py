"""Numbers for rows of parts whose lengths are not known yet.

The *address* of a row says its part and its number in the part. Addresses ascend in the
order of the rows, and become row numbers once the lengths of all parts are known.
"""

import numpy as np

# More rows than a part can have; 2**23 parts are left.
_STRIDE = 2**40


def first_address(part: int) -> int:
    """Address of the first row of a part."""
    return part * _STRIDE


def row_number(address) -> int:
    """Number of a row in its part."""
    return address % _STRIDE


def to_numbers(addresses, starts):
    """Numbers of rows in the source.

    Parameters
    ----------
    addresses : ndarray of int
    starts : ndarray of int of shape (n_parts + 1,)
        Number of the first row of each part.
    """
    return starts[addresses // _STRIDE] + addresses % _STRIDE


def starts_of(lengths):
    """Number of the first row of each part, and of the row behind the last."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
