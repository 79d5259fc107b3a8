"""Rows that come in order, one block after the other.

Blocks are cut into chunks and chunks gathered in spans of a fixed number of rows, as in
memory: the same rows give the same bits, however they were cut into blocks or files.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator

import numpy as np
from scipy import sparse

from skcara.data import SPAN_CHUNKS, Chunk, chunk_rows_for
from skcara.io._blocks import Block, Layout, as_chunk, cut_chunks, pick_rows, with_atoms
from skcara.io._pool import Pool
from skcara.io._sums import merged
from skcara.io._watch import Watch

#: Blocks in order, each with the number of its first row.
Blocks = Generator[tuple[int, Block], None, None]


class StreamReader(ABC):
    """Base of the readers of streams."""

    description = "a stream"

    def __init__(self):
        self.watch = Watch()
        self._layout: Layout | None = None
        self._chunk_rows = 0
        self._n_rows: int | None = None
        self._n_open = 0
        self._reads_ahead = 0

    def open(self, expected_reads: int):
        """Get ready for about so many reads; calls nest."""
        self._n_open += 1
        self._reads_ahead = max(self._reads_ahead, expected_reads)

    def close(self):
        """Drop what was held for further reads, at the last of nested calls."""
        self._n_open -= 1
        if self._n_open == 0:
            self._release()

    def _release(self):
        self._reads_ahead = 0

    @abstractmethod
    def blocks(self) -> Blocks:
        """Yield all blocks in order, each with the number of its first row."""

    def blocks_from(self, first_row: int) -> Blocks:
        """Yield the blocks from the one on that contains ``first_row``."""
        for start, block in self.blocks():
            if start + block.n_rows > first_row:
                yield start, block

    # ---- layout ------------------------------------------------------------------

    def layout(self) -> Layout:
        """Layout of the first block."""
        if self._layout is None:
            blocks = self.blocks_from(0)
            try:
                _, block = next(blocks, (0, None))
            finally:
                blocks.close()
            if block is None:
                raise ValueError(f"{self.description}: there are no rows.")
            self._layout = Layout.of(block)
            is_sparse = sparse.issparse(block.rows)
            n_entries = block.rows.nnz if is_sparse else block.rows.size
            self._chunk_rows = chunk_rows_for(
                n_entries / max(block.n_rows, 1), is_sparse=is_sparse, in_memory=False
            )
        return self._layout

    def chunk_rows(self) -> int:
        """Most rows of a chunk, a power of two."""
        self.layout()
        return self._chunk_rows

    def depth(self, n_rows: int) -> int:
        """Most additions, one after the other, of a term of a sum over all rows."""
        chunk_rows = self.chunk_rows()
        n_spans = -(-n_rows // (SPAN_CHUNKS * chunk_rows))
        return min(chunk_rows, n_rows) + SPAN_CHUNKS + n_spans

    # ---- reads -------------------------------------------------------------------

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in order."""
        chunk_rows, n_rows = self.chunk_rows(), 0
        self.watch.begin(self._n_rows)
        for chunk in cut_chunks((b for _, b in self.blocks()), chunk_rows):
            n_rows += chunk.n_rows
            yield chunk
            self.watch.advance(chunk.n_rows)
        self.watch.end()
        if self._n_rows not in (None, n_rows):
            raise ValueError(
                f"{self.description}: {self._n_rows} rows in the first read, {n_rows} "
                "in this one. The data changed."
            )
        self._n_rows = n_rows
        self._reads_ahead -= 1

    def fold(self, task, labels=None):
        """Total of a task over all rows, in one read."""
        return self._fold(task, labels=labels)

    def survey(self, task, capacity):
        """Total of a task, and a pool of rows, in one read."""
        pool = Pool(capacity)
        total = self._fold(task, pool)
        if total is None:
            return None, None
        return total, pool.finish(total.n_rows, total.total_weight)

    def _fold(self, task, pool=None, labels=None):
        span_rows = SPAN_CHUNKS * self.chunk_rows()
        total = span_total = None
        for chunk in self.chunks():
            if chunk.start % span_rows == 0:
                total = merged(task, total, span_total)
                span_total = None
            chunk = with_atoms(chunk, labels)
            span_total = merged(task, span_total, task.visit(chunk))
            if pool is not None:  # behind the task, which refuses bad weights
                pool.offer(chunk)
        return merged(task, total, span_total)

    def take(self, indices: np.ndarray) -> Iterator[Chunk]:
        """Yield the rows with these ascending numbers; reads no further than needed."""
        if not len(indices):
            return
        done = 0
        for start, block in self.blocks_from(int(indices[0])):
            last = int(np.searchsorted(indices, start + block.n_rows))
            rows = indices[done:last] - start
            if rows.size:
                yield as_chunk(pick_rows(block, rows), done)
            done = last
            if done == len(indices):
                return
