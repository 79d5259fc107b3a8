"""CaGD: the laws of Algorithm 1."""

import numpy as np
import pytest
from cases import Case, CountingSource, Trace
from solvers.descent import (
    LOSSES,
    evaluations_of,
    hessian_bound,
    kkt_violation,
    make_data,
    make_problem,
    run,
    trajectory,
)

from skcara.recombination import RECOMBINATION_METHODS, RecombinationError
from skcara.solvers import CONTROLS, Status
from skcara.solvers.descent import CagdOptions, _reduction, iterate_cagd

GUARANTEED = ["lipschitz", "block-hessian"]


def lipschitz_constant(case):
    return np.linalg.eigvalsh(hessian_bound(case))[-1]


def set_b(n_rows, seed=0):
    """Shifted exponential columns, labels by orthant (the article's set B)."""
    rng = np.random.RandomState(seed)
    X = rng.exponential(2.0, (n_rows, 2)) - 5
    return X, (X < 0).all(axis=1).astype(int), rng.uniform(-1, 1, (2, 1)) / np.sqrt(2)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("control", sorted(CONTROLS))
@pytest.mark.parametrize("penalty", [{}, {"l1": 0.02}, {"l2": 0.05}])
def test_optimum_is_reached(loss, control, penalty, global_random_seed):
    X, y = make_data(loss, n_rows=400, n_features=4, seed=global_random_seed)
    case = make_problem(X, y, loss, fit_intercept=True, **penalty)
    result = run(
        iterate_cagd, case, CagdOptions(control=control), tol=1e-6, max_iter=4000
    )
    assert result.status is Status.CONVERGED
    assert kkt_violation(case, result.evaluation.params) <= 1.01e-6
    assert result.n_recombinations > 0


@pytest.mark.parametrize("method", sorted(RECOMBINATION_METHODS))
def test_optimum_does_not_depend_on_the_recombination(method):
    X, y = make_data(n_rows=400, n_features=4)
    case = make_problem(X, y, l1=0.05)
    result = run(iterate_cagd, case, CagdOptions(recombination=method))
    assert result.status is Status.CONVERGED
    assert kkt_violation(case, result.evaluation.params) <= 1.01e-9


def test_l1_gives_exact_zeros_and_positivity_holds():
    X, y = make_data(n_rows=400, n_features=6)
    case = make_problem(X, y, l1=0.3, positive=True)
    params = run(iterate_cagd, case, CagdOptions()).evaluation.params
    assert np.all(params >= 0)
    assert np.any(params == 0)
    assert np.any(params > 0)


@pytest.mark.parametrize("control", GUARANTEED)
@pytest.mark.parametrize("loss", LOSSES)
def test_guaranteed_controls_never_raise_the_objective(control, loss):
    X, y = make_data(loss, n_rows=300, n_features=4)
    case = make_problem(X, y, loss, l1=0.01)
    options = CagdOptions(control=control)
    trace = Trace()
    rounds = trajectory(iterate_cagd, case, options, 30, trace=trace)
    objectives = [evaluation.objective for evaluation in evaluations_of(trace)]
    assert len(objectives) == len(rounds), "no move was refused by the full objective"
    assert np.all(np.diff(objectives) <= 1e-14 * objectives[0])


def test_one_inner_step_is_gradient_descent():
    X, y = make_data("logistic", n_features=5)
    case = make_problem(X, y, "logistic", l2=0.1)
    rate = 1.0 / lipschitz_constant(case)
    options = CagdOptions(step_size=rate, control="lipschitz", max_inner_iter=1)
    rounds = trajectory(iterate_cagd, case, options, 10)
    params = np.zeros((5, 1))
    for one in rounds:
        np.testing.assert_allclose(one.evaluation.params, params, atol=1e-13)
        params = params - rate * case.evaluate(params).smooth_gradient


def test_first_reduced_step_is_the_full_step():
    X, y = make_data(n_rows=500, n_features=4)
    case = make_problem(X, y)
    rate = 0.9 / lipschitz_constant(case)
    # The statistic allows one step of this length and no second one.
    options = CagdOptions(step_size=rate, control="lipschitz", max_inner_iter=50)
    first, second = trajectory(iterate_cagd, case, options, 1)
    assert second.measure is not None
    assert second.inner_steps == 1
    expected = -rate * first.evaluation.gradient
    np.testing.assert_allclose(second.evaluation.params, expected, rtol=1e-12)


def test_few_rows_make_the_reduced_trajectory_gradient_descent():
    """With N <= n + 1 independent gradients the reduced measure is the full one."""
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((4, 5)), rng.standard_normal(4)
    case = make_problem(X, y)
    rate = 0.1 / lipschitz_constant(case)
    options = CagdOptions(step_size=rate, control="lipschitz", max_inner_iter=6)
    _, after = trajectory(iterate_cagd, case, options, 1)
    assert len(after.measure.indices) == 4
    params = np.zeros((5, 1))
    for _ in range(after.inner_steps):
        params -= rate * case.evaluate(params).gradient
    assert after.inner_steps > 1
    np.testing.assert_allclose(after.evaluation.params, params, rtol=1e-10)


@pytest.mark.parametrize("control", sorted(CONTROLS))
def test_acceleration_does_not_die_near_the_optimum(control):
    """Rounding the statistic to six decimals needs thousands of passes here."""
    X, y, params = set_b(5000)
    case = make_problem(X, y, "logistic")
    options = CagdOptions(step_size=1e-3, control=control)
    result = run(iterate_cagd, case, options, params=params, tol=1e-3 / np.sqrt(2))
    assert result.status is Status.CONVERGED
    assert result.passes < 100


@pytest.mark.parametrize("factor", [0.02, 0.2, 0.9])
def test_passes_are_those_of_gradient_descent_with_a_good_step(factor):
    """Whatever the step, CaGD moves by about 1/c per measure."""
    X, y, params = set_b(20_000)
    case = make_problem(X, y, "logistic")
    constant = lipschitz_constant(case)
    plain = CagdOptions(recombination=None, step_size=1 / constant)
    n_plain = run(iterate_cagd, case, plain, params=params, tol=1e-3).n_rounds
    options = CagdOptions(step_size=factor / constant, control="lipschitz")
    result = run(iterate_cagd, case, options, params=params, tol=1e-3)
    assert abs(result.n_rounds - n_plain) <= 0.2 * n_plain + 1


def test_step_beyond_the_stable_one_still_converges():
    X, y = make_data(n_features=3)
    case = make_problem(X, y)
    rate = 5.0 / lipschitz_constant(case)
    options = CagdOptions(step_size=rate, control="lipschitz")
    result = run(iterate_cagd, case, options, tol=1e-6)
    assert result.status is Status.CONVERGED
    assert np.all(np.diff(result.history["objective"]) <= 1e-12)


def test_failed_recombination_is_gradient_descent(monkeypatch):
    def fail(*args, **kwargs):
        raise RecombinationError("forced")

    X, y = make_data("logistic", n_features=4)
    case = make_problem(X, y, "logistic", l2=0.1)
    options = CagdOptions(step_size=0.1, control="lipschitz")
    plain = run(iterate_cagd, case, CagdOptions(None, 0.1, control="lipschitz"))
    monkeypatch.setattr(_reduction, "recombine_groups", fail)
    result = run(iterate_cagd, case, options)
    assert result.status is Status.CONVERGED
    assert result.n_recombinations == 0
    # Gradients are added up in another order when group sums are wanted.
    np.testing.assert_allclose(
        result.history["objective"], plain.history["objective"], rtol=1e-13
    )


def test_passes_count_every_row_that_is_read(monkeypatch):
    """Full evaluations, Hessian passes, and the atoms of every attempted step."""
    X, y = make_data("logistic", n_rows=300, n_features=3)
    case = make_problem(X, y, "logistic")
    counted = {"atoms": 0}

    class CountingGradient(_reduction.ReducedGradient):
        def __call__(self, *args):
            counted["atoms"] += self.n_atoms
            super().__call__(*args)

    monkeypatch.setattr(_reduction, "ReducedGradient", CountingGradient)
    case = Case(case.problem, CountingSource(case.source))
    options = CagdOptions(step_size=0.05, control="secant-bb")
    rounds = trajectory(iterate_cagd, case, options, 12)
    assert rounds[-1].n_recombinations > 5
    expected = case.source.n_reads + counted["atoms"] / 300
    assert rounds[-1].passes == pytest.approx(expected, rel=1e-12)


def test_separable_data_do_not_overflow():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (2000, 2))
    y = (-5 * X[:, 0] + 2 * X[:, 1] < 0).astype(int)
    case = make_problem(X, y, "logistic")
    rounds = trajectory(iterate_cagd, case, CagdOptions(), 60)
    losses = [one.evaluation.loss for one in rounds]
    norms = [np.linalg.norm(one.evaluation.params) for one in rounds]
    assert np.all(np.diff(losses) <= 0)
    assert np.all(np.isfinite(norms))
    assert losses[-1] < 0.1
    assert norms[-1] > 10


@pytest.mark.parametrize("control", sorted(CONTROLS))
def test_weights_stand_for_copies_and_zero_weights_for_absence(control):
    X, y = make_data(n_rows=120, n_features=3)
    counts = np.random.RandomState(0).randint(0, 4, 120)
    weighted = make_problem(X, y, sample_weight=counts.astype(float))
    repeated = make_problem(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    options = CagdOptions(control=control)
    first = run(iterate_cagd, weighted, options).evaluation
    second = run(iterate_cagd, repeated, options).evaluation
    np.testing.assert_allclose(first.params, second.params, atol=1e-7)
    assert first.objective == pytest.approx(second.objective, rel=1e-12)


def test_optimal_start_costs_one_pass():
    X, y = make_data(n_features=3)
    case = make_problem(X, np.zeros_like(y))
    rounds = trajectory(iterate_cagd, case, CagdOptions(), 10)
    assert len(rounds) == 1
    assert rounds[0].passes == 1


def test_last_chunk_may_be_shorter_than_a_group():
    n_rows = make_problem(np.zeros((1, 2)), np.zeros(1)).source.chunk_rows + 3
    X, y = make_data(n_rows=n_rows, n_features=2)
    result = run(iterate_cagd, make_problem(X, y), CagdOptions())
    assert result.status is Status.CONVERGED
    assert result.n_recombinations > 0
