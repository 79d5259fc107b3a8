"""CaBCD: all block rules, parallel blocks, safeguards."""

import itertools

import numpy as np
import pytest
from cases import Trace
from scipy import sparse
from scipy.optimize import nnls
from solvers.descent import (
    LOSSES,
    evaluations_of,
    hessian_bound,
    kkt_violation,
    make_data,
    make_problem,
)
from solvers.descent import run as run_solver
from solvers.descent import trajectory as run_trajectory

from skcara.blocks import rule_names, rule_params
from skcara.recombination import RECOMBINATION_METHODS, RecombinationError
from skcara.solvers import CONTROLS, Status
from skcara.solvers.descent import CabcdOptions, _reduction, iterate_cabcd
from skcara.solvers.descent._cabcd import smallest_subgradient
from skcara.solvers.descent._safeguard import Synchroniser

PROBLEMS = {
    "least-squares": ("squared", {}),
    "lasso": ("squared", {"l1": 0.1}),
    "logistic": ("logistic", {"l2": 0.1}),
}


def run(case, options, **kwargs):
    return run_solver(iterate_cabcd, case, options, **kwargs)


def trajectory(case, options, n_rounds, **kwargs):
    return run_trajectory(iterate_cabcd, case, options, n_rounds, **kwargs)


def one_block(**kwargs):
    return CabcdOptions(fraction=None, **kwargs)


@pytest.mark.parametrize("name", sorted(PROBLEMS))
@pytest.mark.parametrize("rule", rule_names())
@pytest.mark.parametrize("recombination", ["auto", None])
def test_every_rule_reaches_the_optimum(name, rule, recombination):
    loss, penalty = PROBLEMS[name]
    X, y = make_data(loss, n_rows=120, n_features=4)
    case = make_problem(X, y, loss, fit_intercept=True, **penalty)
    options = one_block(recombination=recombination, **rule_params(rule))
    result = run(case, options, tol=1e-5)
    assert result.status is Status.CONVERGED
    assert kkt_violation(case, result.evaluation.params) <= 1.01e-5
    if recombination is None:
        assert result.n_recombinations == 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("control", sorted(CONTROLS))
@pytest.mark.parametrize("selection", ["GS", "Random"])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_articles_algorithms_reach_the_optimum(loss, control, selection, momentum):
    X, y = make_data(loss, n_rows=200, n_features=3)
    case = make_problem(X, y, loss, l1=0.03, fit_intercept=True)
    options = CabcdOptions(control=control, selection=selection, momentum=momentum)
    result = run(case, options, tol=1e-4)
    assert result.status is Status.CONVERGED
    assert kkt_violation(case, result.evaluation.params) <= 1.01e-4
    assert np.all(np.diff(result.history["objective"]) <= 1e-13)
    assert result.n_recombinations > 0


@pytest.mark.parametrize("method", sorted(RECOMBINATION_METHODS))
def test_optimum_does_not_depend_on_the_recombination(method):
    X, y = make_data("logistic", n_rows=300, n_features=5)
    case = make_problem(X, y, "logistic", l1=0.02)
    result = run(case, CabcdOptions(recombination=method), tol=1e-7)
    assert result.status is Status.CONVERGED
    assert kkt_violation(case, result.evaluation.params) <= 1.01e-7


def test_lasso_has_exact_zeros_and_positivity_holds():
    X, y = make_data(n_rows=400, n_features=8)
    case = make_problem(X, y, l1=0.3, positive=True)
    params = run(case, CabcdOptions()).evaluation.params
    assert np.all(params >= 0)
    assert 0 < np.count_nonzero(params) < 8
    assert kkt_violation(case, params) <= 1.01e-9


@pytest.mark.parametrize("block_size", [1, 2, 5, 100])
def test_any_block_size_works(block_size):
    X, y = make_data(n_features=7)
    case = make_problem(X, y, l1=0.05)
    result = run(case, CabcdOptions(block_size=block_size))
    assert result.status is Status.CONVERGED


def test_hb_zeroes_the_block_gradient_and_never_recombines():
    X, y = make_data()
    case = make_problem(X, y)
    options = one_block(partition="Order", selection="Cyclic", direction="Hb")
    rounds = trajectory(case, options, 6)
    for number, one in enumerate(rounds[1:]):
        block = np.arange(2 * number, 2 * number + 2)
        before = np.abs(rounds[number].evaluation.gradient[block]).max()
        assert np.abs(one.evaluation.gradient[block]).max() <= 1e-12 * before
        assert one.n_recombinations == one.inner_steps == 0
        assert one.measure is None
    # Pure block descent: one pass a round and one for the Hessians.
    assert rounds[-1].passes == len(rounds) + 1


def test_lb_decreases_by_the_gradient_over_the_block_curvature():
    X, y = make_data()
    case = make_problem(X, y)
    options = one_block(
        partition="Order", selection="Cyclic", direction="Lb", recombination=None
    )
    rounds = trajectory(case, options, 6)
    hessian = hessian_bound(case)
    for number, (one, two) in enumerate(itertools.pairwise(rounds)):
        block = np.arange(2 * number, 2 * number + 2)
        lipschitz = np.linalg.eigvalsh(hessian[np.ix_(block, block)])[-1]
        gradient = one.evaluation.gradient[block, 0]
        decrease = one.evaluation.objective - two.evaluation.objective
        assert decrease >= gradient @ gradient / (2 * lipschitz) * (1 - 1e-9)
        expected = one.evaluation.params[block, 0] - gradient / lipschitz
        np.testing.assert_allclose(two.evaluation.params[block, 0], expected)


def test_gsq_with_hb_takes_the_largest_decrease_of_all_blocks():
    X, y = make_data(n_features=8)
    case = make_problem(X, y)
    options = one_block(partition="Order", selection="GSQ", direction="Hb")
    first, second = trajectory(case, options, 1)
    best = first.evaluation.objective - second.evaluation.objective
    for start in range(0, 8, 2):
        columns = X[:, start : start + 2]
        residual = y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
        decrease = first.evaluation.objective - 0.5 * np.mean(residual**2)
        assert decrease <= best * (1 + 1e-10)


def test_second_order_measure_takes_lb_to_the_minimum_of_the_block():
    """Lb on an exact reduced case ends where Hb ends, from six rows."""
    X, y = make_data(n_rows=2000, n_features=6)
    case = make_problem(X, y)
    rule = {"partition": "Order", "selection": "Cyclic"}
    newton = trajectory(case, one_block(direction="Hb", **rule), 4)
    reduced = trajectory(
        case, one_block(direction="Lb", max_inner_iter=2000, **rule), 4
    )
    for one, two in zip(newton[1:], reduced[1:], strict=True):
        assert 0 < len(two.measure.indices) <= 6
        np.testing.assert_allclose(
            two.evaluation.params, one.evaluation.params, atol=1e-6
        )


@pytest.mark.parametrize("direction", ["Lb", "Hb"])
@pytest.mark.parametrize("loss", LOSSES)
def test_single_blocks_with_guaranteed_control_never_raise_the_objective(
    direction, loss
):
    X, y = make_data(loss, n_features=5)
    case = make_problem(X, y, loss, l1=0.01)
    options = one_block(direction=direction, control="block-hessian")
    trace = Trace()
    rounds = trajectory(case, options, 40, trace=trace)
    objectives = [evaluation.objective for evaluation in evaluations_of(trace)]
    assert len(objectives) == len(rounds), "no move was refused"
    assert np.all(np.diff(objectives) <= 1e-14)


@pytest.mark.parametrize("rule", ["VB_GS_Lb", "Sort_GSL_Lb", "Avg_GSQ_Hb"])
@pytest.mark.parametrize("fraction", [None, 0.75])
@pytest.mark.parametrize("n_features", [6, 40])
def test_sparse_data_give_the_trajectory_of_dense_data(rule, fraction, n_features):
    X, y = make_data(n_rows=300, n_features=n_features)
    X *= np.random.RandomState(0).rand(*X.shape) < 0.3
    options = CabcdOptions(fraction=fraction, **rule_params(rule))
    dense = trajectory(make_problem(X, y), options, 8)
    same = trajectory(make_problem(sparse.csr_array(X), y), options, 8)
    for one, two in zip(dense, same, strict=True):
        np.testing.assert_allclose(
            one.evaluation.params, two.evaluation.params, atol=1e-6
        )


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_result_does_not_depend_on_the_number_of_threads(loss):
    X, y = make_data(loss, n_rows=3000, n_features=10)
    runs = [
        trajectory(make_problem(X, y, loss, n_jobs=n_jobs), CabcdOptions(), 5, seed=3)
        for n_jobs in (1, 3)
    ]
    for one, two in zip(*runs, strict=True):
        np.testing.assert_array_equal(one.evaluation.params, two.evaluation.params)
        assert one.passes == two.passes


def test_parallel_blocks_that_hinder_each_other_do_not_raise_the_objective():
    """Copies of one column in different blocks overshoot together."""
    rng = np.random.RandomState(0)
    signal = rng.standard_normal((500, 1))
    X = signal + 0.05 * rng.standard_normal((500, 6))
    case = make_problem(X, signal[:, 0] + 0.1 * rng.standard_normal(500))
    options = CabcdOptions(block_size=1, fraction=1.0)
    rounds = trajectory(case, options, 30)
    objectives = [one.evaluation.objective for one in rounds]
    assert np.all(np.diff(objectives) <= 1e-14)
    assert rounds[-1].passes > len(rounds) + 1, "a move was refused and shortened"
    # The same moves, taken as they are, raise it.
    first = rounds[0].evaluation
    naive = first.params - first.gradient / (X**2).mean(axis=0)[:, None]
    assert case.evaluate(naive).objective > first.objective


@pytest.mark.parametrize("fraction", [None, 0.75])
def test_failed_recombination_is_block_descent(monkeypatch, fraction):
    def fail(*args, **kwargs):
        raise RecombinationError("forced")

    X, y = make_data("logistic", n_features=5)
    case = make_problem(X, y, "logistic", l1=0.01)
    plain = run(case, CabcdOptions(recombination=None, fraction=fraction), tol=1e-6)
    monkeypatch.setattr(_reduction, "recombine", fail)
    result = run(case, CabcdOptions(fraction=fraction), tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.n_recombinations == 0
    assert result.evaluation.objective == pytest.approx(
        plain.evaluation.objective, rel=1e-10
    )


def test_sometimes_failing_recombination_still_converges(monkeypatch):
    recombine, calls = _reduction.recombine, itertools.count()

    def fail_often(*args, **kwargs):
        if next(calls) % 3:
            raise RecombinationError("forced")
        return recombine(*args, **kwargs)

    monkeypatch.setattr(_reduction, "recombine", fail_often)
    X, y = make_data(n_features=6)
    case = make_problem(X, y, l1=0.05)
    result = run(case, CabcdOptions())
    assert result.status is Status.CONVERGED
    assert result.n_recombinations > 0


def test_invalid_rule_is_refused_before_the_first_pass():
    X, y = make_data()
    options = CabcdOptions(partition="Sort", selection="IHT")
    with pytest.raises(ValueError, match="not defined for partition"):
        next(iterate_cabcd(make_problem(X, y).problem, None, options, None))


def test_smallest_subgradient_vanishes_where_nothing_can_move():
    X, y = make_data(n_features=4)
    case = make_problem(X, y, l1=100.0)
    evaluation = case.evaluate(np.zeros((4, 1)))
    assert not smallest_subgradient(case.problem.penalty, evaluation).any()
    free = make_problem(X, y)
    evaluation = free.evaluate(np.ones((4, 1)))
    np.testing.assert_array_equal(
        smallest_subgradient(free.problem.penalty, evaluation), evaluation.gradient
    )


def test_curvature_passes_are_counted_once():
    X, y = make_data(n_features=6)
    case = make_problem(X, y)
    for rule, n_curvature in (("VB_GS_Hb", 1), ("Sort_GSL_Hb", 2), ("VB_GSD_Hb", 2)):
        options = one_block(**rule_params(rule))
        rounds = trajectory(case, options, 5)
        assert rounds[-1].passes == 6 + n_curvature


def test_all_attempts_failing_ends_the_run(monkeypatch):
    """If even the plain steps cannot lower the objective, the solver stops."""

    def fail(self, evaluation, move):
        yield from ()
        return None, True

    monkeypatch.setattr(Synchroniser, "advance", fail)
    X, y = make_data(n_features=4)
    result = run(make_problem(X, y), CabcdOptions())
    assert result.status is Status.STALLED


def test_ridge_of_a_softmax_is_centred_by_the_joint_move():
    X, y = make_data("multinomial", n_features=4)
    case = make_problem(X, y, "multinomial", l2=0.01, fit_intercept=True)
    rounds = trajectory(case, CabcdOptions(), 5)
    params = rounds[-1].evaluation.params
    np.testing.assert_allclose(params[:-1].sum(axis=1), 0, atol=1e-14)


@pytest.mark.parametrize("rule", ["VB_GS_Lb", "Sort_GSQ_Hb", "Avg_Cyclic_Lb"])
def test_positive_rules_solve_the_nonnegative_least_squares_problem(rule):
    X, y = make_data(n_features=6)
    case = make_problem(X, y, positive=True)
    expected, _ = nnls(X, y)
    for one in trajectory(case, one_block(**rule_params(rule)), 20):
        assert np.all(one.evaluation.params >= 0)
    params = run(case, one_block(**rule_params(rule))).evaluation.params
    np.testing.assert_allclose(params[:, 0], expected, atol=1e-7)


@pytest.mark.parametrize("rule", rule_names())
def test_columns_of_zeros_lose_their_coefficient(rule):
    """Only the penalty moves them, whatever curvature a rule looks at."""
    X, y = make_data(n_features=5)
    X[:, 1] = 0.0
    case = make_problem(X, y, l1=0.1)
    result = run(case, one_block(**rule_params(rule)), params=np.ones((5, 1)))
    assert result.status is Status.CONVERGED
    assert result.evaluation.params[1] == 0


def test_optimum_does_not_depend_on_the_order_or_the_splitting_of_rows():
    X, y = make_data("logistic", n_features=4)
    weights = np.random.RandomState(0).rand(len(y))
    order = np.random.RandomState(1).permutation(len(y))
    cases = [
        make_problem(X, y, "logistic", l1=0.01, sample_weight=weights),
        make_problem(
            X[order], y[order], "logistic", l1=0.01, sample_weight=weights[order]
        ),
        make_problem(
            np.vstack([X, X]),
            np.append(y, y),
            "logistic",
            l1=0.01,
            sample_weight=np.append(weights, weights) / 2,
        ),
    ]
    results = [run(case, CabcdOptions()).evaluation for case in cases]
    for result in results[1:]:
        np.testing.assert_allclose(result.params, results[0].params, atol=1e-6)
        assert result.objective == pytest.approx(results[0].objective, rel=1e-12)


# The full-size experiment is part of the examples; its orderings hold here already.


@pytest.fixture(scope="module")
def dataset_a():
    """Sparse columns of very different scales (Nutini et al., scaled down)."""
    rng = np.random.RandomState(1)
    n_rows, n_features = 20_000, 100
    keep = rng.rand(n_rows, n_features) < 10 * np.log(n_rows) / n_rows
    X = (rng.standard_normal((n_rows, n_features)) + 1) * keep
    X *= 10 * rng.standard_normal(n_features)
    coef = rng.standard_normal(n_features) * (rng.rand(n_features) < 0.1)
    y = X @ coef + rng.standard_normal(n_rows)
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    return sparse.csr_array(X), y, 0.5 * np.mean((y - X @ best) ** 2)


def gap_after_20(dataset, rule, block_size=5, recombination="auto"):
    X, y, optimum = dataset
    options = one_block(
        block_size=block_size, recombination=recombination, **rule_params(rule)
    )
    rounds = trajectory(make_problem(X, y), options, 20)
    return rounds[-1].evaluation.objective - optimum


def test_dataset_a_greedy_rules_beat_random_ones(dataset_a):
    greedy = ["VB_GS_Lb", "VB_GSD_Lb", "VB_GSDHb_Lb"]
    random = ["VB_Random_Lb", "VB_Lipschitz_Lb"]
    worst_greedy = max(gap_after_20(dataset_a, rule) for rule in greedy)
    assert worst_greedy < min(gap_after_20(dataset_a, rule) for rule in random)


def test_dataset_a_sorted_and_variable_blocks_beat_neighbours(dataset_a):
    neighbours = gap_after_20(dataset_a, "Order_GS_Lb")
    assert gap_after_20(dataset_a, "VB_GS_Lb") < neighbours
    assert gap_after_20(dataset_a, "Sort_GS_Lb") < neighbours


@pytest.mark.parametrize("rule", ["VB_GS", "Sort_GSL"])
def test_dataset_a_newton_directions_are_best(dataset_a, rule):
    newton = gap_after_20(dataset_a, f"{rule}_Hb")
    # Steps on an exact reduced block case go on towards the Newton point.
    reduced = gap_after_20(dataset_a, f"{rule}_Lb")
    plain = gap_after_20(dataset_a, f"{rule}_Lb", recombination=None)
    assert newton <= reduced * 1.001
    assert reduced < plain


def test_dataset_a_differences_shrink_with_the_block_size(dataset_a):
    def spread(block_size):
        gaps = [
            gap_after_20(dataset_a, rule, block_size)
            for rule in ("VB_GS_Hb", "Order_GS_Hb")
        ]
        return max(gaps) - min(gaps)

    assert spread(20) < spread(5)
