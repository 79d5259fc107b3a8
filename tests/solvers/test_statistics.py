"""Squared loss from statistics: exact, certified, at any condition number."""

import numpy as np
import pytest
from cases import Trace
from certificates import extended, lasso_dual_gap, squared_violation
from scipy import sparse
from solvers.tall_problems import gaussian, make_problem

from skcara.passes import Draw, Gram
from skcara.solvers import Status, Way
from skcara.solvers.squared import iterate_on_sample, iterate_statistics
from skcara.solvers.squared._sample import _sum_sample

PENALTIES = {
    "none": {},
    "l2": {"l2": 0.1},
    "l1": {"l1": 0.05},
    "elastic-net": {"l1": 0.05, "l2": 0.1},
    "positive": {"positive": True},
}


def few_entries(X):
    return sparse.csr_array(X * (np.arange(X.size).reshape(X.shape) % 23 == 0))


def solve_statistics(case, *, tol, max_iter):
    solver = iterate_statistics(case.problem, case.zeros)
    return case.solve(solver, tol=tol, max_iter=max_iter)


def solve_on_sample(case, *, tol, max_iter):
    solver = iterate_on_sample(case.problem, case.zeros, np.random.RandomState(0))
    return case.solve(solver, tol=tol, max_iter=max_iter)


@pytest.mark.parametrize("is_rare", [False, True])
def test_a_glance_tells_columns_that_no_sample_represents(is_rare):
    """Such columns are not worth a sample."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 4))
    if is_rare:
        X[:, 1] = rng.random(100_000) < 1e-3
    case = make_problem(X, rng.standard_normal(100_000), "squared").standardised()
    solver = iterate_on_sample(case.problem, case.zeros, np.random.RandomState(0))
    following = solver.send(case.ask(next(solver)))
    assert following is Way.STATISTICS if is_rare else isinstance(following, Draw)


def user_violation(case, evaluation, penalty):
    coef, intercept = case.problem.coordinates.to_user(evaluation.params)
    X, y = case.source.X, case.source.target
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
    case = make_problem(X, target, "squared", sample_weight=weights).standardised()
    sums = case.ask(Gram(case.problem, case.problem.reference_target))
    rows, _, mu = case.rows()
    expected = (rows * mu[:, None]).T @ rows
    np.testing.assert_allclose(sums.gram, expected, atol=1e-10 * np.abs(expected).max())
    shifted = target - case.problem.reference_target
    np.testing.assert_allclose(sums.cross, rows.T @ (mu * shifted), atol=1e-9)
    assert sums.square == pytest.approx(mu @ shifted**2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("to_X", [np.asarray, np.float32, sparse.csr_array])
def test_sums_of_a_sample_of_all_rows_are_those_of_all_rows(to_X, dtype):
    rng = np.random.default_rng(0)
    X = to_X(rng.standard_normal((20_000, 4)))
    target = rng.standard_normal(20_000) + 100.0
    case = make_problem(X, target, "squared").standardised()
    everything, shares = np.arange(20_000), np.full(20_000, 1 / 20_000)
    sampled = case.answer(_sum_sample(case.problem, everything, shares, dtype))
    sums = case.ask(Gram(case.problem, case.problem.reference_target))
    # Sums of n terms in random order are wrong by about sqrt(n) roundings.
    rounding = np.sqrt(20_000) * np.finfo(dtype).eps
    np.testing.assert_allclose(sampled.gram, sums.gram, atol=rounding)
    # What is not the metric is exact in any case.
    np.testing.assert_allclose(sampled.cross, sums.cross, atol=1e-12)
    assert (sampled.effective_rows <= case.problem.n_rows * (1 + 1e-9)).all()


LARGE_DESIGNS = {
    "gaussian": lambda X: X,
    "lognormal": lambda X: np.exp(1.5 * X),
    "offset": lambda X: X + 1000.0,
    "scales": lambda X: X * np.logspace(-4, 4, X.shape[1]),
    "rare": lambda X: np.where(np.arange(X.shape[1]) % 2, X, X > 3.0),
}


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("design", LARGE_DESIGNS)
def test_certificates_of_the_first_round_err_on_the_safe_side(design, penalty):
    X, score, rng = gaussian(50_000, 24)
    X = LARGE_DESIGNS[design](X)
    y = score + rng.standard_normal(len(score)) + 3.0
    case = make_problem(X, y, "squared", **penalty).standardised()
    trace = Trace()
    solver = trace.follow(iterate_statistics(case.problem, case.zeros))
    result = case.solve(solver, tol=1e-10, max_iter=20)
    claimed = trace.rounds[0].evaluation
    judged = case.evaluate(claimed.params)
    noise = 1e-14 * y.var()
    assert claimed.stop_value >= judged.stop_value - noise
    assert claimed.objective == pytest.approx(judged.objective, rel=1e-9)
    assert abs(claimed.loss - judged.loss) <= claimed.loss_error + noise
    if "l1" in penalty or "l2" in penalty:
        coef, intercept = case.problem.coordinates.to_user(claimed.params)
        # A pass bounds its own rounding as well: neither bound need be the larger one.
        strengths = penalty.get("l1", 0.0), penalty.get("l2", 0.0)
        gap = lasso_dual_gap(*extended(X, y, coef[:, 0], intercept[0]), *strengths)
        assert claimed.dual_gap >= gap - noise
    # A tolerance below what the sums can certify is reached by exact passes.
    assert result.status is Status.CONVERGED
    assert case.evaluate(result.evaluation.params).stop_value <= 1e-10


def nearly_dependent(X):
    X[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    return X


SPOILT = {
    "dependent": nearly_dependent,
    "scales": lambda X: X * np.logspace(-30, 30, X.shape[1]),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
@pytest.mark.parametrize("is_sampled", [False, True])
def test_columns_that_single_precision_cannot_hold_are_solved(spoil, is_sampled):
    X, score, rng = gaussian(50_000, 24)
    X = spoil(X)
    y = score + rng.standard_normal(len(score))
    case = make_problem(X, y, "squared").standardised()
    if is_sampled:
        result = solve_on_sample(case, tol=1e-9, max_iter=30)
    else:
        result = solve_statistics(case, tol=1e-12, max_iter=1)
    assert result.status is Status.CONVERGED
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    basis, _ = np.linalg.qr(np.column_stack([X, np.ones(len(X))]))
    best = 0.5 * np.mean((y - basis @ (basis.T @ y)) ** 2)
    assert result.evaluation.objective <= best * (1 + 1e-10)


def test_overflow_of_single_precision_does_no_harm():
    X, score, _ = gaussian(50_000, 24)
    # Rows that a glance at every thirteenth row does not meet, but a sample does.
    X[6::13, 3] = 1e30
    case = make_problem(X, score, "squared", l1=0.01).standardised()
    result = solve_on_sample(case, tol=1e-6, max_iter=30)
    assert np.isfinite(result.evaluation.objective)
    assert result.evaluation.objective <= case.evaluate(case.zeros).objective


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
def test_certificates_from_statistics_are_those_of_a_pass(penalty):
    X, score, rng = gaussian(5000, 12)
    y = score + rng.standard_normal(len(score)) + 3.0
    case = make_problem(X, y, "squared", **penalty).standardised()
    result = solve_statistics(case, tol=1e-9, max_iter=10)
    assert result.status is Status.CONVERGED
    assert result.passes == 1
    claimed, judged = result.evaluation, case.evaluate(result.evaluation.params)
    assert claimed.objective == pytest.approx(judged.objective, rel=1e-12)
    assert abs(claimed.optimality - judged.optimality) < 1e-12
    # The certificate assumes the worst that rounding may have done, and no more.
    assert judged.stop_value <= claimed.stop_value < judged.stop_value + 1e-10
    assert user_violation(case, result.evaluation, penalty) < 1e-11


@pytest.mark.parametrize("penalty", ["none", "l2", "l1", "positive"])
@pytest.mark.parametrize(("degree", "tol"), [(5, 1e-7), (6, 1e-5)])
def test_nearly_dependent_columns_are_solved(degree, tol, penalty):
    X, score, rng = gaussian(5000, 6)
    # Monomials: the condition number of the standardised columns is about 3e8 and 3e10.
    ramp = np.linspace(1.0, 1.1, len(X))[:, None]
    X = np.hstack([X, ramp ** np.arange(1, degree + 1)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = score + np.sin(100 * ramp[:, 0]) + 0.1 * rng.standard_normal(len(score))
    case = make_problem(X, y, "squared", **PENALTIES[penalty]).standardised()
    result = solve_statistics(case, tol=tol, max_iter=50)
    assert result.status is Status.CONVERGED
    assert result.passes <= 5
    violation = user_violation(case, result.evaluation, PENALTIES[penalty])
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
        case = make_problem(X, y, "squared", **penalty).standardised()
        result = solve_statistics(case, tol=1e-10, max_iter=10)
        assert result.status is Status.CONVERGED
        assert np.abs(result.evaluation.params).max() < 10
        assert user_violation(case, result.evaluation, penalty) < 1e-10


@pytest.mark.parametrize("penalty", ["none", "l1", "elastic-net", "positive"])
def test_gram_matrix_of_a_sample_leads_to_the_optimum_of_all_rows(penalty):
    X, score, rng = gaussian(20_000, 30)
    y = score + rng.standard_normal(len(score)) + 5.0
    case = make_problem(X, y, "squared", **PENALTIES[penalty]).standardised()
    result = solve_on_sample(case, tol=1e-9, max_iter=30)
    assert result.status is Status.CONVERGED
    assert result.passes < 15
    # A gap of tol leaves violations of about its square root.
    limit = np.sqrt(1e-9 * y.var())
    assert user_violation(case, result.evaluation, PENALTIES[penalty]) < limit


@pytest.mark.parametrize("penalty", ["none", "l1"])
def test_column_carried_by_few_rows_is_not_left_to_a_sample(penalty):
    X, score, rng = gaussian(20_000, 90)
    X[:, 3] = 0.0
    X[:5, 3] = 50.0
    y = score + X[:, 3] + rng.standard_normal(len(score))
    penalty = {"l1": 1e-3} if penalty == "l1" else {}
    case = make_problem(X, y, "squared", **penalty).standardised()
    result = solve_on_sample(case, tol=1e-10, max_iter=30)
    assert result.way is Way.STATISTICS
    assert result.status is Status.CONVERGED
    assert result.passes < 4
    assert user_violation(case, result.evaluation, penalty) < 1e-10
