"""Rows in all the layouts in which users have them."""

import numpy as np
from scipy import sparse


def make_rows(rng, n_rows=40_000, n_features=6):
    """Columns of different scales and means."""
    X = rng.standard_normal((n_rows, n_features)) * np.logspace(-2, 2, n_features)
    return X + np.arange(n_features)


def _with_wide_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def unaligned(X):
    """Copy whose entries start at odd addresses."""
    memory = np.empty(X.nbytes + 1, dtype=np.uint8)
    view = np.ndarray(X.shape, X.dtype, memory.data, offset=1)
    view[...] = X
    assert not view.flags.aligned
    return view


LAYOUTS = {
    "c": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "int16": lambda X: X.astype(np.int16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "unaligned": unaligned,
    "csr": sparse.csr_array,
    "csr-int64": lambda X: _with_wide_indices(sparse.csr_array(X)),
}


def dense(X):
    """Plain float64 matrix."""
    return X.toarray() if sparse.issparse(X) else X.astype(np.float64)
