"""Working sets: the optimum over all columns from few of them."""

import numpy as np
import pytest
from certificates import lasso_dual_gap, logistic_violation, squared_violation
from numpy.testing import assert_allclose
from scipy import sparse
from solvers.tall_problems import gaussian, labels, make_problem

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.passes import Evaluate
from skcara.solvers import Round, Status, Way
from skcara.solvers.newton import (
    CanewtonOptions,
    _coordinate_descent,
    iterate_canewton,
)
from skcara.solvers.newton._working_set import _choose_features, iterate_working_sets


def run(case, tol):
    rng = np.random.RandomState(0)
    solver = iterate_canewton(case.problem, case.zeros, CanewtonOptions(), rng)
    return case.solve(solver, tol=tol, max_iter=100)


@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_wide_lasso_is_certified_on_all_columns(l2, to_X):
    X, score, rng = gaussian(150, 400)
    y = score + 0.1 * rng.standard_normal(len(score))
    case = make_problem(to_X(X), y, "squared", l1=0.05, l2=l2).standardised()
    result = run(case, tol=1e-8)
    assert result.way is Way.WORKING_SETS
    assert result.status is Status.CONVERGED
    coef, intercept = case.problem.coordinates.to_user(result.evaluation.params)
    gap = lasso_dual_gap(X, y, coef[:, 0], intercept[0], 0.05, l2)
    assert gap <= 1.01e-8 * y.var()


def violation_of(model, X, y, weights):
    """Largest violation of an elastic net of strength 0.1, nine tenths of it L1."""
    return squared_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        0.09,
        0.01,
        sample_weight=weights,
        positive=model.positive,
        fit_intercept=model.fit_intercept,
    )


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_wide_lasso_of_every_kind_is_optimal(weighted, fit_intercept, positive):
    X, score, rng = gaussian(150, 400)
    X = X * rng.uniform(0.1, 10, 400) + 5.0
    y = score + 0.1 * rng.standard_normal(len(score)) + 2.0
    weights = rng.choice([0.0, 1.0, 2.5], len(y)) if weighted else None
    model = CaLasso(
        0.1, l1_ratio=0.9, fit_intercept=fit_intercept, positive=positive, tol=1e-9
    ).fit(X, y, sample_weight=weights)
    assert model.strategy_ == Way.WORKING_SETS.value
    assert violation_of(model, X, y, weights) < 1e-3


def test_coordinate_descent_that_gives_up_is_replaced(monkeypatch):
    monkeypatch.setattr(_coordinate_descent, "_MAX_EPOCHS", 1)
    test_wide_lasso_is_certified_on_all_columns(0.0, np.asarray)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_descent_on_all_columns_is_optimal(weighted, fit_intercept, positive):
    X, score, rng = gaussian(2500, 160)
    X = X * rng.uniform(0.1, 10, 160) + 5.0 * fit_intercept
    y = score + 0.1 * rng.standard_normal(len(score)) + 2.0
    weights = rng.choice([0.0, 1.0, 2.5], len(y)) if weighted else None
    if weighted:
        X[weights == 0] = 1e20
    model = CaLasso(
        0.1, l1_ratio=0.9, fit_intercept=fit_intercept, positive=positive, tol=1e-9
    ).fit(X, y, sample_weight=weights)
    assert model.strategy_ == Way.COORDINATE_DESCENT.value
    if weighted:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    assert violation_of(model, X, y, weights) < 1e-3


@pytest.mark.parametrize("n_rows", [1500, 6000])
def test_descent_on_all_columns_is_certified(n_rows):
    """The intercept and the certificate are those of all rows, not of a glance."""
    X, _, rng = gaussian(n_rows, 300)
    # The rows of the glance, every second one, have other means.
    X[::2, :5] += 1.0
    X += 3.0
    y = X @ rng.standard_normal(300) + rng.standard_normal(n_rows)
    model = CaLasso(0.05, tol=1e-7).fit(X, y)
    assert model.strategy_ == Way.COORDINATE_DESCENT.value
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 0.05, 0.0)
    assert gap <= 1.01 * model.dual_gap_ + 1e-12 * y.var()
    assert model.dual_gap_ <= 1e-7 * y.var()


def test_descent_that_takes_too_long_is_replaced():
    X, score, rng = gaussian(800, 160)
    X += 3 * rng.standard_normal((800, 1))
    y = score + 0.1 * rng.standard_normal(len(score))
    model = CaLasso(1e-3).fit(X, y)
    assert model.strategy_ == Way.STATISTICS.value
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 1e-3, 0.0)
    assert gap <= 1e-9 * y.var()


def test_wide_logistic_is_certified_on_all_columns():
    X, score, rng = gaussian(200, 400)
    y = labels(3 * score, rng)
    case = make_problem(X, y, "logistic", l1=0.02).standardised()
    result = run(case, tol=1e-9)
    assert result.status is Status.CONVERGED
    coef, intercept = case.problem.coordinates.to_user(result.evaluation.params)
    C = 1.0 / (0.02 * len(y))
    violation = logistic_violation(X, y.astype(int), coef.T, intercept, C, 1.0)
    assert violation <= 1.01e-9


def test_working_set_holds_the_columns_in_use_and_the_worst_others():
    X, score, _ = gaussian(150, 400)
    case = make_problem(X, score, "squared", l1=0.05)
    params = case.zeros
    params[[7, 300]] = 1.0
    evaluation = case.evaluate(params)
    features = _choose_features(case.problem, evaluation, 64)
    assert {7, 300} <= set(features)
    left_out = np.setdiff1d(np.arange(400), features)
    slope, l1 = evaluation.smooth_gradient[:400, 0], case.problem.penalty.l1[:400, 0]
    others = np.setdiff1d(features, [7, 300])
    # Violating or not: nobody left out is nearer to moving than those who were taken.
    push = np.abs(slope) / l1
    assert push[left_out].max() <= push[others].min()


def test_working_set_does_not_want_columns_that_must_not_become_negative():
    X, score, _ = gaussian(150, 400)
    case = make_problem(X, score, "squared", l1=0.05, positive=True)
    evaluation = case.evaluate(case.zeros)
    features = _choose_features(case.problem, evaluation, 64)
    slope, l1 = evaluation.smooth_gradient[:400, 0], case.problem.penalty.l1[:400, 0]
    assert (slope[features] < 0).all()
    left_out = np.setdiff1d(np.arange(400), features)
    assert (-slope / l1)[left_out].max() <= (-slope / l1)[features].min()


def test_useless_inner_solver_ends_the_rounds():
    X, score, _ = gaussian(150, 400)
    case = make_problem(sparse.csr_array(X), score, "squared", l1=0.05)

    def stuck(restricted, params):
        evaluation = yield Evaluate(restricted, params)
        yield Round(evaluation)

    solver = iterate_working_sets(case.problem, case.zeros, stuck)
    result = case.solve(solver, tol=1e-8, max_iter=50)
    assert result.status is Status.STALLED
    assert result.n_rounds <= 5


def test_problems_too_wide_for_a_matrix_are_refused_in_words():
    X = sparse.random_array(
        (20_000, 24_000), density=1e-5, format="csr", random_state=0
    )
    y = np.arange(20_000) % 2
    with pytest.raises(ValueError, match=r"24001 x 24001 numbers.*too wide"):
        CaLeastSquares().fit(X, y)


def test_wide_problems_need_no_matrix_of_all_columns():
    X = sparse.csr_array(
        (np.ones(40), (np.arange(40), np.arange(40) * 600)), shape=(40, 24_000)
    )
    y = np.arange(40) % 2
    assert_allclose(CaLeastSquares().fit(X, y).predict(X), y, atol=1e-12)
    model = CaLogisticRegression(tol=1e-8).fit(X, y)
    assert logistic_violation(X, y, model.coef_, model.intercept_, 1.0) <= 1.01e-8
    model = CaLasso(1e-3, tol=1e-8).fit(X, y)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 1e-3)
    assert gap <= 1.01e-8 * y.var()
