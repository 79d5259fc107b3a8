"""The same rows in every form that ``fit`` takes besides arrays."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from skcara.io import from_chunks, from_parquet

N_ROWS, N_FEATURES = 20_011, 6
LENGTHS = (3000, 9000, 1, 5010, 3000)


def make_rows(seed=0, n_rows=N_ROWS, n_features=N_FEATURES):
    """Columns of different size and centre, a target, and weights with zeros."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * np.logspace(-1, 1, n_features) + 3
    y = X @ rng.standard_normal(n_features) + rng.standard_normal(n_rows)
    weights = rng.exponential(size=n_rows) * (rng.uniform(size=n_rows) > 0.1)
    return X, y, weights


def make_classes(X, y, names):
    """Labels that depend on the target, none of them rare."""
    noise = np.random.default_rng(1).logistic(size=len(y)) * y.std()
    edges = np.quantile(y + noise, np.linspace(0, 1, len(names) + 1)[1:-1])
    return np.array(names)[np.searchsorted(edges, y + noise)]


def pieces(*columns):
    """The same rows in pieces of different lengths."""
    columns = [column for column in columns if column is not None]
    edges = np.cumsum(LENGTHS)[:-1]
    if sparse.issparse(columns[0]):
        edges = [0, *edges, columns[0].shape[0]]
        for a, b in pairwise(edges):
            yield tuple(column[a:b] for column in columns)
        return
    yield from zip(*(np.split(column, edges) for column in columns), strict=True)


def as_chunks(X, y, weights, tmp_path):
    return [from_chunks(lambda: pieces(X, y, weights))]


def as_dask_array(X, y, weights, tmp_path):
    da = pytest.importorskip("dask.array")
    columns = [c for c in (y, weights) if c is not None]
    columns = [da.from_array(column, chunks=(LENGTHS,)) for column in columns]
    return [da.from_array(X, chunks=(LENGTHS, N_FEATURES)), *columns]


def as_dask_frame(X, y, weights, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    frame = make_frame(X, y, weights)
    collection = dd.from_pandas(frame, npartitions=5)
    names = [name for name in frame.columns if name not in ("y", "w")]
    weight = [] if weights is None else [collection["w"]]
    return [collection[names], collection["y"], *weight]


def as_parquet(X, y, weights, tmp_path):
    pytest.importorskip("pyarrow")
    frame = make_frame(X, y, weights)
    frame.iloc[:9000].to_parquet(tmp_path / "a.parquet", row_group_size=4000)
    frame.iloc[9000:].to_parquet(tmp_path / "b.parquet")
    weight = None if weights is None else "w"
    return [from_parquet(tmp_path / "*.parquet", target="y", weight=weight)]


def make_frame(X, y, weights):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["y"] = y
    if weights is not None:
        frame["w"] = weights
    return frame


INPUTS = [as_chunks, as_dask_array, as_dask_frame, as_parquet]
