"""lasso_path: the solutions of separate fits, certified, from one read."""

import numpy as np
import pytest
from certificates import lasso_dual_gap, squared_violation
from fold_problems import KINDS, regression
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path
from twins import needs_recent_twin, twin_grid

from skcara import CaLassoCV, lasso_path


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.mark.parametrize(
    "positive", [False, pytest.param(True, marks=needs_recent_twin)]
)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_the_twin_finds_the_same(l1_ratio, positive, rng):
    X, y = regression(rng)
    options = {"l1_ratio": l1_ratio, "eps": 1e-4, "positive": positive}
    alphas, coefs, _ = lasso_path(X, y, alphas=30, **options)
    wanted = enet_path(X, y, **twin_grid(30), tol=1e-13, max_iter=10**5, **options)
    assert_allclose(alphas, wanted[0])
    assert_allclose(coefs, wanted[1], atol=1e-9)
    assert_array_equal(coefs == 0, wanted[1] == 0)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["plain", "duplicate", "constant", "scales"])
def test_every_point_is_certified(kind, fit_intercept, is_weighted, rng):
    X, y = regression(rng, kind=kind)
    weights = rng.random(len(y)) if is_weighted else np.ones(len(y))
    options = {"fit_intercept": fit_intercept, "sample_weight": weights}
    alphas, coefs, gaps = lasso_path(X, y, alphas=12, **options)
    mu = weights / weights.sum()
    for alpha, coef, gap in zip(alphas, coefs.T, gaps, strict=True):
        intercept = mu @ (y - X @ coef) if fit_intercept else 0.0
        assert gap <= 1e-8 * np.mean(y**2)
        own = lasso_dual_gap(X, y, coef, intercept, alpha, **options)
        assert own <= gap + 1e-13 * np.mean(y**2)
        violation = squared_violation(X, y, coef, intercept, alpha, **options)
        assert violation <= 1e-9 * alphas[0] + 1e-10 * np.abs(X).max()


@pytest.mark.parametrize("kind", KINDS)
def test_hard_columns_are_solved_or_warned_about(kind, rng, recwarn):
    X, y = regression(rng, kind=kind)
    path = lasso_path(X, y, l1_ratio=0.0, fit_intercept=True, alphas=10)
    limit = 1e-4 * np.var(y)
    has_failed = bool((path.dual_gaps > limit).any())
    is_warned = any(w.category is ConvergenceWarning for w in recwarn)
    assert has_failed == is_warned


def test_warning_counts_the_penalties(rng):
    X, y = regression(rng, kind="dependent")
    with pytest.warns(ConvergenceWarning, match=r"for \d+ of 10 penalties"):
        lasso_path(X, y, l1_ratio=0.0, alphas=10, max_iter=1)


def test_it_is_the_path_of_the_search(rng):
    X, y = regression(rng)
    model = CaLassoCV().fit(X, y)
    alphas, coefs, _ = lasso_path(X, y, fit_intercept=True)
    assert_allclose(alphas, model.alphas_)
    chosen = np.argmin(abs(alphas - model.alpha_))
    assert_allclose(coefs[:, chosen], model.coef_)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, np.float32])
def test_layouts(make, rng):
    X, y = regression(rng)
    X = X.astype(np.float32).astype(np.float64)
    wanted = lasso_path(X, y)
    found = lasso_path(make(X), y)
    assert_allclose(found.coefs, wanted.coefs, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": [-1.0]}, r"alphas\[0\] must be non-negative"),
        ({"sample_weight": np.ones(3)}, r"sample_weight must have shape"),
    ],
)
def test_wrong_arguments(options, message, rng):
    with pytest.raises(ValueError, match=message):
        lasso_path(*regression(rng), **options)


def test_wrong_data(rng):
    X, y = regression(rng)
    with pytest.raises(ValueError, match="takes one target"):
        lasso_path(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        lasso_path(X, y[:-1])
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        lasso_path(X, y)
