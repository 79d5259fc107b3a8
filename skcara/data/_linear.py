r"""Linear predictions :math:`X B + b` for fitted models, in one read of ``X``.

NumPy and SciPy convert a whole matrix before they multiply it with coefficients of
another type: eight times the memory of int8, twice that of float32. Here only a chunk
of about two megabytes exists in the type of the result. What must be known of every
entry, such as whether it is finite, is asked while the chunk is in the cache, so that
data on disk are read once.
"""

from contextlib import nullcontext

import numpy as np
from scipy import sparse

from skcara.data._blas import one_blas_thread
from skcara.data._rows import row_range

# Two megabytes of doubles: a chunk and its product stay in the cache.
_CHUNK_ENTRIES = 2**18
# Strips of fewer rows would use only a part of each cache line of a column-major array.
_MIN_CHUNK_ROWS = 64


def linear_predictions(X, coef, intercept=0.0, *, inspect=None):
    r"""Product of all rows with coefficients, plus an intercept.

    Parameters
    ----------
    X : ndarray, CSR or CSC matrix of shape (n_rows, n_features)
        Of any numeric type and order, memory-mapped or not; read only, never copied.
    coef : ndarray of shape (n_features,) or (n_features, n_outputs)
        Of a floating type.
    intercept : float or ndarray of shape (n_outputs,)
    inspect : callable, optional
        Called with an array of the entries of each chunk before they are used; raises
        if it does not like them.

    Returns
    -------
    predictions : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        In the type that NumPy gives to the product of ``X`` and ``coef``.
    """
    shape = (X.shape[0], *coef.shape[1:])
    dtype = np.result_type(X.dtype, coef.dtype)
    coef = coef.astype(dtype, copy=False)
    if sparse.issparse(X) and X.format == "csc":
        return _sum_over_columns(X, coef, intercept, np.zeros(shape, dtype), inspect)
    out = np.empty(shape, dtype)
    chunk_rows = _rows_of_a_chunk(X)
    # Several threads of BLAS do not pay on a chunk; the cap itself, on a few rows.
    with one_blas_thread() if len(out) > chunk_rows else nullcontext():
        for start in range(0, len(out), chunk_rows):
            stop = min(start + chunk_rows, len(out))
            rows = row_range(X, start, stop)
            if inspect is not None:
                inspect(rows.data if sparse.issparse(rows) else rows)
            part = out[start:stop]
            if sparse.issparse(rows):
                part[:] = rows @ coef
            else:
                np.matmul(rows.astype(dtype, copy=False), coef, out=part)
            part += intercept
    return out


def _rows_of_a_chunk(X):
    n_entries = X.nnz if sparse.issparse(X) else X.size
    entries_per_row = max(n_entries / max(X.shape[0], 1), 1.0)
    return max(int(_CHUNK_ENTRIES / entries_per_row), _MIN_CHUNK_ROWS)


def _sum_over_columns(X, coef, intercept, out, inspect):
    """Add the products of groups of columns to ``out``: rows of CSC are not at hand."""
    # Every group costs an addition of all predictions: at least one entry for each row.
    group_entries = max(_CHUNK_ENTRIES, len(out))
    start, n_columns = 0, X.shape[1]
    while start < n_columns:
        limit = X.indptr[start] + group_entries
        stop = max(int(np.searchsorted(X.indptr, limit, side="right")) - 1, start + 1)
        # A group of columns is a range of rows of the transpose.
        columns = row_range(X.T, start, stop)
        if inspect is not None:
            inspect(columns.data)
        out += columns.T @ coef[start:stop]
        start = stop
    out += intercept
    return out
