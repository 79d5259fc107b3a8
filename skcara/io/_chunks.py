"""Rows from a function of the user's that yields them."""

from collections.abc import Callable

from skcara.io._blocks import located, make_block
from skcara.io._source import DataSource
from skcara.io._stream import Blocks, StreamReader


def from_chunks(open_chunks: Callable) -> DataSource:
    """Read rows from a function that yields them in order.

    The rows are read several times, a chunk at a time, and never held together. A fit
    reads them once before the first pass.

    Parameters
    ----------
    open_chunks : callable
        Takes nothing and returns a fresh iterator of tuples ``(X, y)`` or
        ``(X, y, weight)``, every time the same rows in the same order. ``X`` is an
        array, a sparse matrix or a DataFrame of any number of rows.

    Returns
    -------
    source : DataSource
        To be given to ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from skcara.io import from_chunks
    >>> def open_chunks():
    ...     for day in range(7):
    ...         X = np.random.default_rng(day).standard_normal((1000, 5))
    ...         yield X, X.sum(axis=1)
    >>> source = from_chunks(open_chunks)
    >>> source.n_features
    5
    """
    return DataSource(ChunkReader(open_chunks))


class ChunkReader(StreamReader):
    """Reader of the chunks that a function yields."""

    description = "the chunks of open_chunks"

    def __init__(self, open_chunks):
        super().__init__()
        if not callable(open_chunks):
            raise TypeError(
                "open_chunks must be a function that returns a fresh iterator at every "
                f"call, got {type(open_chunks).__name__}. The rows are read several "
                "times, and an iterator can be read only once."
            )
        first, second = open_chunks(), open_chunks()
        if first is second and iter(first) is first:
            raise TypeError(
                "open_chunks returned the same iterator twice. It must open the data "
                "anew at every call, because the rows are read several times."
            )
        self._open_chunks = open_chunks
        self._lengths: list[int] | None = None

    def blocks(self) -> Blocks:
        """Yield the user's chunks, checked."""
        lengths, start = [], 0
        for number, chunk in enumerate(self._open_chunks()):
            with located(f"Chunk {number}"):
                block = make_block(*_parts(chunk))
                if self._layout is not None:
                    self._layout.check(block)
                self._check_length(number, block.n_rows)
            lengths.append(block.n_rows)
            yield start, block
            start += block.n_rows
        if self._lengths is None:
            # A chunk that was looked at before must be there again.
            n_seen = int(self._layout is not None)
            _check_count(max(len(lengths), n_seen), len(lengths))
            self._lengths = lengths
        _check_count(len(self._lengths), len(lengths))

    def _check_length(self, number, n_rows):
        if self._lengths is None:
            return
        expected = self._lengths[number] if number < len(self._lengths) else 0
        if n_rows != expected:
            raise ValueError(
                f"{expected} rows in the first read, {n_rows} in this one. open_chunks "
                "must yield the same rows at every call."
            )


def _check_count(n_expected, n_chunks):
    if n_chunks != n_expected:
        raise ValueError(
            f"open_chunks yielded {n_expected} chunks in the first read and {n_chunks} "
            "in this one; it must yield the same rows at every call. An iterator that "
            "was made outside of it can be read only once."
        )


def _parts(chunk):
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise TypeError(
            "open_chunks must yield tuples (X, y) or (X, y, weight), got "
            f"{type(chunk).__name__}."
        )
    return chunk
