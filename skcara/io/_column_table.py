"""Tables in memory whose columns are stored apart: read by rows, never copied whole.

Columns of different types, or columns that were added one by one, are no matrix, and
making one would take the memory of the table once more. :class:`ColumnTable` looks like
a matrix to whoever asks for some rows, and converts only those.
"""

from typing import Any

import numpy as np

from skcara.io._frames import is_frame, is_number, is_table


class ColumnTable:
    """Columns that can be indexed by rows like a matrix.

    Rows come as a column-major matrix of their own: a column is copied in one piece.

    Parameters
    ----------
    columns : list of sliceables
        Give an array of NumPy for a slice or an array of row numbers.
    dtype : dtype
        Type of the rows.
    n_rows : int
    """

    ndim = 2

    def __init__(self, columns: list, dtype: np.dtype, n_rows: int):
        self._columns = columns
        self.dtype = dtype
        self.shape = (n_rows, len(columns))

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key) -> np.ndarray:
        """Copy of some rows, or of some columns of some rows."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if np.ndim(rows) == 0 and not isinstance(rows, slice):
            return self[[rows], columns][0]
        rows = self._contiguous(rows)
        is_range = isinstance(rows, slice)
        n_rows = len(range(*rows.indices(len(self)))) if is_range else len(rows)
        numbers = np.arange(self.shape[1])[columns]
        matrix = np.empty((n_rows, len(numbers)), dtype=self.dtype, order="F")
        for place, number in enumerate(numbers):
            matrix[:, place] = self._columns[number][rows]
        return matrix

    def _contiguous(self, rows):
        """Row numbers, as a slice only if it is one without gaps."""
        if isinstance(rows, slice):
            steps = rows.indices(len(self))
            return rows if steps[2] == 1 else np.arange(*steps)
        return np.asarray(rows)


def as_columns(X) -> ColumnTable | None:
    """Read a frame or table by its columns, if that saves a copy.

    Returns
    -------
    table : ColumnTable or None
        None if ``X`` is no table, or a matrix already, or has columns that only
        scikit-learn knows how to convert or to refuse.
    """
    if not (is_frame(X) or is_table(X)) or 0 in X.shape or _is_matrix(X):
        return None
    columns = [_readable_column(column) for column in _columns_of(X)]
    if any(column is None for column in columns):
        return None
    # An empty slice says which type rows will have.
    types = [column[:0].dtype for column in columns]
    if not all(map(is_number, types)):
        return None
    has_booleans = any(dtype.kind == "b" for dtype in types)
    dtype = np.dtype(np.float64) if has_booleans else np.result_type(*types)
    return ColumnTable(columns, dtype, X.shape[0])


def _is_matrix(X) -> bool:
    """Whether the frame is stored as a matrix, which can be had without a copy."""
    if is_table(X):
        return False
    few = X.iloc[:2] if hasattr(X, "iloc") else X[:2]
    first = next(iter(_columns_of(few)))
    return np.may_share_memory(few.to_numpy(), first.to_numpy())


def _columns_of(X):
    if hasattr(X, "iloc"):
        return (X.iloc[:, number] for number in range(X.shape[1]))
    return X.get_columns() if hasattr(X, "get_columns") else X.columns


def _readable_column(column):
    """What gives arrays for slices of a column; None if it is unknown how."""
    dtype: Any = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype):
        return column.to_numpy()
    if hasattr(column, "iloc"):
        # Types of pandas that mark missing values beside the numbers.
        is_masked = dtype.kind in "biuf" and not hasattr(dtype, "subtype")
        return _MaskedColumn(column.array) if is_masked else None
    if hasattr(column, "gather"):  # polars
        return _NullableColumn(column, column.null_count(), column.gather)
    return _NullableColumn(column, column.null_count, column.take, zero_copy_only=False)


class _MaskedColumn:
    """Column of pandas with a mask of its missing values, as floating numbers."""

    def __init__(self, array):
        self._array = array
        is_single = array.dtype.kind == "f" and array.dtype.itemsize == 4
        self._dtype = np.dtype(np.float32 if is_single else np.float64)

    def __getitem__(self, rows) -> np.ndarray:
        return self._array[rows].to_numpy(dtype=self._dtype, na_value=np.nan)


class _NullableColumn:
    """Column of polars or pyarrow; missing values are NaN.

    Parameters
    ----------
    column : Series, ChunkedArray or Array
    n_missing : int
    take : callable
        Gives the entries of the column with some numbers.
    options : dict
        Of ``to_numpy``.
    """

    def __init__(self, column, n_missing: int, take, **options):
        self._column, self._take, self._options = column, take, options
        self._has_missing = n_missing > 0

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self._column))
            part = self._column.slice(start, max(stop - start, 0))
        else:
            part = self._take(rows)
        values = part.to_numpy(**self._options)
        if self._has_missing and values.dtype != np.float32:
            # Booleans with missing values would be objects.
            return values.astype(np.float64)
        return values
