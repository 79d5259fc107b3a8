"""A stream that is copied to disk when more than two reads are ahead."""

from skcara.io._blocks import Layout
from skcara.io._spill import Spill
from skcara.io._stream import Blocks, StreamReader

# Reads of the original from which a copy pays for itself: writing costs about one read,
# reading the copy a tenth of it.
_MOST_READS = 2


class StoredReader(StreamReader):
    """Reads a stream, and a copy of it once there is one.

    Parameters
    ----------
    stream : StreamReader
        Of dense rows, whose number is known as ``stream.n_rows``.
    cache : {"auto", True, False}
        Whether to copy: when more than two reads are ahead and there is room, always,
        or never.
    """

    def __init__(self, stream, cache):
        super().__init__()
        if cache not in ("auto", True, False):
            raise ValueError(f'cache must be "auto", True or False, got {cache!r}.')
        self._stream = stream
        self._cache = cache
        self._spill: Spill | None = None
        self._n_reads = 0
        self.description = stream.description

    def layout(self) -> Layout:
        """Layout of the stream."""
        return self._stream.layout()

    def chunk_rows(self) -> int:
        """Most rows of a chunk, a power of two."""
        return self._stream.chunk_rows()

    def blocks(self) -> Blocks:
        """Yield all blocks, from the copy if there is one."""
        self._n_reads += 1
        if self._spill is None and self._pays():
            yield from self._copied()
        else:
            yield from self.blocks_from(0)

    def blocks_from(self, first_row: int) -> Blocks:
        """Yield the blocks from the one on that contains ``first_row``."""
        if self._spill is None:
            return self._stream.blocks_from(first_row)
        self._stream.check_unchanged()
        return self._spill.blocks_from(first_row, self.chunk_rows())

    def _copied(self):
        spill = Spill(self.layout())
        try:
            for start, block in self._stream.blocks():
                spill.append(block)
                yield start, block
            spill.complete()
        except BaseException:
            # An error here, in the task that reads, or the end of the process.
            spill.remove()
            raise
        self._spill = spill

    def _pays(self) -> bool:
        """Whether this read should also write a copy."""
        if not self._n_open or self._cache is False:
            return False
        has_room = Spill.has_room(self._n_bytes())
        if self._cache is True:
            if not has_room:
                raise OSError(
                    f"cache=True needs {self._n_bytes() / 1e9:.1f} GB in the temporary "
                    "directory. Set TMPDIR to a directory with more room, or read the "
                    "files at every pass with cache=False."
                )
            return True
        is_worth_it = max(self._n_reads - 1, self._reads_ahead) > _MOST_READS
        return has_room and is_worth_it

    def _n_bytes(self):
        layout = self.layout()
        row_bytes = layout.dtype.itemsize * layout.n_features + 8 * (
            (layout.n_targets or 1) + layout.has_weights
        )
        return row_bytes * self._stream.n_rows

    def _release(self):
        super()._release()
        self._n_reads = 0
        if self._spill is not None:
            self._spill.remove()
            self._spill = None
