"""Operations on rows that are the same for dense and sparse ones."""

import numpy as np
from scipy import sparse


def row_range(rows, start: int, stop: int):
    """Rows ``start:stop``, sharing the memory of ``rows``.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_columns)
    start, stop : int
    """
    if not sparse.issparse(rows):
        return rows[start:stop]
    # Slicing would search every row for its columns, and both slicing and building a
    # matrix from views would copy the entries.
    first, last = rows.indptr[start], rows.indptr[stop]
    part = sparse.csr_array((stop - start, rows.shape[1]), dtype=rows.dtype)
    part.data, part.indices = rows.data[first:last], rows.indices[first:last]
    part.indptr = rows.indptr[start : stop + 1] - first
    return part


def append_ones(rows):
    """Rows with a column of ones behind, in the same format."""
    n_rows, n_columns = rows.shape
    if not sparse.issparse(rows):
        return np.hstack([rows, np.ones((n_rows, 1))])
    # Stacking would go through another format and copy the entries three times.
    indptr = rows.indptr + np.arange(n_rows + 1, dtype=rows.indptr.dtype)
    is_entry = np.ones(indptr[-1], dtype=bool)
    is_entry[indptr[1:] - 1] = False
    data = np.ones(len(is_entry))
    indices = np.full(len(is_entry), n_columns, dtype=rows.indices.dtype)
    data[is_entry], indices[is_entry] = rows.data, rows.indices
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, n_columns + 1))
