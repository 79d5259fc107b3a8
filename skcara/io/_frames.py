"""Tables with named columns: pandas, polars and pyarrow, one slice at a time.

None of them is imported here. A frame is known by what it can do, so that whoever has
none of these packages pays for none.
"""

import numpy as np

#: What to do about a column that is not a number.
ADVICE = (
    "Encode such columns as numbers first (for instance one column of zeros and ones "
    "per category) or leave them out."
)


def is_frame(X) -> bool:
    """Whether ``X`` is a DataFrame of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "to_numpy")


def is_table(X) -> bool:
    """Whether ``X`` is a table or a record batch of pyarrow."""
    return hasattr(X, "column_names") and hasattr(X, "schema")


def frame_matrix(frame):
    """Return the columns of a frame as a row-major matrix, and their names.

    Single precision where all columns have it, else double.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_columns)
    names : tuple of str

    Raises
    ------
    TypeError
        Naming the columns that are not numbers.
    ValueError
        If two columns have the same name.
    """
    check_distinct(getattr(frame, "column_names", frame.columns))
    columns = dict(_columns(frame))
    check_numeric({name: values.dtype for name, values in columns.items()})
    dtype = matrix_dtype(values.dtype for values in columns.values())
    return fill_matrix(list(columns.values()), dtype), tuple(columns)


def _columns(frame):
    if is_table(frame):
        for name in frame.column_names:
            yield str(name), frame[name].to_numpy(zero_copy_only=False)
        return
    for name in frame.columns:
        yield str(name), _column_values(frame[name])


def _column_values(column):
    dtype = column.dtype
    if any(kind in str(dtype).lower() for kind in ("category", "categorical", "enum")):
        # The codes of categories are numbers, but mean none.
        return np.empty(0, dtype=object)
    # Types of pandas that mark missing values beside the numbers.
    numbers = getattr(dtype, "numpy_dtype", None)
    if numbers is not None and is_number(numbers):
        wanted = np.float32 if numbers == np.float32 else np.float64
        return column.to_numpy(dtype=wanted, na_value=np.nan)
    return column.to_numpy()


def check_distinct(names):
    """Raise an error that names a column that is there twice."""
    seen: set = set()
    for name in map(str, names):
        if name in seen:
            raise ValueError(
                f"Column {name!r} is there more than once. Give every column a name of "
                "its own."
            )
        seen.add(name)


def check_numeric(types: dict):
    """Raise an error that names the columns whose type is not a number."""
    bad = [name for name, dtype in types.items() if not is_number(dtype)]
    if bad:
        listed = ", ".join(repr(name) for name in bad[:5])
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise TypeError(f"Columns {listed}{more} are not numbers. {ADVICE}")


def is_number(dtype) -> bool:
    """Whether a type of NumPy holds real numbers of at most eight bytes."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def matrix_dtype(dtypes) -> np.dtype:
    """Type of a matrix with columns of these types."""
    is_single = all(dtype == np.float32 for dtype in dtypes)
    return np.dtype(np.float32 if is_single else np.float64)


def fill_matrix(columns, dtype):
    """Row-major matrix of some columns."""
    rows = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype=dtype)
    for j, values in enumerate(columns):
        rows[:, j] = values
    return rows
