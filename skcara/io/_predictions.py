"""Predictions of what is not in memory: lazy for Dask, an iterator for sources."""

from collections.abc import Callable, Iterator

import numpy as np

from skcara.io._dask_parts import is_dask, is_dask_frame
from skcara.io._optional import import_optional
from skcara.io._source import DataSource


def is_lazy(X) -> bool:
    """Whether ``X`` is a source or a collection of Dask."""
    return isinstance(X, DataSource) or is_dask(X)


def predict_lazily(predict: Callable, X, *, columns=None):
    """Apply a function of rows to rows that are not in memory.

    Parameters
    ----------
    predict : callable
        Takes rows as an array, a CSR matrix or a DataFrame, returns an array with one
        entry or row for each of them. It must be picklable for a cluster.
    X : DataSource, dask Array or dask DataFrame
    columns : sequence, optional
        Names of the columns of the result for a DataFrame, if it has two dimensions.

    Returns
    -------
    predictions : iterator of ndarray, dask Array, or dask Series or DataFrame
        For a source, one array for each chunk of rows, computed when it is asked for.
        Nothing is computed yet for Dask; frames keep their index.
    """
    if isinstance(X, DataSource):
        return _chunk_predictions(predict, X)
    if is_dask_frame(X):
        return _frame_predictions(predict, X, columns)
    return _array_predictions(predict, X)


def _chunk_predictions(predict, source) -> Iterator[np.ndarray]:
    for chunk in source.chunks():
        yield predict(chunk.rows)


def _array_predictions(predict, X):
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}.")
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    # One row says which type the result has, and refuses what `predict` refuses.
    example = predict(np.zeros((1, X.shape[1]), dtype=X.dtype))
    options = {"dtype": example.dtype, "meta": example[:0]}
    if example.ndim == 1:
        return X.map_blocks(_predict_block, predict, drop_axis=1, **options)
    return X.map_blocks(
        _predict_block, predict, chunks=(X.chunks[0], (example.shape[1],)), **options
    )


def _predict_block(rows, predict):
    # scikit-learn refuses arrays without rows.
    if rows.shape[0] == 0:
        return predict(np.zeros((1, rows.shape[1])))[:0]
    return predict(rows)


def _frame_predictions(predict, X, columns):
    example = _predict_frame(X._meta_nonempty, predict, columns)
    return X.map_partitions(_predict_frame, predict, columns, meta=example.iloc[:0])


def _predict_frame(frame, predict, columns):
    pandas = import_optional("pandas", extra="dask", needed_by="a Dask DataFrame")
    rows = frame
    if not len(frame):
        rows = pandas.DataFrame(
            np.zeros((1, frame.shape[1])), columns=frame.columns, index=[0]
        )
    values = predict(rows)[: len(frame)]
    if values.ndim == 1:
        return pandas.Series(values, index=frame.index)
    return pandas.DataFrame(values, index=frame.index, columns=columns)
