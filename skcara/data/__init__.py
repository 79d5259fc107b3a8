"""Rows of the user's data, read in chunks: the lowest layer of the package."""

from skcara.data._blas import one_blas_thread
from skcara.data._design import Design
from skcara.data._group_sums import group_sums
from skcara.data._products import predictions
from skcara.data._rows import (
    append_ones,
    row_range,
    scaled_rows,
    squared,
    transposed,
)

__all__ = [
    "Design",
    "append_ones",
    "group_sums",
    "one_blas_thread",
    "predictions",
    "row_range",
    "scaled_rows",
    "squared",
    "transposed",
]
