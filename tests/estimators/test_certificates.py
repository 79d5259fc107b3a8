"""Certificates are theorems: judged in extended precision, at the returned point."""

import warnings

import numpy as np
import pytest
from campaign_judge import IS_PRECISE, Rows, judge_squared
from scipy import sparse
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

from skcara import CaLasso, CaLeastSquares

pytestmark = pytest.mark.skipif(
    not IS_PRECISE, reason="this platform has no extended precision"
)


def two_valued(rng, n_rows):
    return rng.integers(0, 2, (n_rows, 12)).astype(np.float64)


def correlated_signs(rng, n_rows):
    common = rng.standard_normal((n_rows, 1))
    return 0.3 * np.sign(common + 0.5 * rng.standard_normal((n_rows, 12)))


def sorted_rows(rng, n_rows):
    return np.sort(rng.standard_normal((n_rows, 12)), axis=0)


def far_from_zero(rng, n_rows):
    return 1e5 + rng.standard_normal((n_rows, 12))


def judge(model, X, y, sample_weight=None):
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    alpha, ratio = getattr(model, "alpha", 0.0), getattr(model, "l1_ratio", 0.0)
    return judge_squared(
        Rows(X, weights),
        y,
        model.coef_,
        model.intercept_,
        l1=np.longdouble(alpha) * ratio,
        l2=np.longdouble(alpha) * (1 - ratio),
        positive=model.positive,
        fit_intercept=model.fit_intercept,
    )


def is_silent(fit, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*arguments)
    assert all(issubclass(one.category, ConvergenceWarning) for one in caught)
    return not caught


@pytest.mark.parametrize("tol", [1e-4, 1e-9, 0.0])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize(
    "draw", [two_valued, correlated_signs, sorted_rows, far_from_zero]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.longdouble, "csr"])
def test_gap_is_not_understated(draw, dtype, l1_ratio, tol):
    rng = np.random.default_rng(0)
    X = draw(rng, 700)
    y = X[:, :3] @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(700)
    X = sparse.csr_array(X) if dtype == "csr" else X.astype(dtype)
    for alpha in (1e-1, 1e-3, 1e-9):
        model = CaLasso(alpha, l1_ratio=l1_ratio, tol=tol)
        is_silent(model.fit, X, y)
        assert judge(model, X, y).gap <= 1.01 * model.dual_gap_


@pytest.mark.parametrize("solver", ["auto", "cagd", "cabcd"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.001])
@pytest.mark.parametrize("alpha", [1e-12, 1e-18, 1e-23, 1e-28, 1e-33, 1e-300])
def test_penalties_below_rounding(alpha, l1_ratio, solver, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((200, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(200)
    model = CaLasso(alpha, l1_ratio=l1_ratio, solver=solver)
    silent = is_silent(model.fit, X, y)
    exact = judge(model, X, y)
    assert exact.gap <= 1.01 * model.dual_gap_
    if solver == "auto":
        # No gap can be certified, but the optimality conditions hold to rounding.
        assert silent
        assert exact.optimality <= 1e-14


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(6, 6), (6, 5), (5, 9), (40, 39), (30, 60)])
@pytest.mark.parametrize("seed", range(4))
def test_interpolation_converges(shape, fit_intercept, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    model = CaLeastSquares(fit_intercept=fit_intercept)
    silent = is_silent(model.fit, X, y)
    exact = judge(model, X, y)
    assert silent
    assert abs(model.objective_ - exact.objective) <= exact.objective_error
    # Among all solutions the one of smallest norm, as in scikit-learn.
    twin = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    size = np.abs(twin.coef_).max()
    np.testing.assert_allclose(model.coef_, twin.coef_, atol=1e-8 * size)


@pytest.mark.parametrize("noise", [1e-6, 1e-2])
@pytest.mark.parametrize("solver", ["auto", "cagd", "cabcd"])
def test_offset_of_the_target_hides_no_correlation(solver, noise, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((200, 3))
    y = 1e5 + X @ [1.0, 2.0, 3.0] + noise * rng.standard_normal(200)
    model = CaLeastSquares(solver=solver, tol=1e-4)
    silent = is_silent(model.fit, X, y)
    exact = judge(model, X, y)
    if silent:
        assert exact.criterion <= 1e-4 + exact.criterion_error
    if solver == "auto":
        assert silent


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("shape", [(6, 6), (12, 7), (15, 10), (300, 40), (20, 60)])
def test_non_negative_fits_are_exact(shape, form, fit_intercept, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    model = CaLeastSquares(positive=True, fit_intercept=fit_intercept)
    assert is_silent(model.fit, form(X), y)
    exact = judge(model, X, y)
    assert exact.criterion <= 1e-12 + exact.criterion_error
    if fit_intercept:
        X, y = X - X.mean(axis=0), y - y.mean()
    _, distance = nnls(X, y)
    assert exact.objective == pytest.approx(
        distance**2 / (2 * len(y)), rel=1e-12, abs=1e-24
    )


def test_non_negative_fits_of_weighted_and_repeated_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((15, 10)), rng.standard_normal(15)
    counts = rng.integers(0, 5, 15)
    weighted = CaLeastSquares(positive=True).fit(X, y, counts)
    repeated = CaLeastSquares(positive=True).fit(X.repeat(counts, 0), y.repeat(counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_columns", [12, 105])
def test_non_negative_fits_of_tall_data(n_columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, n_columns)) + rng.standard_normal((60_000, 1))
    y = X @ (0.3 + rng.standard_normal(n_columns)) + rng.standard_normal(60_000)
    model = CaLeastSquares(positive=True, tol=1e-3)
    assert is_silent(model.fit, X, y)
    residual = y - model.predict(X)
    assert abs(residual.mean()) <= 1e-3 * residual.std()
    centred = X - X.mean(axis=0)
    correlation = centred.T @ residual / (len(y) * centred.std(axis=0) * residual.std())
    assert np.abs(correlation[model.coef_ > 0]).max() <= 1e-3
    assert correlation[model.coef_ == 0].max(initial=0.0) <= 1e-3


@pytest.mark.parametrize("exponent", [20, 42, 90, 119, 150, 300])
def test_penalties_that_dwarf_the_data(exponent, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((200, 3)) * [1.0, 1e-5, 1e5]
    y = X @ [1.0, 2e5, 3e-5] + 0.1 * rng.standard_normal(200)
    alpha = 10.0**exponent
    model = CaLasso(alpha, l1_ratio=0.0)
    assert is_silent(model.fit, X, y)
    covariance = (X - X.mean(axis=0)).T @ (y - y.mean()) / 200
    np.testing.assert_allclose(model.coef_, covariance / alpha, 1e-8, atol=1e-290)
    intercept = y.mean() - X.mean(axis=0) @ model.coef_
    assert model.intercept_ == pytest.approx(intercept, rel=1e-12)


@pytest.mark.parametrize("n_rows", [5, 900, 40_000])
@pytest.mark.parametrize("offset", [1e3, 1e8])
def test_sparse_columns_far_from_zero_are_no_constants(offset, n_rows):
    """Nothing is left of their variance if it is a difference of mean squares."""
    rng = np.random.default_rng(0)
    X = offset + rng.standard_normal((n_rows, 2))
    y = X[:, 0] - offset + 0.1 * rng.standard_normal(n_rows)
    model, X = CaLeastSquares(), sparse.csr_array(X)
    if is_silent(model.fit, X, y):
        verdict = judge(model, X, y)
        assert verdict.criterion <= model.tol + verdict.criterion_error
    else:
        assert offset == 1e8
