"""Rows of weight zero do not exist, whatever code for missing values stands in them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import classification, regression
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold

from skcara import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
)

SOLVERS = ["auto", "cabcd", "cagd"]
MODELS = [
    CaLeastSquares(tol=1e-9),
    CaLasso(0.02, tol=1e-10),
    CaLogisticRegression(tol=1e-7, max_iter=5000),
    CaLogisticRegression(C=0.05, l1_ratio=1.0, tol=1e-7, max_iter=5000),
]
SEARCHES = [
    CaLassoCV(alphas=[0.1, 0.01], tol=1e-9),
    CaLassoCV(alphas=[0.1, 0.01], tol=1e-9, standardize=True),
    CaLogisticRegressionCV(Cs=[0.1, 1.0], tol=1e-7),
    CaLogisticRegressionCV(Cs=[0.1, 1.0], tol=1e-7, standardize=True),
    CaLogisticRegressionCV(Cs=[0.1, 1.0], tol=1e-7, scoring="roc_auc"),
]
# The last finite one cannot be squared.
FILLS = [1e15, 9.97e36, 1e300, np.inf, np.nan]


def spoil(X, is_idle, fill):
    """Copy of the data with a code in all columns of some rows, or in one of them."""
    X = X.copy()
    if sparse.issparse(X):
        X.data[np.repeat(is_idle, np.diff(X.indptr))] = fill
    else:
        X[is_idle] = fill
        X[np.flatnonzero(is_idle)[::2], 1:] = 0.0
    return X


def data_for(model, n_rows, to_X=np.asarray, seed=0):
    make = classification if is_classifier(model) else regression
    X, y = make(n_rows=n_rows, seed=seed)
    rng = np.random.default_rng(seed)
    weights = rng.random(n_rows)
    weights[rng.random(n_rows) < 0.3] = 0.0
    # The first rows and whole chunks too.
    weights[: n_rows // 8] = 0.0
    return to_X(X), y, weights


def refused(model, X, y, weights):
    """Whether the data are refused, with a sentence about their values."""
    try:
        model.fit(X, y, sample_weight=weights)
    except ValueError as error:
        if "X contains" not in str(error):
            raise
        return True
    return False


@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("fill", FILLS)
def test_codes_in_few_idle_rows_change_nothing(fill, model, solver, to_X):
    X, y, weights = data_for(model, 800, to_X)
    model = clone(model).set_params(solver=solver)
    used = weights > 0
    expected = clone(model).fit(X[used], y[used], sample_weight=weights[used])
    is_refused = refused(model, spoil(X, ~used, fill), y, weights)
    # What is small enough to be searched is searched, whatever the weights.
    assert is_refused == (not np.isfinite(fill))
    if not is_refused:
        assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=2e-6)
        assert_allclose(model.intercept_, expected.intercept_, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("fill", [9.97e36, 1e300, np.nan])
def test_codes_in_many_idle_rows_change_nothing(fill, model, solver):
    """Large data are not searched: samples, groups and sums must not see the codes."""
    X, y, weights = data_for(model, 150_000)
    model = clone(model).set_params(solver=solver)
    used = weights > 0
    expected = clone(model).fit(X[used], y[used], sample_weight=weights[used])
    if refused(model, spoil(X, ~used, fill), y, weights):
        assert not np.isfinite(fill)
        return
    assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=2e-6)
    assert_allclose(model.intercept_, expected.intercept_, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("method", ["tree", "pivoting"])
@pytest.mark.parametrize("fill", [9.97e36, 1e300])
def test_recombined_groups_do_not_see_idle_rows(fill, method):
    model = CaLogisticRegression(recombination=method, tol=1e-7)
    X, y, weights = data_for(model, 150_000)
    used = weights > 0
    expected = clone(model).fit(X[used], y[used], sample_weight=weights[used])
    model.fit(spoil(X, ~used, fill), y, sample_weight=weights)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=2e-6)
    assert (weights[model.support_] > 0).all()


@pytest.mark.parametrize("fill", [9.97e36, 1e300])
@pytest.mark.parametrize("model", MODELS[:2], ids=str)
def test_targets_of_idle_rows_change_nothing(model, fill):
    X, y, weights = data_for(model, 5000)
    used = weights > 0
    expected = clone(model).fit(X[used], y[used], sample_weight=weights[used])
    model = clone(model).fit(X, np.where(used, y, fill), sample_weight=weights)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-7)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.parametrize(
    ("fill", "n_rows", "to_X"),
    [
        (9.97e36, 800, np.asarray),
        (1e300, 800, sparse.csr_array),
        (1e300, 150_000, np.asarray),
    ],
)
@pytest.mark.parametrize("model", SEARCHES, ids=str)
def test_searches_do_not_see_idle_rows(model, fill, n_rows, to_X):
    X, y, weights = data_for(model, n_rows, to_X)
    model = clone(model).set_params(cv=KFold(3, shuffle=True, random_state=0))
    expected = clone(model).fit(X, y, sample_weight=weights)
    model.fit(spoil(X, weights == 0, fill), y, sample_weight=weights)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=2e-6)
    name = "scores_" if is_classifier(model) else "mse_path_"
    assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-5)
