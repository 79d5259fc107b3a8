"""Linear predictions: those of NumPy, in its type, without its copies."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import assert_all_finite

from skcara.data import _linear
from skcara.data._linear import linear_predictions

TYPES = ["f8", "f4", "f2", "i8", "i1", "u2", "?", "g"]


def entries(dtype, rng, shape=(1000, 7)):
    values = 3 * rng.standard_normal(shape)
    # Negative numbers would become huge ones.
    return (np.abs(values) if dtype == "u2" else values).astype(dtype)


def stored(X, storage):
    if storage == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    if storage in ("csr", "csc"):
        return sparse.csr_array(X).asformat(storage)
    return np.array(X, order=storage)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(_linear, "_CHUNK_ENTRIES", 300)
    monkeypatch.setattr(_linear, "_MIN_CHUNK_ROWS", 1)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
@pytest.mark.parametrize("coef_type", ["f8", "f4"])
@pytest.mark.parametrize("storage", ["C", "F", "strided", "csr", "csc"])
@pytest.mark.parametrize("dtype", TYPES)
def test_product_and_type_are_those_of_numpy(
    dtype, storage, coef_type, n_outputs, global_random_seed
):
    if storage in ("csr", "csc") and dtype == "f2":
        pytest.skip("SciPy has no sparse matrices of half precision.")
    rng = np.random.default_rng(global_random_seed)
    X = entries(dtype, rng)
    shape = (7,) if n_outputs is None else (7, n_outputs)
    coef = rng.standard_normal(shape).astype(coef_type)
    intercept = rng.standard_normal(shape[1:])
    result = linear_predictions(stored(X, storage), coef, intercept)
    assert result.dtype == (X[:1] @ coef).dtype
    assert result.shape == (1000, *shape[1:])
    exact = X.astype("f8") @ coef.astype("f8") + intercept
    tolerance = 64 * np.finfo(np.promote_types(result.dtype, "f4")).eps
    if result.dtype.itemsize > 8:
        tolerance = 64 * np.finfo("f8").eps
    np.testing.assert_allclose(result.astype("f8"), exact, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("storage", ["C", "F", "csr", "csc"])
@pytest.mark.parametrize("row", [0, 517, 999])
@pytest.mark.parametrize(("bad", "message"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_every_entry_is_inspected(storage, row, bad, message):
    """Also one whose coefficient is zero, of which the product may not tell."""
    X = entries("f8", np.random.default_rng(0))
    X[row, 4] = bad
    coef = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    inspect = partial(assert_all_finite, input_name="X")
    with pytest.raises(ValueError, match=rf"Input X contains {message}"):
        linear_predictions(stored(X, storage), coef, inspect=inspect)


@pytest.mark.parametrize("storage", ["C", "csr", "csc"])
@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (0, 0)])
def test_empty_dimensions(storage, shape):
    X = stored(np.zeros(shape), storage)
    result = linear_predictions(X, np.ones((shape[1], 2)), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(result, np.tile([1.0, 2.0], (shape[0], 1)))


def test_empty_columns_of_csc_are_passed_over():
    X = sparse.csc_array((400_000, 50))
    X = X + sparse.csc_array(([2.0], ([7], [31])), shape=X.shape)
    result = linear_predictions(X, np.arange(50.0), 1.0)
    assert result[7] == 63.0
    assert np.count_nonzero(result != 1.0) == 1


@pytest.mark.parametrize("storage", ["C", "F", "csr", "csc", "memmap"])
@pytest.mark.parametrize("dtype", ["f4", "i1", "f8"])
def test_memory_is_that_of_the_result(dtype, storage, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (200_000, 40), dtype=np.int8).astype(dtype)
    coef = rng.standard_normal(40)
    if storage == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        X = stored(X, storage)
    linear_predictions(X[:10], coef)  # what the first call imports is not counted
    tracemalloc.start()
    try:
        result = linear_predictions(X, coef)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # CSC adds up whole vectors of predictions, one entry of X for each row at a time.
    vectors = 4 if storage == "csc" else 1
    assert peak <= vectors * result.nbytes + 6 * 2**20


def test_read_only_rows_are_not_modified():
    X = entries("f8", np.random.default_rng(0))
    before = X.copy()
    X.flags.writeable = False
    linear_predictions(X, np.ones(7), 3.0)
    np.testing.assert_array_equal(X, before)
