"""Rows of the user's data, read in chunks: the lowest layer of the package."""

from skcara.data._blas import one_blas_thread
from skcara.data._design import Design

__all__ = ["Design", "one_blas_thread"]
