"""Products of a chunk of rows with coefficients and with themselves."""

import numpy as np
from scipy import sparse

from skcara.data._sparse_gram import SparseGram

# From this many columns BLAS reads the rows slower than the memory could give them: its
# kernel walks along several rows at a time, which defeats prefetching. The product
# that meets the rows first should read them one after the other.
_MIN_STREAMED_COLUMNS = 32


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
    is_streamed = n_outputs == 1 and n_columns >= _MIN_STREAMED_COLUMNS
    if is_streamed and rows.flags.c_contiguous:
        return np.einsum("ij,j->i", rows, coef[:, 0])[:, None]
    return (coef.T @ rows.T).T


def gram(rows):
    r"""Sum :math:`\sum_i x_i x_i^\top` of dense or sparse rows, as a dense matrix."""
    return SparseGram(rows).toarray() if sparse.issparse(rows) else rows.T @ rows
