"""Newton on reduced measures: exact gradients, certified optima, no blind trust."""

import numpy as np
import pytest
from certificates import logistic_violation, squared_violation
from scipy import sparse
from solvers.tall_problems import (
    N_ROWS,
    classes,
    gaussian,
    labels,
    make_problem,
    rare_levels,
)

from skcara.objective import MultinomialLoss
from skcara.passes import Hessian, Take
from skcara.recombination import RecombinationError
from skcara.solvers import Status, Way, _quadratic
from skcara.solvers._quadratic import ridged_cholesky
from skcara.solvers.newton import (
    CanewtonOptions,
    _canewton,
    _measures,
    iterate_canewton,
)
from skcara.solvers.newton._measures import CalibratedSample, RecombinedGroups
from skcara.solvers.newton._newton import iterate_newton
from skcara.solvers.newton._reduced import ReducedProblem
from skcara.solvers.newton._reduced_steps import minimize_reduced

PENALTIES = {
    "none": {},
    "l2": {"l2": 1.0 / N_ROWS},
    "l1": {"l1": 3e-3},
    "elastic-net": {"l1": 1e-3, "l2": 1e-3},
    "positive": {"positive": True},
}


def run(case, *, recombination="auto", tol=1e-6, max_iter=60, seed=0):
    solver = iterate_canewton(
        case.problem,
        case.zeros,
        CanewtonOptions(recombination),
        np.random.RandomState(seed),
    )
    return case.solve(solver, tol=tol, max_iter=max_iter)


def violation(case, evaluation, *, l1=0.0, l2=0.0, positive=False):
    """Judge in the user's coordinates by code that the solver does not share."""
    coef, intercept = case.problem.coordinates.to_user(evaluation.params)
    X, y, weights = case.source.X, case.source.target, case.source.weights
    if positive:
        derivative = case.problem.loss.derivative(y, X @ coef + intercept)
        residual = case.rows().shares[:, None] * derivative
        gradient = X.T @ residual
        assert (coef >= 0).all()
        excess = np.where(coef == 0, np.maximum(-gradient, 0), np.abs(gradient))
        return max(excess.max(), abs(residual.sum()))
    strength = l1 + l2
    total = case.problem.total_weight
    return logistic_violation(
        X,
        y.astype(int),
        coef.T,
        intercept,
        1.0 / (strength * total) if strength else np.inf,
        l1 / strength if strength else 0.0,
        sample_weight=weights,
    )


def binary(kind="gaussian", seed=0):
    X, score, rng = rare_levels(seed=seed) if kind == "levels" else gaussian(seed=seed)
    if kind == "heavy-tailed":
        X = rng.standard_t(2, X.shape)
        score = X[:, 0] - X[:, 1]
    if kind == "scaled":
        X = X * np.logspace(-4, 4, X.shape[1])
    if kind == "offset":
        X = X + 1e3
    if kind == "dependent":
        X = np.hstack([X, X[:, :3], np.ones((len(X), 1)), np.zeros((len(X), 1))])
    y = labels(score, rng, offset=-6.0 if kind == "rare-class" else 0.0)
    if kind == "sorted":
        order = np.lexsort((X[:, 0], y))
        X, y = X[order], y[order]
    return X, y


ADVERSARIES = [
    "gaussian",
    "sorted",
    "heavy-tailed",
    "scaled",
    "offset",
    "dependent",
    "levels",
    "rare-class",
]


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("kind", ADVERSARIES)
def test_logistic_optimum_is_certified(kind, penalty):
    X, y = binary(kind)
    case = make_problem(X, y, "logistic", **penalty).standardised()
    result = run(case)
    assert result.status is Status.CONVERGED
    reached = violation(case, result.evaluation, **penalty)
    assert reached <= 1e-6 * (1 + 1e-6)
    assert result.evaluation.optimality == pytest.approx(reached, abs=1e-9)


@pytest.mark.parametrize("penalty", ["none", "l2", "l1"])
def test_multinomial_optimum_is_certified(penalty):
    X, score, rng = gaussian()
    y = classes(score, rng)
    case = make_problem(X, y, "multinomial", **PENALTIES[penalty]).standardised()
    result = run(case)
    assert result.status is Status.CONVERGED
    assert violation(case, result.evaluation, **PENALTIES[penalty]) <= 1.01e-6


@pytest.mark.parametrize("variant", ["weights", "sparse", "float32", "no-intercept"])
def test_variants_of_the_input_reach_their_optimum(variant):
    X, y = binary("levels")
    options = {}
    if variant == "weights":
        weights = np.random.default_rng(1).random(len(y))
        weights[::3] = 0.0
        options["sample_weight"] = weights
    X = sparse.csr_array(X) if variant == "sparse" else X
    X = X.astype(np.float32) if variant == "float32" else X
    options["fit_intercept"] = variant != "no-intercept"
    case = make_problem(X, y, "logistic", l2=1e-4, **options)
    standardised = case.standardised()
    result = run(standardised)
    assert result.status is Status.CONVERGED
    # The judge knows an intercept only; without one it checks the other coordinates.
    solution = standardised.problem.coordinates.to_user(result.evaluation.params)
    fresh = case.evaluate(case.problem.coordinates.from_user(*solution))
    assert fresh.optimality <= 1.01e-6


@pytest.mark.parametrize("n_features", [5, 20])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_benign_data_are_read_a_few_times(loss, n_features, global_random_seed):
    X, score, rng = gaussian(N_ROWS * 20 // n_features, n_features, global_random_seed)
    y = labels(score, rng) if loss == "logistic" else classes(score, rng)
    case = make_problem(X, y, loss, l2=1.0 / len(y)).standardised()
    result = run(case, seed=global_random_seed)
    assert result.status is Status.CONVERGED
    assert result.passes <= 8
    assert result.way is Way.CALIBRATED_SAMPLE
    assert result.n_calibrations >= 1
    assert result.n_recombinations == 0, "a calibrated sample is not a recombination"


# ---- the measure -----------------------------------------------------------------


def started_supply(kind, case):
    rng = np.random.RandomState(0)
    if kind == "calibrated":
        supply = CalibratedSample(case.problem, rng)
    else:
        supply = RecombinedGroups(case.problem, kind, rng)
    case.answer(supply.start(case.zeros))
    return supply


@pytest.mark.parametrize("kind", ["calibrated", "tree", "combined"])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_reduced_gradient_equals_the_full_one_at_the_anchor(loss, kind):
    X, score, rng = gaussian()
    y = labels(score, rng) if loss == "logistic" else classes(score, rng)
    case = make_problem(X, y, loss, l2=1e-3).standardised()
    supply = started_supply(kind, case)
    params = 0.3 * rng.standard_normal(case.zeros.shape)
    anchor = case.evaluate(params, group_rows=supply.group_rows)
    reduction = case.answer(supply.reduce(anchor))
    reduced = reduction.problem.evaluate(params.ravel())
    np.testing.assert_allclose(
        reduced.gradient, anchor.smooth_gradient.ravel(), atol=1e-10
    )
    measure = reduction.measure
    assert (measure.weights > 0).all()
    assert measure.weights.sum() == pytest.approx(1.0, rel=1e-10)
    assert (np.diff(measure.indices) > 0).all()
    assert len(measure.indices) < case.problem.n_rows / 4
    # The measure speaks about the user's rows: judge it on them.
    assert reduction.is_recombined == (kind != "calibrated")
    rows, target, _ = case.rows(measure.indices)
    derivative = case.problem.loss.derivative(target, rows @ params)
    gradient = rows.T @ (measure.weights[:, None] * derivative)
    np.testing.assert_allclose(gradient, anchor.gradient, atol=1e-10)


def test_gradient_is_exact_even_where_no_measure_is_found(monkeypatch):
    monkeypatch.setattr(_measures, "calibrate_rows", lambda *args: None)
    X, y = binary()
    case = make_problem(X, y, "logistic", l1=1e-3).standardised()
    supply = started_supply("calibrated", case)
    params = np.full((case.problem.n_params, 1), 0.1)
    anchor = case.evaluate(params)
    reduction = case.answer(supply.reduce(anchor))
    assert reduction.measure is None
    reduced = reduction.problem.evaluate(params.ravel())
    np.testing.assert_allclose(
        reduced.gradient, anchor.smooth_gradient.ravel(), atol=1e-14
    )
    result = run(case)
    assert result.status is Status.CONVERGED
    assert result.n_calibrations == 0


@pytest.mark.parametrize("method", ["tree", "log", "maalouf"])
def test_named_recombinations_reach_the_optimum(method):
    X, y = binary()
    case = make_problem(X, y, "logistic", l2=1e-4).standardised()
    result = run(case, recombination=method)
    assert result.status is Status.CONVERGED
    assert result.way is Way.RECOMBINED_GROUPS
    assert result.measure is not None
    assert result.n_recombinations >= 1
    assert result.n_calibrations == 0
    assert violation(case, result.evaluation, l2=1e-4) <= 1.01e-6


def test_squared_loss_recombines_when_asked_to():
    X, score, rng = gaussian()
    y = score + rng.standard_normal(len(score))
    case = make_problem(X, y, "squared", l1=0.01).standardised()
    result = run(case, recombination="tree", tol=1e-9)
    assert result.status is Status.CONVERGED
    assert result.measure is not None
    coef, intercept = case.problem.coordinates.to_user(result.evaluation.params)
    assert squared_violation(X, y, coef[:, 0], intercept[0], 0.01) < 1e-6


# ---- no blind trust --------------------------------------------------------------


def test_garbage_from_a_reduced_solve_costs_time_only(monkeypatch):
    rng = np.random.default_rng(0)

    def garbage(reduced, start, **options):
        solution = minimize_reduced(reduced, start, **options)
        noise = 10 * rng.standard_normal(len(solution.params))
        object.__setattr__(solution, "params", solution.params + noise)
        return solution

    monkeypatch.setattr(_canewton, "minimize_reduced", garbage)
    X, y = binary()
    case = make_problem(X, y, "logistic", l2=1e-4).standardised()
    result = run(case)
    assert result.status is Status.CONVERGED
    assert violation(case, result.evaluation, l2=1e-4) <= 1.01e-6


@pytest.mark.parametrize("strengths", [{"l2": 1e-3}, {"l1": 1e-2}], ids=["l2", "l1"])
@pytest.mark.parametrize("n_rows", [300, N_ROWS])
def test_reduced_solutions_are_as_accurate_as_asked_for(n_rows, strengths):
    """Few rows have a Hessian in every step, many do not; neither stops early."""
    X, y = (values[:n_rows] for values in binary())
    case = make_problem(X, y, "logistic", **strengths).standardised()
    taken = case.ask(Take(case.problem, np.arange(n_rows)))
    reduced = ReducedProblem(*taken, case.problem.loss, case.problem.penalty)
    start = reduced.evaluate(case.zeros.ravel())
    solution = minimize_reduced(reduced, start, accuracy=1e-5)
    assert (solution.hessians == solution.steps) == (n_rows == 300)
    end, model = reduced.evaluate(solution.params), reduced.model(solution.params)
    candidate = model.minimize(end.params, end.gradient)
    left = -0.5 * model.decrease(end.params, end.gradient, candidate)
    assert left <= 1e-5 * solution.first_decrease


def test_failing_recombination_costs_time_only(monkeypatch):
    def fail(*args, **options):
        raise RecombinationError("injected")

    monkeypatch.setattr(_measures, "keep_groups", fail)
    X, y = binary()
    case = make_problem(X, y, "logistic", l2=1e-4).standardised()
    result = run(case, recombination="tree")
    assert result.status is Status.CONVERGED
    assert result.measure is None
    assert violation(case, result.evaluation, l2=1e-4) <= 1.01e-6


def test_separable_classes_end_with_finite_coefficients():
    X, score, _ = gaussian(n_features=18)
    y = (score > 0).astype(np.float64)
    case = make_problem(X, y, "logistic").standardised()
    result = run(case, tol=1e-14, max_iter=15)
    assert result.status is not Status.CONVERGED
    assert np.isfinite(result.evaluation.params).all()
    assert result.evaluation.objective < 0.1


def test_unreachable_tolerance_ends_the_rounds():
    X, y = binary()
    case = make_problem(X, y, "logistic", l2=1e-3).standardised()
    result = run(case, tol=0.0, max_iter=100)
    assert result.status is Status.STALLED
    # Objectives that differ by rounding (1e-16) differ in gradient by its square root.
    assert violation(case, result.evaluation, l2=1e-3) < 1e-8


def test_same_seed_same_result():
    X, y = binary("levels")
    case = make_problem(X, y, "logistic", l2=1e-3).standardised()
    first, second = run(case, seed=3), run(case, seed=3)
    np.testing.assert_array_equal(first.evaluation.params, second.evaluation.params)
    np.testing.assert_array_equal(first.measure.indices, second.measure.indices)


# ---- all rows --------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
def test_full_hessian_is_the_derivative_of_the_gradient(loss, to_X):
    X, score, rng = gaussian(2000, 4)
    y = labels(score, rng) if loss == "logistic" else classes(score, rng)
    case = make_problem(to_X(X), y, loss, l2=0.1).standardised()
    params = 0.2 * rng.standard_normal(case.zeros.shape)
    ridge = np.repeat(case.problem.penalty.l2[:, 0], case.problem.n_outputs)
    matrix = case.ask(Hessian(case.problem, params)) + np.diag(ridge)
    step = 1e-5 * rng.standard_normal(params.shape)
    ahead, behind = case.evaluate(params + step), case.evaluate(params - step)
    change = (ahead.smooth_gradient - behind.smooth_gradient).ravel() / 2
    np.testing.assert_allclose(matrix @ step.ravel(), change, atol=1e-12)
    taken = case.ask(Take(case.problem, np.arange(case.problem.n_rows)))
    assert sparse.issparse(taken.rows) == sparse.issparse(case.source.X)
    reduced = ReducedProblem(*taken, case.problem.loss, case.problem.penalty)
    model = reduced.model(params.ravel())
    np.testing.assert_allclose(model.matrix, matrix, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 8, 9, 20])
def test_hessian_of_few_and_of_many_classes(n_classes, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    rows, weights = rng.standard_normal((50, 4)), rng.random(50)
    target = rng.integers(n_classes, size=50)
    prediction, loss = rng.standard_normal((50, n_classes)), MultinomialLoss(n_classes)
    second = loss.second_derivative(target, prediction)
    expected = np.einsum("i,ij,il,ikm->jklm", weights, rows, rows, second)
    hessian = loss.hessian(rows, weights, target, prediction)
    np.testing.assert_allclose(hessian, expected.reshape(hessian.shape), atol=1e-12)


@pytest.mark.parametrize("recombination", [None, "auto"])
def test_few_rows_and_no_recombination_give_plain_newton(recombination):
    X, score, rng = gaussian(3000, 8)
    y = labels(score, rng)
    case = make_problem(X, y, "logistic", l1=1e-3).standardised()
    result = run(case, recombination=recombination, tol=1e-10)
    assert result.status is Status.CONVERGED
    assert result.measure is None
    assert violation(case, result.evaluation, l1=1e-3) <= 1.01e-10


def test_wrong_hessian_is_corrected_on_the_full_data():
    X, score, rng = gaussian(3000, 8)
    case = make_problem(X, labels(score, rng), "logistic", l2=1e-3).standardised()
    anchor = case.evaluate(case.zeros)
    problem = case.problem
    model = ReducedProblem(*case.rows(), problem.loss, problem.penalty).model(
        np.zeros(9)
    )
    model.matrix[0, 0] *= 20.0
    model.matrix[1, 1] /= 1.1
    solver = iterate_newton(case.problem, anchor, model=model)
    result = case.solve(solver, tol=1e-10, max_iter=60)
    assert result.status is Status.CONVERGED
    assert violation(case, result.evaluation, l2=1e-3) <= 1.01e-10


def test_costly_models_are_minimised_roughly_and_made_anew(monkeypatch):
    """With many coordinates on few rows a factorisation costs more than a gradient.

    Ten sweeps for each of many secant models took 150 of them.
    """
    rng, factors = np.random.default_rng(0), []

    def counted(matrix, *ridge):
        factors.append(len(matrix))
        return ridged_cholesky(matrix, *ridge)

    monkeypatch.setattr(_quadratic, "ridged_cholesky", counted)
    X = rng.standard_normal((300, 12))
    scores = X @ rng.standard_normal((12, 30)) / 2 + rng.gumbel(size=(300, 30))
    case = make_problem(X, scores.argmax(axis=1), "multinomial", l1=3e-5)
    result = run(case.standardised(), tol=1e-6)
    assert result.status is Status.CONVERGED
    assert len(factors) <= 100
