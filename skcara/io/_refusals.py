"""What would have to be read into memory whole is refused, with advice."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

_SLICES = (
    "skcara.io.from_chunks reads it in slices: give it a function that yields "
    "(X[a:b], y[a:b])"
)


def refuse_unread(X, name: str, needed_by: str):
    """Raise an error if ``X`` is not in memory and cannot be read in place.

    Parameters
    ----------
    X : object
        Anything but sources and collections of Dask.
    name : str
        Of the parameter.
    needed_by : str
        Name of the estimator.

    Raises
    ------
    TypeError
        Saying how the rows can be read without being in memory together.
    """
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X):
        return
    advice = _advice(X)
    if advice is not None:
        kind = f"{type(X).__module__.partition('.')[0]} {type(X).__name__}"
        raise TypeError(
            f"{name} is a {kind}, which {needed_by} would have to copy into memory "
            f"whole. {advice}."
        )


def _advice(X):
    """What to do instead; None if ``X`` is in memory."""
    if getattr(X, "__dask_graph__", None) is not None and X.__dask_graph__():
        return "Give the Dask array or DataFrame that it consists of, such as X.data"
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):  # LazyFrame of polars
        return (
            "Call collect() if there is room; else sink it to a parquet file for "
            "skcara.io.from_parquet, or yield its batches to skcara.io.from_chunks"
        )
    if hasattr(X, "scanner") and hasattr(X, "to_batches"):  # Dataset of pyarrow
        return (
            "Give the names of its files to skcara.io.from_parquet, or its batches to "
            "skcara.io.from_chunks"
        )
    if isinstance(X, Iterator):
        return (
            "It can be read only once; give skcara.io.from_chunks a function that "
            "returns a new iterator"
        )
    if hasattr(X, "chunks") and hasattr(X, "shape") and hasattr(X, "dtype"):
        return _SLICES  # arrays of zarr, data sets of HDF5
    return None
