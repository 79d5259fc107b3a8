"""Memory maps that are larger than the memory that could hold their pages.

Rows that are drawn from all over a file make the system read nearly all of it, and what
does not fit is read again in the next pass. A file that fits stays in memory after the
first touch, whatever the order. A larger one is read from its beginning to its end
only; its random rows come from a pool that the first read takes along.
"""

import mmap
import os

import numpy as np

from skcara.io._blocks import Block, aligned
from skcara.io._source import DataSource
from skcara.io._stream import Blocks, StreamReader

# Share of the memory of the machine that pages of a file may take.
_SHARE_OF_MEMORY = 0.5
# Rows that are looked at to decide how many make a chunk.
_FIRST_ROWS = 1024


def is_larger_than_memory(X) -> bool:
    """Whether ``X`` is a memory map whose pages may not stay in memory."""
    return _is_mapped(X) and X.nbytes > _SHARE_OF_MEMORY * _memory_bytes()


def _is_mapped(X) -> bool:
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, mmap.mmap)


def _memory_bytes() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a system that can say
        return np.inf


def from_memory_map(X, y, weights=None) -> DataSource:
    """Read rows of checked arrays from the first to the last.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
    weights : sliceable of length n_rows, optional
    """
    return DataSource(MapReader(X, y, weights))


class MapReader(StreamReader):
    """Reader of slices of arrays."""

    def __init__(self, X, y, weights):
        super().__init__()
        self._arrays = (X, y, weights)
        self.description = f"{len(X)} rows of a memory map"

    def blocks(self) -> Blocks:
        """Yield all rows."""
        return self.blocks_from(0)

    def blocks_from(self, first_row: int) -> Blocks:
        """Yield the rows from ``first_row`` on, in steps of a chunk."""
        X, y, weights = self._arrays
        step = self._chunk_rows or _FIRST_ROWS
        for start in range(first_row - first_row % step, len(X), step):
            part = slice(start, start + step)
            own = None if weights is None else weights[part]
            yield start, aligned(Block(np.asarray(X[part]), y[part], own))
