"""Rows from parquet files, a batch of a row group at a time."""

from collections.abc import Iterable, Sequence
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from skcara.data import chunk_rows_for
from skcara.io._blocks import Block, Layout, located
from skcara.io._frames import ADVICE, check_distinct, fill_matrix, matrix_dtype
from skcara.io._optional import import_optional
from skcara.io._source import DataSource
from skcara.io._stored import StoredReader
from skcara.io._stream import Blocks, StreamReader

# What is read from a column of a row group at a time: row groups may be gigabytes.
_BUFFER_BYTES = 2**20


def from_parquet(
    paths: str | PathLike | Iterable[str | PathLike],
    target: str,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    cache: bool | Literal["auto"] = "auto",
) -> DataSource:
    """Read rows from parquet files that need not fit in memory.

    A fit reads the files once before the first pass, and then a few times more. Only
    the columns that are used are read, some thousand rows at a time.

    Parameters
    ----------
    paths : str, path or list of them
        Files, patterns such as ``"trips/*.parquet"`` or directories. The files of a
        pattern or directory are read in alphabetical order.
    target : str
        Column of the target: numbers, or labels of any type.
    weight : str, optional
        Column of the sample weights.
    columns : list of str, optional
        Columns of ``X``; default all others, which must be numbers.
    cache : {"auto", True, False}, default="auto"
        Whether the rows are copied to a temporary directory in a format that is much
        faster to read: if more than two reads are ahead and there is room, always, or
        never. The copy is removed at the end of the fit. It is kept between fits
        inside of a ``with`` block of the source.

    Returns
    -------
    source : DataSource
        To be given to ``fit``.

    Examples
    --------
    >>> source = from_parquet("trips/*.parquet", target="fare")  # doctest: +SKIP
    >>> CaLasso(alpha=0.01).fit(source)  # doctest: +SKIP
    """
    parquet = import_optional(
        "pyarrow.parquet", extra="parquet", needed_by="from_parquet"
    )
    stream = ParquetReader(parquet, _expand(paths), target, weight, columns)
    return DataSource(StoredReader(stream, cache))


def _expand(paths) -> list[Path]:
    """Files that are meant, in order."""
    given = [paths] if isinstance(paths, str | PathLike) else paths
    if not isinstance(given, Iterable) or hasattr(given, "collect"):
        raise TypeError(
            "paths must be the name of a file, a pattern, a directory or a list of "
            f"them, got {type(paths).__name__}. A dataset of pyarrow lists its files "
            "as dataset.files; rows of a lazy frame of polars can be given to "
            "from_chunks."
        )
    files = []
    for path in [fspath(one) for one in given]:
        if Path(path).is_dir():
            found = sorted(Path(path).rglob("*.parquet"))
        elif has_magic(path) and not Path(path).exists():
            found = [Path(name) for name in sorted(glob(path, recursive=True))]
        else:
            found = [Path(path)] if Path(path).exists() else []
        if not found:
            raise FileNotFoundError(f"No parquet file matches {path!r}.")
        files += found
    if not files:
        raise FileNotFoundError("paths is empty: there is no parquet file to read.")
    return files


class _File(NamedTuple):
    """A file as it was when it was first seen."""

    path: Path
    state: tuple[int, int]
    #: Number of the first row of each row group, and of the row behind the last.
    starts: np.ndarray


class ParquetReader(StreamReader):
    """Reader of the columns of some files that have the same columns."""

    def __init__(
        self, parquet, paths: Sequence[Path], target, weight=None, columns=None
    ):
        super().__init__()
        self._parquet = parquet
        self._target, self._weight = target, weight
        self._files: list[_File] = []
        types: dict = {}
        start = 0
        for path in paths:
            with located(f"File {path}"), parquet.ParquetFile(path) as file:
                found = self._types(file.schema_arrow, columns)
                types = types or found
                _check_same(types, found)
                metadata = file.metadata
                lengths = [
                    metadata.row_group(k).num_rows
                    for k in range(metadata.num_row_groups)
                ]
            starts = start + np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            self._files.append(_File(path, _state(path), starts))
            start = int(starts[-1])
        self.n_rows = start
        self._names = tuple(types)
        n_files = "1 parquet file" if len(paths) == 1 else f"{len(paths)} parquet files"
        self.description = f"{self.n_rows} rows of {n_files}"
        self._layout = Layout(
            n_features=len(types),
            dtype=matrix_dtype(np.dtype(t.to_pandas_dtype()) for t in types.values()),
            is_sparse=False,
            n_targets=None,
            has_weights=weight is not None,
            names=self._names,
        )
        self._chunk_rows = chunk_rows_for(len(types), is_sparse=False, in_memory=False)

    def _types(self, schema, columns) -> dict:
        """Types of the columns of ``X``, after checking that all columns are there."""
        own = [name for name in (self._target, self._weight) if name is not None]
        wanted = (
            [n for n in schema.names if n not in own]
            if columns is None
            else list(columns)
        )
        missing = [name for name in [*own, *wanted] if name not in schema.names]
        if missing:
            raise ValueError(
                f"There is no column {missing[0]!r}. The columns are: "
                f"{', '.join(map(repr, schema.names))}."
            )
        if overlap := set(own) & set(wanted):
            raise ValueError(f"columns contains the target or weight: {overlap}.")
        check_distinct(wanted)
        if not wanted:
            raise ValueError("There is no column beside the target and the weight.")
        types = {name: schema.field(name).type for name in wanted}
        bad = [name for name, kind in types.items() if not _is_number(kind)]
        if bad:
            raise TypeError(
                f"Columns {', '.join(map(repr, bad))} are not numbers. {ADVICE} "
                "from_parquet(..., columns=[...]) says which columns to read."
            )
        if self._weight and not _is_number(schema.field(self._weight).type):
            raise TypeError(f"The weights in column {self._weight!r} are not numbers.")
        return types

    def check_unchanged(self):
        """Raise an error if a file is not what it was."""
        for file in self._files:
            self._check_file(file)

    def _check_file(self, file):
        if not file.path.exists() or _state(file.path) != file.state:
            raise RuntimeError(
                f"The file {file.path} changed while it was being read. Results of "
                "different reads cannot be combined; start again."
            )

    def blocks(self) -> Blocks:
        """Yield all rows."""
        return self.blocks_from(0)

    def blocks_from(self, first_row: int) -> Blocks:
        """Yield the rows from the row group on that contains ``first_row``."""
        wanted = [*self._names, self._target, *filter(None, [self._weight])]
        for file in self._files:
            if file.starts[-1] <= first_row:
                continue
            self._check_file(file)
            first = max(int(np.searchsorted(file.starts, first_row, "right")) - 1, 0)
            start = int(file.starts[first])
            with self._parquet.ParquetFile(
                file.path, buffer_size=_BUFFER_BYTES, pre_buffer=False
            ) as opened:
                for batch in opened.iter_batches(
                    batch_size=self._chunk_rows,
                    row_groups=range(first, len(file.starts) - 1),
                    columns=wanted,
                ):
                    yield start, self._block(batch)
                    start += batch.num_rows
            self._check_file(file)

    def _block(self, batch):
        columns = [_values(batch.column(name)) for name in self._names]
        weights = None
        if self._weight is not None:
            weights = _values(batch.column(self._weight)).astype(np.float64)
        target = _values(batch.column(self._target))
        return Block(fill_matrix(columns, self.layout().dtype), target, weights)


def _values(column):
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    return column.to_numpy(zero_copy_only=False)


def _is_number(kind) -> bool:
    """Whether a type of Arrow is a boolean, an integer or a floating point number."""
    from pyarrow import types  # only here once it is known to be installed

    return types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)


def _check_same(types, found):
    for name, kind in found.items():
        if types.get(name) != kind:
            raise ValueError(
                f"Column {name!r} has type {kind}, in the first file "
                f"{types.get(name, 'it is missing')}. All files must agree."
            )
    if missing := set(types) - set(found):
        raise ValueError(f"Columns {sorted(missing)} of the first file are missing.")


def _state(path):
    """Size and time of the last change."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns
