"""Squared loss from statistics: exact, certified, at any condition number."""

import numpy as np
import pytest
from certificates import squared_violation
from scipy import sparse
from skcara.solvers._coordinates import standardised
from skcara.solvers._gram import gram_of_all_rows, gram_of_sample, level
from skcara.solvers._squared import (
    iterate_on_sample,
    iterate_squared,
    iterate_statistics,
    solve_sample,
)
from solvers.tall_problems import gaussian, make_problem

from skcara.solvers import Status, run_rounds

PENALTIES = {
    "none": {},
    "l2": {"l2": 0.1},
    "l1": {"l1": 0.05},
    "elastic-net": {"l1": 0.05, "l2": 0.1},
    "positive": {"positive": True},
}


def few_entries(X):
    return sparse.csr_array(X * (np.arange(X.size).reshape(X.shape) % 23 == 0))


def zeros(problem):
    return np.zeros((problem.n_params, 1))


def user_violation(problem, evaluation, penalty):
    coef, intercept = problem.design.to_user(evaluation.params)
    X, y = problem.design.X, problem.target
    return squared_violation(X, y, coef[:, 0], intercept[0], **penalty)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e5])
@pytest.mark.parametrize(
    "to_X", [np.asarray, np.float32, sparse.csr_array, few_entries]
)
def test_gram_matrix_is_that_of_the_standardised_rows(to_X, offset, weighted):
    rng = np.random.default_rng(0)
    X = to_X(rng.standard_normal((20_000, 4)) + offset)
    target = rng.standard_normal(20_000) + 100.0
    weights = rng.random(20_000) if weighted else None
    problem = make_problem(X, target, "squared", sample_weight=weights)
    problem = standardised(problem)
    sums = gram_of_all_rows(problem, level(problem))
    rows, _, mu = problem.rows(np.arange(problem.n_rows))
    expected = (rows * mu[:, None]).T @ rows
    np.testing.assert_allclose(sums.gram, expected, atol=1e-10 * np.abs(expected).max())
    shifted = target - target[0]
    np.testing.assert_allclose(sums.cross, rows.T @ (mu * shifted), atol=1e-9)
    assert sums.square == pytest.approx(mu @ shifted**2)
    everything = np.arange(problem.n_rows)
    sampled, effective_rows = gram_of_sample(problem, everything, problem.weights)
    np.testing.assert_allclose(sampled.gram, sums.gram, atol=1e-8)
    assert (effective_rows <= problem.n_rows * (1 + 1e-9)).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e5])
def test_single_precision_concerns_the_gram_matrix_alone(offset, weighted):
    """Gradient and loss at the anchor are as exact as those of any other pass."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 4)) + offset
    weights = rng.random(20_000) if weighted else None
    target = X @ rng.standard_normal(4) + 100.0
    problem = make_problem(X, target, "squared", sample_weight=weights)
    problem = standardised(problem)
    anchor = rng.standard_normal(5)
    sums = gram_of_all_rows(problem, anchor, np.float32)
    exact = problem.evaluate(anchor[:, None])
    scale = np.sqrt(2 * exact.loss)
    np.testing.assert_allclose(-sums.cross, exact.gradient[:, 0], atol=1e-10 * scale)
    assert sums.square == pytest.approx(2 * exact.loss, rel=1e-12)
    double = gram_of_all_rows(problem, level(problem)).gram
    error = np.linalg.norm(sums.gram - double, 2)
    assert 0 < error < 4 * np.finfo(np.float32).eps


LARGE_DESIGNS = {
    "gaussian": lambda X: X,
    "lognormal": lambda X: np.exp(1.5 * X),
    "offset": lambda X: X + 1000.0,
    "scales": lambda X: X * np.logspace(-4, 4, X.shape[1]),
    "rare": lambda X: np.where(np.arange(X.shape[1]) % 2, X, X > 3.0),
}


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("design", LARGE_DESIGNS)
def test_certificates_in_single_precision_err_on_the_safe_side(design, penalty):
    X, score, rng = gaussian(50_000, 24)
    X = LARGE_DESIGNS[design](X)
    y = score + rng.standard_normal(len(score)) + 3.0
    problem = standardised(make_problem(X, y, "squared", **penalty))
    sample = solve_sample(problem, np.random.RandomState(0))
    rounds = iterate_statistics(problem, zeros(problem), sample.params)
    claimed = next(rounds).evaluation
    judged = problem.evaluate(claimed.params)
    noise = 1e-14 * y.var()
    assert claimed.stop_value >= judged.stop_value - noise
    assert claimed.objective == pytest.approx(judged.objective, rel=1e-9)
    if claimed.dual_gap is not None:
        assert claimed.dual_gap >= judged.dual_gap - noise
    # A tolerance below what single precision can certify is reached by exact passes.
    rounds = iterate_statistics(problem, zeros(problem), sample.params)
    result = run_rounds(rounds, tol=1e-10, max_iter=20)
    assert result.status is Status.CONVERGED
    assert problem.evaluate(result.evaluation.params).stop_value <= 1e-10


def nearly_dependent(X):
    X[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    return X


@pytest.mark.parametrize(
    "spoil",
    [nearly_dependent, lambda X: X * np.logspace(-30, 30, X.shape[1])],
    ids=["dependent", "scales"],
)
def test_what_single_precision_cannot_hold_is_summed_in_double(spoil):
    X, score, rng = gaussian(50_000, 24)
    X = spoil(X)
    y = score + rng.standard_normal(len(score))
    problem = standardised(make_problem(X, y, "squared"))
    rng = np.random.RandomState(0)
    rounds = iterate_squared(problem, zeros(problem), rng, is_tall=True)
    result = run_rounds(rounds, tol=1e-12, max_iter=1)
    assert result.status is Status.CONVERGED
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    basis, _ = np.linalg.qr(np.column_stack([X, np.ones(len(X))]))
    best = 0.5 * np.mean((y - basis @ (basis.T @ y)) ** 2)
    assert result.evaluation.objective <= best * (1 + 1e-10)


def test_overflow_of_single_precision_costs_a_pass_and_nothing_else():
    X, score, _ = gaussian(50_000, 24)
    X[-7, 3] = 1e30
    problem = standardised(make_problem(X, score, "squared", l1=0.01))
    sample = solve_sample(problem, np.random.RandomState(0))
    rounds = iterate_statistics(problem, zeros(problem), sample.params)
    first = next(rounds)
    assert first.passes >= 2
    assert np.isfinite(first.evaluation.objective)


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
def test_certificates_from_statistics_are_those_of_a_pass(penalty):
    X, score, rng = gaussian(5000, 12)
    y = score + rng.standard_normal(len(score)) + 3.0
    problem = standardised(make_problem(X, y, "squared", **penalty))
    result = run_rounds(
        iterate_statistics(problem, zeros(problem)), tol=1e-12, max_iter=10
    )
    assert result.status is Status.CONVERGED
    assert result.passes == 1
    judged = problem.evaluate(result.evaluation.params)
    assert result.evaluation.objective == pytest.approx(judged.objective, rel=1e-12)
    assert abs(result.evaluation.optimality - judged.optimality) < 1e-12
    assert user_violation(problem, result.evaluation, penalty) < 1e-11


@pytest.mark.parametrize("penalty", ["none", "l2", "l1", "positive"])
@pytest.mark.parametrize(("degree", "tol"), [(5, 1e-7), (6, 1e-5)])
def test_nearly_dependent_columns_are_solved(degree, tol, penalty):
    X, score, rng = gaussian(5000, 6)
    # Monomials: the condition number of the standardised columns is about 3e8 and 3e10.
    ramp = np.linspace(1.0, 1.1, len(X))[:, None]
    X = np.hstack([X, ramp ** np.arange(1, degree + 1)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = score + np.sin(100 * ramp[:, 0]) + 0.1 * rng.standard_normal(len(score))
    problem = standardised(make_problem(X, y, "squared", **PENALTIES[penalty]))
    result = run_rounds(
        iterate_statistics(problem, zeros(problem)), tol=tol, max_iter=50
    )
    assert result.status is Status.CONVERGED
    assert result.passes <= 5
    violation = user_violation(problem, result.evaluation, PENALTIES[penalty])
    # Predictions with coefficients of up to 1e9 are rounded to 1e-7.
    assert violation < 1e-5
    assert abs(result.evaluation.optimality - violation) < 1e-6
    if penalty == "none":
        # Hidden directions have tiny gradients: only the objective tells.
        basis, _ = np.linalg.qr(np.column_stack([X, np.ones(len(X))]))
        best = 0.5 * np.mean((y - basis @ (basis.T @ y)) ** 2)
        assert result.evaluation.objective <= best * (1 + 1e-6)


def test_constant_and_repeated_columns_stay_finite():
    X, score, rng = gaussian(5000, 6)
    X = np.hstack([X, np.full((len(X), 1), 7.0), X[:, :2]])
    y = score + rng.standard_normal(len(score))
    for penalty in PENALTIES.values():
        problem = standardised(make_problem(X, y, "squared", **penalty))
        rounds = iterate_statistics(problem, zeros(problem))
        result = run_rounds(rounds, tol=1e-10, max_iter=10)
        assert result.status is Status.CONVERGED
        assert np.abs(result.evaluation.params).max() < 10
        assert user_violation(problem, result.evaluation, penalty) < 1e-10


@pytest.mark.parametrize("penalty", ["none", "l1", "elastic-net", "positive"])
def test_gram_matrix_of_a_sample_leads_to_the_optimum_of_all_rows(penalty):
    X, score, rng = gaussian(20_000, 30)
    y = score + rng.standard_normal(len(score)) + 5.0
    problem = standardised(make_problem(X, y, "squared", **PENALTIES[penalty]))
    sample = solve_sample(problem, np.random.RandomState(0))
    rounds = iterate_on_sample(problem, zeros(problem), sample)
    result = run_rounds(rounds, tol=1e-9, max_iter=30)
    assert result.status is Status.CONVERGED
    assert result.passes < 15
    # A gap of tol leaves violations of about its square root.
    limit = np.sqrt(1e-9 * y.var())
    assert user_violation(problem, result.evaluation, PENALTIES[penalty]) < limit


@pytest.mark.parametrize("penalty", ["none", "l1"])
def test_column_carried_by_few_rows_is_not_left_to_a_sample(penalty):
    X, score, rng = gaussian(20_000, 90)
    X[:, 3] = 0.0
    X[:5, 3] = 50.0
    y = score + X[:, 3] + rng.standard_normal(len(score))
    penalty = {"l1": 1e-3} if penalty == "l1" else {}
    problem = standardised(make_problem(X, y, "squared", **penalty))
    sample = solve_sample(problem, np.random.RandomState(0))
    assert not sample.is_representative
    rng = np.random.RandomState(0)
    rounds = iterate_squared(problem, zeros(problem), rng, is_tall=True)
    result = run_rounds(rounds, tol=1e-10, max_iter=30)
    assert result.status is Status.CONVERGED
    assert result.passes < 4
    assert user_violation(problem, result.evaluation, penalty) < 1e-10
