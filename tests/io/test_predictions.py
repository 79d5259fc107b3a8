"""Predictions of Dask collections are lazy with correct meta; of sources, a stream."""

from functools import partial

import numpy as np
import pytest
from io_tasks import make_rows
from scipy.special import expit

from skcara.data import chunk_rows_for
from skcara.io import from_chunks
from skcara.io._predictions import is_lazy, predict_lazily

COEF = np.arange(6.0)


def linear(rows):
    rows = np.asarray(rows)
    assert len(rows), "scikit-learn refuses arrays without rows"
    return rows @ COEF


def labels(rows):
    return np.where(linear(rows) > 0, "positive", "no")


def probabilities(rows):
    positive = expit(linear(rows))
    return np.column_stack([1 - positive, positive])


@pytest.mark.parametrize("predict", [linear, labels, probabilities])
@pytest.mark.parametrize("chunks", [(300, 6), (300, 2), ((0, 500, 0, 501), 6)])
def test_arrays(predict, chunks):
    da = pytest.importorskip("dask.array")
    X, *_ = make_rows(0, n_rows=1001)
    result = predict_lazily(predict, da.from_array(X, chunks=chunks))
    expected = predict(X)
    computed = result.compute()
    assert isinstance(result, da.Array)
    assert result.shape == computed.shape == expected.shape
    assert result.dtype == computed.dtype == expected.dtype
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(computed, expected, rtol=1e-12)
    else:
        np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("predict", [linear, labels, probabilities])
def test_frames_keep_their_index(predict):
    dd = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    X, *_ = make_rows(0, n_rows=1001)
    frame = pandas.DataFrame(X, columns=list("abcdef"), index=np.arange(1001) * 3)
    collection = dd.from_pandas(frame, npartitions=4)
    collection = collection[collection["a"] < collection["a"].max()]
    frame = frame[frame["a"] < frame["a"].max()]
    result = predict_lazily(predict, collection, columns=["no", "positive"])
    computed = result.compute()
    assert computed.index.equals(frame.index)
    if predict is probabilities:
        assert list(result.columns) == ["no", "positive"]
        assert list(result.dtypes) == list(computed.dtypes)
    else:
        assert result.dtype == computed.dtype
    if predict is labels:
        assert computed.tolist() == predict(frame).tolist()
    else:
        np.testing.assert_allclose(computed, predict(frame), rtol=1e-12)


def test_nothing_is_computed_before_it_is_asked_for():
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")

    def fail():
        raise AssertionError("computed")

    X = da.from_delayed(dask.delayed(fail)(), (10, 6), float)
    predict_lazily(linear, X)


def test_sources_give_an_iterator():
    X, y, _ = make_rows(0, n_rows=20_000)
    source = from_chunks(lambda: [(X[:5000], y[:5000]), (X[5000:], y[5000:])])
    assert is_lazy(source)
    assert not is_lazy(X)
    predictions = predict_lazily(partial(linear), source)
    first = next(predictions)
    assert len(first) == chunk_rows_for(X.shape[1], is_sparse=False) < len(X)
    found = np.concatenate([first, *predictions])
    np.testing.assert_allclose(found, linear(X), rtol=1e-12)
