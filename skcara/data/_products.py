"""Products of a chunk of rows with coefficients and with themselves."""

import numpy as np
from scipy import sparse

from skcara.data._rows import row_range

# A sparse product of two rows costs so much more per entry than a dense one that it
# pays only for rows with a smaller share of entries than this.
_DENSE_SHARE = 0.06
# Entries of dense rows that are made at a time: they stay in the cache. A product of
# fewer rows than these would not be worth a call.
_DENSE_ENTRIES, _MIN_DENSE_ROWS = 2**16, 128


def predictions(rows, coef):
    """Product of rows with coefficients.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_columns)
    coef : ndarray of shape (n_columns, n_outputs)

    Returns
    -------
    predictions : ndarray of shape (n_rows, n_outputs)
        A new array; outputs one after the other in memory, as the losses like it best.
    """
    if sparse.issparse(rows):
        return rows @ coef
    if coef.shape[1] == 1:
        return (rows @ coef[:, 0])[:, None]
    return (coef.T @ rows.T).T


def gram(rows):
    r"""Sum :math:`\sum_i x_i x_i^\top` of dense or sparse rows, as a dense matrix."""
    if not sparse.issparse(rows):
        return rows.T @ rows
    if rows.nnz < _DENSE_SHARE * np.prod(rows.shape):
        return (rows.T @ rows).toarray()
    n_rows, n_columns = rows.shape
    total, step = (
        np.zeros((n_columns, n_columns)),
        max(_DENSE_ENTRIES // n_columns, _MIN_DENSE_ROWS),
    )
    for start in range(0, n_rows, step):
        part = row_range(rows, start, min(start + step, n_rows)).toarray()
        total += part.T @ part
    return total
