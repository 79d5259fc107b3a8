"""X, y and weights of Dask as one list of parts.

Dask optimises collections one at a time. Split on their own, ``frame[columns]`` and
``frame["y"]`` of the same files may get different partitions, and rows would meet the
targets of others; ``table[:, 1:]`` and ``table[:, 0]`` would each compute the table, on
different workers. So all are bound into one graph first and split afterwards, and the
lengths are checked where the partitions are.
"""

import numpy as np

from skcara.io._frames import frame_matrix
from skcara.io._optional import import_optional
from skcara.io._parts import make_part

_NEEDED_BY = "from_dask"


def is_dask(X) -> bool:
    """Whether ``X`` is an array or a frame of Dask; imports nothing."""
    # Delayed objects have every attribute, but no private one.
    return all(hasattr(X, name) for name in ("__dask_graph__", "to_delayed", "_meta"))


def is_dask_frame(collection) -> bool:
    """Whether a collection is a DataFrame or Series."""
    return (
        is_dask(collection)
        and hasattr(collection, "npartitions")
        and hasattr(collection, "divisions")
    )


def bind_parts(X, y, sample_weight=None) -> list:
    """Blocks of rows with their targets and weights, as a list of Delayed."""
    columns = {"y": y, "sample_weight": sample_weight}
    columns = {name: c for name, c in columns.items() if c is not None}
    bind = _bind_frames if is_dask_frame(X) else _bind_arrays
    dask = import_optional("dask", extra="dask", needed_by=_NEEDED_BY)
    make = dask.delayed(_make_part)
    return [make(number, *pieces) for number, pieces in enumerate(bind(X, columns))]


def _make_part(number, *pieces):
    # Pieces of frames are bound already.
    return make_part(number, *(pieces[0] if len(pieces) == 1 else pieces))


# ---- frames ----------------------------------------------------------------------


def _bind_frames(X, columns):
    frames = import_optional("dask.dataframe", extra="dask", needed_by=_NEEDED_BY)
    frame_matrix(X._meta)  # refuses columns that are not numbers, before any read
    for name, column in columns.items():
        if not is_dask_frame(column):
            raise TypeError(
                f"{name} must be a Dask Series like X, got {type(column).__name__}. "
                "Make it a column of the DataFrame that X comes from."
            )
        if column.npartitions != X.npartitions:
            # A single partition would be paired with each of X.
            raise ValueError(
                f"X has {X.npartitions} partitions and {name} {column.npartitions}. "
                "Take both from one DataFrame, or repartition one like the other."
            )
    bound = frames.map_partitions(
        _bound,
        X,
        *columns.values(),
        meta=X._meta,
        enforce_metadata=False,
        align_dataframes=False,
    )
    return [(part,) for part in bound.to_delayed()]


def _bound(*pieces):
    return pieces


# ---- arrays ----------------------------------------------------------------------


def _bind_arrays(X, columns):
    graphs = import_optional("dask.highlevelgraph", extra="dask", needed_by=_NEEDED_BY)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    bound = [X, *(_like_rows(X, name, column) for name, column in columns.items())]
    # All together: what they have in common is computed once, next to its parts.
    graph = graphs.HighLevelGraph.merge(*(array.__dask_graph__() for array in bound))
    graph = X.__dask_optimize__(graph, [array.__dask_keys__() for array in bound])
    pieces = []
    for array in bound:
        rebuild, arguments = array.__dask_postpersist__()
        delayed = rebuild(graph, *arguments).to_delayed(optimize_graph=False)
        pieces.append(delayed.ravel().tolist())
    return zip(*pieces, strict=True)


def _like_rows(X, name, column):
    """Return a column in the partitions of ``X``."""
    arrays = import_optional("dask.array", extra="dask", needed_by=_NEEDED_BY)
    rows = X.chunks[0]
    are_known = not np.isnan(X.shape[0])
    if is_dask_frame(column):
        column = column.to_dask_array()
    if not is_dask(column):
        column = np.asarray(column)
        if not are_known:
            raise TypeError(
                f"{name} must be a Dask array in the partitions of X, whose lengths "
                "are not known."
            )
        _check_length(X, name, column)
        return arrays.from_array(column, chunks=(rows, *column.shape[1:]))
    if are_known and not np.isnan(column.shape[0]):
        _check_length(X, name, column)
        return column.rechunk({0: rows, **({1: -1} if column.ndim == 2 else {})})
    if column.numblocks[0] != len(rows):
        raise ValueError(
            f"X has {len(rows)} partitions and {name} {column.numblocks[0]}, and their "
            "lengths are not known. Call compute_chunk_sizes() on both."
        )
    return column.rechunk({1: -1}) if column.ndim == 2 else column


def _check_length(X, name, column):
    if column.shape[0] != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} rows and {name} {column.shape[0]}; they must agree."
        )
