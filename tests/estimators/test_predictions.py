"""Predictions read X once, in its own type, and need the memory of their result."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

TWINS = [
    (CaLeastSquares(), LinearRegression()),
    (CaLasso(0.01), Lasso(0.01)),
    (CaLogisticRegression(), LogisticRegression()),
]
FORMATS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
}


def data(model, n_rows=500, n_columns=6, dtype="f8", n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, (n_rows, n_columns), dtype=np.int8).astype(dtype)
    scores = X @ rng.standard_normal((n_columns, n_classes)) / 10
    scores += rng.gumbel(size=scores.shape)
    if isinstance(model, CaLogisticRegression):
        return X, scores.argmax(axis=1)
    return X, scores[:, 0]


@pytest.mark.parametrize("storage", ["C", "csr"])
@pytest.mark.parametrize(("model", "twin"), TWINS, ids=str)
def test_single_precision_is_kept_as_scikit_learn_keeps_it(model, twin, storage):
    X, y = data(model, dtype="f4")
    X = FORMATS[storage](X)
    model.fit(X, y)
    twin.fit(X, y)
    # What was certified is what is returned.
    assert model.coef_.dtype == np.float64
    assert model.predict(X).dtype == twin.predict(X).dtype
    if isinstance(model, CaLogisticRegression):
        assert model.decision_function(X).dtype == np.float32
        assert model.predict_proba(X).dtype == np.float32


@pytest.mark.parametrize("storage", FORMATS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_predictions_are_products_of_the_rows(n_classes, dtype, storage):
    model = CaLogisticRegression()
    X, y = data(model, 5000, dtype=dtype, n_classes=n_classes)
    model.fit(X, y)
    scores = X.astype("f8") @ model.coef_.T + model.intercept_
    X, tolerance = FORMATS[storage](X), 3e-5 if dtype == "f4" else 1e-12
    both = scores if n_classes > 2 else np.hstack([0 * scores, scores])
    expected = scores if n_classes > 2 else scores[:, 0]
    assert_allclose(model.decision_function(X), expected, atol=tolerance)
    assert_allclose(model.predict_proba(X), softmax(both, axis=1), atol=tolerance)
    log_proba = log_softmax(both, axis=1)
    assert_allclose(model.predict_log_proba(X), log_proba, atol=tolerance)
    assert_array_equal(model.predict(X), both.argmax(axis=1))
    for regressor in (CaLeastSquares(), CaLasso(0.01)):
        regressor.fit(X, y)
        expected = X.astype("f8") @ regressor.coef_ + regressor.intercept_
        assert_allclose(regressor.predict(X), expected, atol=tolerance)


def memory(function, X, *others):
    """Largest memory in use during a call."""
    function(X[:100], *(other[:100] for other in others))
    tracemalloc.start()
    try:
        function(X, *others)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("storage", ["C", "memmap", "csr"])
@pytest.mark.parametrize("dtype", ["f4", "i1"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_memory_is_that_of_the_results(n_classes, dtype, storage, tmp_path):
    model = CaLogisticRegression()
    X, y = data(model, 200_000, 40, dtype, n_classes=n_classes)
    model.fit(X[:1000], y[:1000])
    lasso = CaLasso(0.01).fit(X[:1000], y[:1000])
    if storage == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        X = FORMATS[storage](X)
    result = n_classes * len(y) * model.coef_.itemsize
    reserve = 6 * 2**20
    assert memory(model.predict_proba, X) <= 1.5 * result + reserve
    assert memory(model.predict_log_proba, X) <= 1.5 * result + reserve
    # Labels, and the codes that they are looked up with.
    assert memory(model.predict, X) <= result + 16 * len(y) + reserve
    assert memory(lasso.predict, X) <= 8 * len(y) + reserve


@pytest.mark.parametrize("storage", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("model", [pair[0] for pair in TWINS], ids=str)
def test_what_is_not_finite_is_refused_as_by_scikit_learn(model, bad, storage):
    X, y = data(model)
    model.fit(X, y)
    X[-1, 2] = bad
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        model.predict(FORMATS[storage](X))
