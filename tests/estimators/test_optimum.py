"""Every solver reaches the optimum of scikit-learn's objective, certified."""

import numpy as np
import pytest
from certificates import (
    lasso_dual_gap,
    logistic_objective,
    logistic_violation,
    squared_objective,
    squared_violation,
)
from problems import ADVERSARIES, adversarial, classification, regression
from scipy import sparse
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, LogisticRegression

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

SOLVERS = ["auto", "canewton", "cabcd", "cagd"]
WEIGHTS = [False, True]


def make_weights(n_rows, weighted, seed=3):
    if not weighted:
        return None
    weights = np.random.default_rng(seed).random(n_rows)
    weights[::7] = 0.0
    return weights


@pytest.mark.parametrize("weighted", WEIGHTS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_least_squares(solver, positive, fit_intercept, weighted):
    X, y = regression()
    weights = make_weights(len(y), weighted)
    model = CaLeastSquares(
        solver=solver, positive=positive, fit_intercept=fit_intercept, tol=1e-8
    ).fit(X, y, sample_weight=weights)
    violation = squared_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        sample_weight=weights,
        positive=positive,
        fit_intercept=fit_intercept,
    )
    assert violation < 1e-7
    assert model.optimality_ == pytest.approx(violation, abs=1e-12)
    twin = LinearRegression(positive=positive, fit_intercept=fit_intercept)
    twin.fit(X, y, sample_weight=weights)
    reached = squared_objective(
        X, y, model.coef_, model.intercept_, sample_weight=weights
    )
    best = squared_objective(X, y, twin.coef_, twin.intercept_, sample_weight=weights)
    assert reached <= best * (1 + 1e-8)
    assert model.objective_ == pytest.approx(reached, rel=1e-12)
    assert not positive or (model.coef_ >= 0).all()


@pytest.mark.parametrize("weighted", WEIGHTS)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("solver", SOLVERS)
def test_lasso(solver, l1_ratio, weighted):
    X, y = regression()
    weights = make_weights(len(y), weighted)
    alpha = 0.05
    model = CaLasso(alpha, l1_ratio=l1_ratio, solver=solver, tol=1e-9)
    model.fit(X, y, sample_weight=weights)
    data = X, y, model.coef_, model.intercept_
    l1, l2 = alpha * l1_ratio, alpha * (1 - l1_ratio)
    assert squared_violation(*data, l1, l2, sample_weight=weights) < 1e-4
    if l1_ratio > 0:
        gap = lasso_dual_gap(*data, l1, l2, sample_weight=weights)
        assert gap <= 1e-8 * np.var(y)
        assert (model.coef_ == 0).any(), "the penalty makes some coefficients zero"
        twin = ElasticNet(alpha, l1_ratio=l1_ratio, tol=1e-10)
        twin.fit(X, y, sample_weight=weights)
        assert np.array_equal(model.coef_ == 0, twin.coef_ == 0)
    reached = squared_objective(*data, l1, l2, sample_weight=weights)
    assert model.objective_ == pytest.approx(reached, rel=1e-12)
    assert model.dual_gap_ <= 1e-9 * np.average(
        (y - np.average(y, weights=weights)) ** 2, weights=weights
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_positive_lasso(solver):
    X, y = regression()
    model = CaLasso(0.05, positive=True, solver=solver, tol=1e-9).fit(X, y)
    twin = Lasso(0.05, positive=True, tol=1e-10).fit(X, y)
    assert (model.coef_ >= 0).all()
    data = X, y, model.coef_, model.intercept_, 0.05
    assert squared_violation(*data, positive=True) < 1e-5
    best = squared_objective(X, y, twin.coef_, twin.intercept_, 0.05)
    assert squared_objective(*data) <= best * (1 + 1e-8)


@pytest.mark.parametrize("weighted", WEIGHTS)
@pytest.mark.parametrize(
    ("C", "l1_ratio"), [(1.0, 0.0), (0.05, 1.0), (0.05, 0.5), (np.inf, 0.0)]
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", SOLVERS)
def test_logistic(solver, n_classes, C, l1_ratio, weighted):
    X, y = classification(n_classes=n_classes)
    weights = make_weights(len(y), weighted)
    model = CaLogisticRegression(
        C=C, l1_ratio=l1_ratio, solver=solver, tol=1e-6, max_iter=2000
    ).fit(X, y, sample_weight=weights)
    data = X, y, model.coef_, model.intercept_, C, l1_ratio
    violation = logistic_violation(*data, sample_weight=weights)
    assert violation <= 1e-6
    assert model.optimality_ == pytest.approx(violation, rel=1e-6, abs=1e-12)
    reached = logistic_objective(*data, sample_weight=weights)
    assert model.objective_ == pytest.approx(reached, rel=1e-10)
    if l1_ratio == 1.0:
        assert (model.coef_ == 0).any()
    if l1_ratio == 0.0:
        twin = LogisticRegression(C=C, tol=1e-8, max_iter=10_000)
        twin.fit(X, y, sample_weight=weights)
        best = logistic_objective(
            X, y, twin.coef_, twin.intercept_, C, sample_weight=weights
        )
        assert reached <= best * (1 + 1e-8)


@pytest.mark.parametrize("kind", ADVERSARIES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_lasso_on_hard_data(solver, kind):
    X, y = adversarial(kind, *regression(n_rows=3000))
    alpha = 0.01
    model = CaLasso(alpha, solver=solver, max_iter=5000).fit(X, y)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, alpha)
    assert gap <= 1.01e-4 * np.var(y)


@pytest.mark.parametrize("kind", ADVERSARIES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_logistic_on_hard_data(solver, kind):
    X, y = adversarial(kind, *classification(n_rows=3000))
    model = CaLogisticRegression(solver=solver, max_iter=5000)
    model.fit(X, y)
    violation = logistic_violation(X, y, model.coef_, model.intercept_, 1.0)
    # An offset of 1e4 enters the gradient twice: 1e4 * 1e4 * eps is 2e-8.
    assert model.optimality_ == pytest.approx(violation, rel=1e-4, abs=1e-7)
    assert violation <= 1e-4


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("solver", SOLVERS)
def test_sparse_input_has_the_same_optimum(solver, container):
    X, y = regression()
    X[np.abs(X) < 1] = 0.0
    dense = CaLasso(0.02, solver=solver, tol=1e-10).fit(X, y)
    model = CaLasso(0.02, solver=solver, tol=1e-10).fit(container(X), y)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-4)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 0.02)
    assert gap <= 1e-9 * np.var(y)


@pytest.mark.parametrize("case", ["few-rows", "duplicated", "collinear", "wide"])
def test_least_squares_picks_the_smallest_of_many_solutions(case):
    """As LinearRegression does, so that the answer is unique and reproducible."""
    X, y = regression(n_rows=300, n_features=12)
    if case == "few-rows":
        X, y = X[:8], y[:8]
    elif case == "duplicated":
        X = np.hstack([X, X[:, :3]])
    elif case == "collinear":
        X = np.hstack([X, 5 * X[:, :3] - X[:, 3:6] + 2])
    else:
        X, y = regression(n_rows=60, n_features=200)
    model, twin = CaLeastSquares().fit(X, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, twin.coef_, rtol=1e-6, atol=1e-9)
    assert model.intercept_ == pytest.approx(twin.intercept_)


@pytest.mark.parametrize(
    "options",
    [{}, {"recombination": "tree"}, {"recombination": None}, {"l1_ratio": 1.0}],
    ids=str,
)
@pytest.mark.parametrize("shape", [(120_000, 9), (5_000, 9), (5_000, 120)], ids=str)
def test_a_warm_start_with_a_small_gradient_is_no_end(
    shape, options, global_random_seed
):
    """Rare classes have small gradients everywhere, also at another optimum."""
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal(shape), np.zeros(shape[0], dtype=int)
    y[: shape[0] // 1000] = 1
    X[y == 1] += 1.0
    model = CaLogisticRegression(C=1.0, warm_start=True, **options).fit(X, y)
    model.set_params(C=100.0).fit(X, y)

    def objective(fitted):
        ratio = options.get("l1_ratio", 0.0)
        point = fitted.coef_, fitted.intercept_
        return logistic_objective(X, y, *point, 100.0, ratio)

    exact = CaLogisticRegression(
        C=100.0, tol=1e-10, l1_ratio=options.get("l1_ratio", 0.0)
    )
    best = objective(exact.fit(X, y))
    assert objective(model) <= (1 + 1e-6) * best
