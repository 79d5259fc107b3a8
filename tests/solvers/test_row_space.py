"""Fewer rows than columns: optima on all columns, found in the space of the rows."""

import numpy as np
import pytest
from certificates import logistic_violation, squared_violation
from numpy.testing import assert_allclose
from scipy import linalg, sparse

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression


def wide_rows(kind, n_rows=40, n_features=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    if kind == "sparse":
        return sparse.csr_array(X * (rng.uniform(size=X.shape) < 0.1))
    if kind == "scaled":
        return X * np.exp(3 * rng.standard_normal(n_features)) + 100.0
    if kind == "repeated":
        X[n_rows // 2 :] = X[: n_rows - n_rows // 2]
    return X


KINDS = ("dense", "sparse", "scaled", "repeated")


def targets(X, seed=1):
    rng = np.random.default_rng(seed)
    return np.asarray(X[:, :3].sum(axis=1)).ravel() + rng.standard_normal(X.shape[0])


def weights_of(is_weighted, n_rows):
    if not is_weighted:
        return None
    weights = np.random.default_rng(2).uniform(0.1, 3.0, n_rows)
    weights[:3] = 0.0
    return weights


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_ridge_is_optimal_on_all_columns(kind, fit_intercept, is_weighted):
    X = wide_rows(kind)
    y, weights = targets(X), weights_of(is_weighted, X.shape[0])
    model = CaLasso(alpha=0.5, l1_ratio=0.0, tol=1e-8, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weights)
    assert model.strategy_ == "row space"
    judged = squared_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        l2=0.5,
        sample_weight=weights,
        fit_intercept=fit_intercept,
    )
    scale = np.abs(np.asarray(X.T @ (y - y.mean()))).max() / len(y)
    assert judged <= 1e-8 * scale


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "scaled"])
def test_least_squares_of_least_norm(kind, fit_intercept):
    X = wide_rows(kind)
    y = targets(X)
    model = CaLeastSquares(fit_intercept=fit_intercept).fit(X, y)
    assert model.strategy_ == "row space"
    dense = X.toarray() if sparse.issparse(X) else X
    centre = dense.mean(axis=0) if fit_intercept else np.zeros(dense.shape[1])
    level = y.mean() if fit_intercept else 0.0
    expected = np.linalg.pinv(dense - centre) @ (y - level)
    assert_allclose(model.coef_, expected, atol=1e-9 * np.abs(expected).max())
    assert_allclose(model.predict(X), y, atol=1e-9 * np.abs(y).max())
    # Reads of forty columns count as their share.
    assert model.n_passes_ < 5


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_logistic_optimum_holds_on_all_columns(kind, fit_intercept, n_classes):
    X = wide_rows(kind)
    y = targets(X)
    y = np.digitize(y, np.quantile(y, [0.3, 0.7])[: n_classes - 1])
    weights = weights_of(True, X.shape[0])
    model = CaLogisticRegression(
        C=0.5, tol=1e-9, fit_intercept=fit_intercept, max_iter=1000
    ).fit(X, y, sample_weight=weights)
    assert model.strategy_ == "row space"
    judged = logistic_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        0.5,
        sample_weight=weights,
        fit_intercept=fit_intercept,
    )
    assert judged <= 1.01e-9


def test_a_start_outside_of_the_space_does_no_harm():
    X = wide_rows("dense")
    y = targets(X) > 0
    model = CaLogisticRegression(tol=1e-9, warm_start=True).fit(X, y)
    expected = model.coef_.copy()
    model.coef_ = expected + np.random.default_rng(3).standard_normal(expected.shape)
    assert_allclose(model.fit(X, y).coef_, expected, atol=1e-6)


def test_factors_that_are_wrong_cost_time_only(monkeypatch):
    X = wide_rows("dense")
    y = targets(X)
    factorise = linalg.qr

    def factorise_something_else(matrix, **options):
        basis, triangle = factorise(matrix, **options)
        return basis[::-1], triangle

    monkeypatch.setattr(linalg, "qr", factorise_something_else)
    model = CaLasso(alpha=0.5, l1_ratio=0.0, tol=1e-8).fit(X, y)
    assert model.strategy_ == "statistics"
    judged = squared_violation(X, y, model.coef_, model.intercept_, l2=0.5)
    assert judged <= 1e-8
