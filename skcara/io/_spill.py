"""A copy of a stream on disk that is faster to read than the stream.

Decoding parquet costs ten times more than reading plain numbers. From the third read on
a copy pays for itself. It lives in a temporary directory of its own (``TMPDIR`` says
where) and is removed with the object that made it, after errors too.
"""

import shutil
import tempfile
import weakref
from collections.abc import Generator
from pathlib import Path

import numpy as np

from skcara.io._blocks import Block, Layout
from skcara.io._labels import sorted_labels

# Share of the free space that a copy may take.
_MAX_SHARE_OF_DISK = 0.9


class Spill:
    """Rows, targets and weights in plain files.

    Parameters
    ----------
    layout : Layout
        Of dense rows.
    """

    def __init__(self, layout: Layout):
        self._layout = layout
        self._directory = Path(tempfile.mkdtemp(prefix="skcara-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self._directory, True)
        self._labels = LabelTable()
        self._target_dtype: np.dtype | None = None
        self._names = ["rows", "target"] + ["weights"] * layout.has_weights
        self._files = {
            # No buffer: what it holds when the disk is full would fail again later.
            name: open(self._directory / name, "wb", buffering=0)
            for name in self._names
        }
        self.n_rows = 0
        self.is_complete = False

    @staticmethod
    def has_room(n_bytes: int) -> bool:
        """Whether the temporary directory has room for a copy."""
        free = shutil.disk_usage(tempfile.gettempdir()).free
        return n_bytes <= _MAX_SHARE_OF_DISK * free

    def append(self, block: Block):
        """Write a block behind the others.

        Raises
        ------
        OSError
            If the disk is full; the copy is gone then.
        """
        target = block.target
        if target.dtype.kind not in "biuf":
            target = self._labels.encode(target)
        self._target_dtype = target.dtype
        try:
            for name, array in zip(
                self._names, (block.rows, target, block.weights), strict=False
            ):
                _write_all(self._files[name], array)
        except OSError as error:
            self.remove()
            raise OSError(
                error.errno,
                f"A temporary copy of the data in {tempfile.gettempdir()} failed: "
                f"{error.strerror}. Set TMPDIR to a directory with more room, or read "
                "the files at every pass with cache=False.",
            ) from error
        self.n_rows += block.n_rows

    def complete(self):
        """Make what was written readable."""
        self._close_files()
        self.is_complete = True

    def blocks_from(
        self, first_row: int, block_rows: int
    ) -> Generator[tuple[int, Block], None, None]:
        """Yield blocks of ``block_rows`` rows, the first of which has ``first_row``."""
        n_targets = self._layout.n_targets
        shape = (self.n_rows,) if n_targets is None else (self.n_rows, n_targets)
        rows = self._map("rows", self._layout.dtype, (-1, self._layout.n_features))
        target = self._map("target", self._target_dtype, shape)
        weights = None
        if self._layout.has_weights:
            weights = self._map("weights", np.float64, (self.n_rows,))
        first = first_row - first_row % block_rows
        for start in range(first, self.n_rows, block_rows):
            part = slice(start, start + block_rows)
            yield (
                start,
                Block(
                    rows[part],
                    self._labels.decode(target[part]),
                    None if weights is None else weights[part],
                    self._layout.names,
                ),
            )

    def _map(self, name, dtype, shape):
        # Pages of a mapped file are not counted as memory in use, and are given back
        # by the system whenever something else needs them.
        mapped = np.memmap(self._directory / name, dtype=dtype, mode="r")
        return np.asarray(mapped).reshape(shape)

    def remove(self):
        """Delete the files."""
        self._close_files()
        self.is_complete = False
        self._remove()

    def _close_files(self):
        for file in self._files.values():
            file.close()


def _write_all(file, array):
    if array.size:
        data = np.ascontiguousarray(array).data.cast("B")
        while data:
            data = data[file.write(data) :]


class LabelTable:
    """Numbers for labels that are no numbers, in the order of their appearance."""

    def __init__(self):
        self._numbers: dict = {}

    def encode(self, target):
        """Numbers of the labels."""
        labels, codes = sorted_labels(target)
        for label in labels.tolist():
            self._numbers.setdefault(label, len(self._numbers))
        numbers = [self._numbers[label] for label in labels.tolist()]
        return np.array(numbers, dtype=np.int32)[codes]

    def decode(self, target):
        """Labels of the numbers; numbers that never were labels stay as they are."""
        if not self._numbers:
            return target
        return np.array(list(self._numbers), dtype=object)[target]
