"""One pass yields the objective, its gradient and certificates of the full data."""

from dataclasses import replace

import numpy as np
import pytest
from cases import make_case
from certificates import (
    lasso_dual_gap,
    logistic_objective,
    logistic_violation,
    soft_threshold,
    squared_objective,
    squared_violation,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import approx_fprime

from skcara.data import Coordinates
from skcara.objective import (
    DualGap,
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    ResidualCorrelation,
    SeparablePenalty,
    SquaredLoss,
)

N_FEATURES = 4


def make_penalty(l1, l2, n_params, positive=False):
    features = (np.arange(n_params) < N_FEATURES)[:, None]
    return SeparablePenalty(features * l1, features * l2, features & positive)


def make_problem(
    kind="squared",
    *,
    n_rows=3000,
    seed=0,
    weighted=False,
    is_sparse=False,
    standardise=False,
    fit_intercept=True,
    l1=0.02,
    l2=0.01,
    n_jobs=None,
):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES)) * [0.1, 1.0, 5.0, 1.0] + 0.5
    if is_sparse:
        X = sparse.csr_array(np.where(np.abs(X) > 0.6, X, 0.0))
    rows = X.toarray() if is_sparse else X
    score = rows @ [1.0, -1.0, 0.2, 0.0]
    if kind == "squared":
        loss, target = SquaredLoss(), score + rng.standard_normal(n_rows) + 2
        criterion = DualGap()
    elif kind == "logistic":
        loss, criterion = LogisticLoss(), KKTViolation()
        target = (score + rng.logistic(size=n_rows) > 0).astype(np.int8)
    else:
        loss, criterion = MultinomialLoss(3), KKTViolation()
        target = rng.integers(0, 3, n_rows).astype(np.int8)
    case = make_case(
        X,
        target,
        loss,
        make_penalty(l1, l2, N_FEATURES + fit_intercept),
        criterion,
        sample_weight=rng.random(n_rows) if weighted else None,
        fit_intercept=fit_intercept,
        n_jobs=n_jobs,
    )
    if not standardise:
        return case
    can_shift = fit_intercept and not is_sparse
    shift = rows.mean(axis=0) if can_shift else np.zeros(N_FEATURES)
    return case.with_coordinates(Coordinates(shift, rows.std(axis=0), fit_intercept))


def random_params(case, seed=1):
    rng = np.random.default_rng(seed)
    return 0.3 * rng.standard_normal(case.zeros.shape)


KINDS = ["squared", "logistic", "multinomial"]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_objective(kind, is_sparse, standardise, fit_intercept):
    case = make_problem(
        kind,
        n_rows=300,
        weighted=True,
        is_sparse=is_sparse,
        standardise=standardise,
        fit_intercept=fit_intercept,
        l1=0.0,
    )
    params = random_params(case)

    def objective(flat):
        return case.evaluate(flat.reshape(params.shape)).objective

    numerical = approx_fprime(params.ravel(), objective, 1e-7)
    gradient = case.evaluate(params).smooth_gradient
    assert_allclose(gradient.ravel(), numerical, atol=2e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("standardise", [False, True])
def test_squared_evaluation_agrees_with_the_judges(standardise, weighted):
    case = make_problem(standardise=standardise, weighted=weighted)
    evaluation = case.evaluate(random_params(case))
    coef, intercept = case.problem.coordinates.to_user(evaluation.params)
    data = case.source.X, case.source.target, coef[:, 0], intercept[0], 0.02, 0.01
    weights = {"sample_weight": case.source.weights}
    assert evaluation.objective == pytest.approx(squared_objective(*data, **weights))
    assert evaluation.optimality == pytest.approx(squared_violation(*data, **weights))
    gap = lasso_dual_gap(*data, **weights)
    assert evaluation.dual_gap == pytest.approx(gap, rel=1e-9)


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_dual_gap_bounds_the_suboptimality(fit_intercept, l2, global_random_seed):
    """The gap is at least F - F* everywhere and vanishes at the optimum."""
    case = make_problem(
        n_rows=200, fit_intercept=fit_intercept, l2=l2, seed=global_random_seed
    )
    params, penalty = case.zeros, case.problem.penalty
    rows, _, weights = case.rows()
    hessian = (rows * weights[:, None]).T @ rows + np.diag(penalty.l2[:, 0])
    path = []
    for _ in range(1000):
        evaluation = case.evaluate(params)
        path.append((evaluation.objective, evaluation.dual_gap))
        gradient, before = evaluation.smooth_gradient, params
        params = params.copy()
        for j, curvature in enumerate(np.diag(hessian)):
            slope = gradient[j] + hessian[j] @ (params - before)
            target = params[j] - slope / curvature
            params[j] = soft_threshold(target, penalty.l1[j] / curvature)
    objective, gap = np.array(path).T
    assert (gap >= objective - objective[-1] - 1e-13).all()
    assert gap[-1] < 1e-7 * gap[0]


@pytest.mark.parametrize("kind", ["logistic", "multinomial"])
def test_logistic_evaluation_agrees_with_the_judges(kind):
    case = make_problem(kind, weighted=True, standardise=True, l1=2e-3, l2=1e-3)
    evaluation = case.evaluate(random_params(case))
    coef, intercept = case.problem.coordinates.to_user(evaluation.params)
    C = 1 / (3e-3 * case.problem.total_weight)
    data = case.source.X, case.source.target, coef.T, intercept, C, 2 / 3
    weights = {"sample_weight": case.source.weights}
    assert evaluation.objective == pytest.approx(logistic_objective(*data, **weights))
    assert evaluation.optimality == pytest.approx(logistic_violation(*data, **weights))


@pytest.mark.parametrize("group_rows", [1, 64, 512])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_sums_of_row_gradients(kind, is_sparse, group_rows):
    case = make_problem(
        kind, is_sparse=is_sparse, standardise=True, weighted=True, n_rows=9001
    )
    params = random_params(case)
    evaluation = case.evaluate(params, group_rows=group_rows)
    rows, target, weights = case.rows()
    derivative = case.problem.loss.derivative(target, rows @ params)
    gradients = weights[:, None, None] * rows[:, :, None] * derivative[:, None, :]
    groups = evaluation.groups
    expected = np.add.reduceat(gradients, groups.offsets[:-1]).reshape(
        len(groups.masses), -1
    )
    assert_allclose(groups.sums, expected, atol=1e-12)
    assert_allclose(groups.masses, np.add.reduceat(weights, groups.offsets[:-1]))
    plain = case.evaluate(params)
    assert_allclose(groups.sums.sum(axis=0), plain.gradient.ravel(), atol=1e-13)


@pytest.mark.parametrize("group_rows", [None, 256])
def test_evaluation_does_not_depend_on_the_number_of_threads(group_rows):
    one, two = (make_problem(n_rows=300_000, n_jobs=n_jobs) for n_jobs in (1, 2))
    params = random_params(one)
    first = one.evaluate(params, group_rows=group_rows)
    second = two.evaluate(params, group_rows=group_rows)
    assert first.objective == second.objective
    assert_array_equal(first.gradient, second.gradient)


def test_correlation_is_zero_at_the_solution_and_scale_free():
    case = make_problem(l1=0.0, l2=0.0)
    case = replace(case, problem=replace(case.problem, criterion=ResidualCorrelation()))
    rows, target, _ = case.rows()
    solution = np.linalg.lstsq(rows, target, rcond=None)[0][:, None]
    assert case.evaluate(solution).stop_value < 1e-13
    away = case.evaluate(solution + 0.1).stop_value
    assert 1e-3 < away <= 1
    residual = target - (rows @ (solution + 0.1))[:, 0]
    correlations = np.corrcoef(residual, case.source.X, rowvar=False)[0, 1:]
    assert away >= np.abs(correlations).max() * (1 - 1e-9)


def test_an_exact_fit_is_converged():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, N_FEATURES))
    coef = rng.standard_normal(N_FEATURES)
    penalty = make_penalty(0.0, 0.0, N_FEATURES + 1)
    case = make_case(X, X @ coef + 3.0, SquaredLoss(), penalty, ResidualCorrelation())
    assert case.evaluate(np.append(coef, 3.0)[:, None]).stop_value == 0


@pytest.mark.parametrize(("sign", "is_optimal"), [(1.0, False), (-1.0, True)])
def test_columns_at_the_bound_of_positivity_count_if_they_would_help(sign, is_optimal):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 1))
    nothing = np.zeros((1, 1))
    penalty = SeparablePenalty(nothing, nothing, nothing == 0)
    data = X, sign * X[:, 0], SquaredLoss(), penalty, ResidualCorrelation()
    case = make_case(*data, fit_intercept=False)
    expected = 0.0 if is_optimal else 1.0
    assert case.evaluate(case.zeros).stop_value == pytest.approx(expected)
