"""Products of a chunk of rows with coefficients and with themselves."""

import numpy as np
from scipy import sparse

from skcara.data._sparse_gram import SparseGram

# With so many columns BLAS reads rows slower than memory could give them: its kernel
# walks along several of them at a time, which defeats prefetching. The product that
# meets the rows first had better read one after the other: a pass then takes 0.6 of the
# time with 100 columns, but 1.1 with 20 or 1000 (table 2 of ``bench_inner.py``).
_MIN_STREAMED_COLUMNS, _MAX_STREAMED_COLUMNS = 32, 512


def predictions(rows, coef):
    """Product of rows that are not in the cache yet with coefficients.

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
    n_columns, n_outputs = coef.shape
    if n_outputs > 1:
        return (coef.T @ rows.T).T
    is_streamed = _MIN_STREAMED_COLUMNS <= n_columns <= _MAX_STREAMED_COLUMNS
    if is_streamed and rows.flags.c_contiguous:
        return np.einsum("ij,j->i", rows, coef[:, 0])[:, None]
    return (rows @ coef[:, 0])[:, None]


def gram(rows):
    r"""Sum :math:`\sum_i x_i x_i^\top` of dense or sparse rows, as a dense matrix."""
    return SparseGram(rows).toarray() if sparse.issparse(rows) else rows.T @ rows
