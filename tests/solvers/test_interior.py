"""Newton steps through the interior: the barrier, its minimisers, what they save."""

import numpy as np
import pytest

from skcara import CaLogisticRegression
from skcara.objective import MultinomialLoss, SeparablePenalty
from skcara.solvers import _quadratic
from skcara.solvers.newton._interior import _Barrier, minimize_interior
from skcara.solvers.newton._reduced import ReducedProblem
from skcara.solvers.newton._reduced_steps import minimize_reduced


def many_classes(seed, n_rows=120, n_columns=20, n_classes=12):
    """Correlated counts in classes that have little to do with them."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((n_columns, n_columns))
    X = np.round(rng.standard_normal((n_rows, n_columns)) @ mixing)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    return X, y


def reduced_problem(X, y, l1):
    n_rows, n_columns = X.shape
    strengths = np.full((n_columns, 1), l1)
    strengths[-1] = 0.0
    penalty = SeparablePenalty(
        strengths, np.zeros((n_columns, 1)), np.zeros((n_columns, 1), dtype=bool)
    )
    loss = MultinomialLoss(int(y.max()) + 1)
    weights = np.full(n_rows, 1 / n_rows)
    return ReducedProblem(X, y, weights, loss, penalty)


def l1_violation(X, y, params, l1):
    """Largest violation of the optimality conditions, from their definition."""
    scores = X @ params
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(y)), y] -= 1
    slope = X.T @ shares / len(y)
    penalised, free = slope[:-1], slope[-1]
    is_zero = params[:-1] == 0
    inside = np.maximum(np.abs(penalised) - l1, 0)
    outside = np.abs(penalised + l1 * np.sign(params[:-1]))
    return max(np.where(is_zero, inside, outside).max(), np.abs(free).max())


@pytest.mark.parametrize("excess", [1e-6, 1e-2, 1.0])
def test_the_slope_is_that_of_the_smoothed_term(excess):
    strengths, step = np.array([0.5, 2.0, 0.01]), 1e-6
    barrier = _Barrier(strengths, excess)
    for x in (np.zeros(3), np.array([1.0, -2.0, 3.0]), np.array([1e-3, 1e-4, -50.0])):
        slope = barrier.slope(x)
        for coord in range(3):
            move = step * (np.arange(3) == coord)
            change = barrier.value(x + move) - barrier.value(x - move)
            assert change / (2 * step) == pytest.approx(slope[coord], abs=2e-4)
        assert (np.abs(slope) < strengths).all()


def test_a_smoothed_minimum_exceeds_the_minimum_by_no_more_than_it_says():
    """Of ``l1 |x| + (x - a)^2 / 2`` both are known."""
    for strength, centre, excess in [(1.0, 3.0, 0.1), (1.0, 0.5, 0.1), (0.2, 5.0, 1.0)]:
        barrier = _Barrier(np.array([strength]), excess)
        x = np.linspace(-1.0, 6.0, 70_001)
        smoothed = [barrier.value(np.array([value])) for value in x]
        at = x[np.argmin(smoothed + 0.5 * (x - centre) ** 2)]
        best = np.sign(centre) * max(abs(centre) - strength, 0.0)

        def objective(value, strength=strength, centre=centre):
            return strength * abs(value) + 0.5 * (value - centre) ** 2

        assert 0 <= objective(at) - objective(best) <= excess


@pytest.mark.parametrize("l1", [1e-6, 1e-3, 3e-2])
def test_the_interior_leads_to_the_optimum(l1, global_random_seed):
    X, y = many_classes(global_random_seed)
    X = np.column_stack([X / X.std(axis=0), np.ones(len(X))])
    problem = reduced_problem(X, y, l1)
    start = problem.evaluate(np.zeros(X.shape[1] * 12))
    inside = minimize_interior(problem, start)
    finish = minimize_reduced(problem, inside.point, accuracy=1e-6)
    params = finish.params.reshape(-1, 12)
    assert l1_violation(X, y, params, l1) <= 1e-7
    # Face steps have little left to do.
    end = problem.evaluate(finish.params).objective
    rounding = 1e-14 * start.objective
    assert end - rounding <= inside.point.objective <= end + 1e-4 * start.objective
    assert inside.hessians <= 60


def test_a_step_of_no_use_does_not_make_it_worse(monkeypatch):
    """The start is returned where no length of a step decreases the objective."""
    X, y = many_classes(0)
    problem = reduced_problem(np.column_stack([X, np.ones(len(X))]), y, 1e-3)
    start = problem.evaluate(np.zeros(21 * 12))
    solve = _quadratic.ScaledCholesky.solve
    monkeypatch.setattr(_quadratic.ScaledCholesky, "solve", lambda *args: -solve(*args))
    assert minimize_interior(problem, start).point.objective <= start.objective


def test_few_rows_of_many_classes_take_few_factorisations(monkeypatch):
    """Faces alone would take some hundred of them."""
    X, y = many_classes(0, n_rows=90, n_columns=25, n_classes=15)
    calls = []
    factorise = _quadratic.ridged_cholesky

    def counting(scaled, *args):
        calls.append((len(scaled) / (26 * 15)) ** 3)
        return factorise(scaled, *args)

    monkeypatch.setattr(_quadratic, "ridged_cholesky", counting)
    model = CaLogisticRegression(C=1e3, l1_ratio=1.0, tol=1e-6).fit(X, y)
    assert model.optimality_ <= 1e-6
    assert sum(calls) <= 100


def test_vanishing_losses_are_not_minimised_for_ever():
    """A penalty of nearly nothing on separable classes: the tolerance is enough."""
    X, y = many_classes(1, n_rows=90, n_columns=25, n_classes=15)
    model = CaLogisticRegression(C=1e12, l1_ratio=1.0).fit(X, y)
    assert model.optimality_ <= model.tol
    assert model.objective_ <= 1e-6
    assert model.n_iter_.max() <= 3
