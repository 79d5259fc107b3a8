"""Degenerate data: fits end, and their certificates stay true."""

import numpy as np
import pytest
from certificates import lasso_dual_gap, squared_objective
from sklearn.datasets import load_iris

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression


@pytest.mark.parametrize("n_rows", [100, 70_000])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_penalty_that_leaves_nothing(n_rows, fit_intercept):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n_rows, 16)), rng.standard_normal(n_rows)
    model = CaLasso(alpha=10.0, fit_intercept=fit_intercept).fit(X, y)
    assert not model.coef_.any()
    assert model.dual_gap_ == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("n_rows", [1, 7, 1000])
@pytest.mark.parametrize("value", [0.7, -0.1, 3.0])
@pytest.mark.parametrize("model", [CaLasso(alpha=0.01), CaLeastSquares()], ids=repr)
def test_constant_column_gets_no_coefficient(model, value, n_rows):
    y = np.arange(n_rows, dtype=float)
    model.fit(np.full((n_rows, 1), value), y)
    assert model.coef_ == 0.0
    assert model.intercept_ == pytest.approx(y.mean())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("difference", [1e-3, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("alpha", [1e-9, 1e-8, 1e-4])
def test_certificate_sees_directions_without_curvature(
    alpha, difference, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    Z = rng.standard_normal((50, 2))
    X, y = Z[:, :1] + difference * Z, Z[:, 1]
    model = CaLasso(alpha=alpha, tol=1e-10, fit_intercept=False)
    model.fit(X, y)
    true_gap = lasso_dual_gap(X, y, model.coef_, 0.0, alpha, fit_intercept=False)
    # Coefficients of up to 1/difference make predictions that inaccurate, and a tiny
    # alpha magnifies the error of a gap.
    rounding = 1e-13 * (1 + np.abs(model.coef_).max())
    assert model.dual_gap_ >= 0.5 * true_gap - rounding
    objective = squared_objective(X, y, model.coef_, 0.0, alpha)
    assert model.objective_ == pytest.approx(objective, rel=1e-10, abs=rounding)


def test_columns_without_information_and_several_classes():
    y = [0, 0, 2, 1, 1, 1, 2, 0, 1, 0, 1, 2]
    model = CaLogisticRegression(C=0.01, tol=1e-10).fit(np.zeros((12, 1)), y)
    frequencies = np.bincount(y) / len(y)
    np.testing.assert_allclose(model.predict_proba([[0.0]])[0], frequencies, 1e-8)


def test_nearly_separable_classes_with_l1_penalty():
    X, y = load_iris(return_X_y=True)
    model = CaLogisticRegression(C=1e3, l1_ratio=1.0, tol=1e-8).fit(X, y)
    assert model.optimality_ <= 1e-8
    assert model.score(X, y) > 0.97


def test_columns_many_decades_apart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2)) * [1e-8, 1e8]
    y = X[:, 1] + 1e7 * rng.standard_normal(100)
    model = CaLasso(alpha=1e15, l1_ratio=0.5).fit(X, y)
    half = 0.5e15
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, half, half)
    assert gap <= 1e-4 * y.var()
    assert model.coef_[1] == pytest.approx(0.909, abs=1e-3)


def test_more_coordinates_than_rows_in_several_classes():
    """Singular models of hundreds of coordinates are not solved to the last digit."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((57, 97)), rng.integers(6, size=57)
    weights = 10.0 ** rng.uniform(-12, 0, 57)
    model = CaLogisticRegression(C=77.0, l1_ratio=1.0, tol=1e-8)
    model.fit(X, y, sample_weight=weights)
    assert model.optimality_ <= 1e-8
