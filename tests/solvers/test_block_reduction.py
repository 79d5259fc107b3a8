"""Reduced measures of blocks: exact gradients, few atoms, positive weights."""

import numpy as np
import pytest
from scipy import sparse
from solvers.descent import LOSSES, dense_design, make_data, make_problem, shares

from skcara.recombination import RECOMBINATION_METHODS, RecombinationError
from skcara.solvers.descent import _reduction
from skcara.solvers.descent._curvature import BoundedCurvature
from skcara.solvers.descent._group_moments import GroupedCurvature
from skcara.solvers.descent._reduction import BlockReducer, balanced_group_rows


def reduce_block(case, block, method="auto", seed=0, group_rows=16, params=None):
    if params is None:
        params = np.random.RandomState(1).standard_normal(case.zeros.shape)
    evaluation = case.evaluate(params, group_rows=group_rows)
    curvature = BoundedCurvature(case.problem)
    return evaluation, *choose(case, curvature, evaluation, block, method, seed)


def choose(case, curvature, evaluation, block, method="auto", seed=0):
    """Measure of a block, and its gradient."""
    weights = None if case.source.weights is None else shares(case)
    reducer = BlockReducer(case.problem, method, curvature, weights)
    survivors = reducer.choose_groups(evaluation, block, seed)
    taken = case.ask(reducer.request(survivors, evaluation, block))
    return reducer.choose_atoms(survivors, taken, block, seed)


@pytest.mark.parametrize("method", sorted(RECOMBINATION_METHODS))
@pytest.mark.parametrize("loss", LOSSES)
def test_reduced_gradient_is_the_full_block_gradient_at_the_anchor(
    loss, method, global_random_seed
):
    X, y = make_data(loss, n_rows=700, n_features=6, seed=global_random_seed)
    case = make_problem(X, y, loss, fit_intercept=True)
    block = np.array([0, 2, 5])
    evaluation, measure, gradient = reduce_block(case, block, method)
    reduced = np.empty(3)
    gradient(np.array([0.0, 0.0, 0.0, 1.0]), reduced)
    full = evaluation.gradient.ravel()[block]
    np.testing.assert_allclose(reduced, full, atol=1e-12 * np.abs(full).max())
    assert len(measure.indices) <= 4
    assert measure.weights.min() > 0
    assert measure.weights.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_second_order_measure_is_exact_for_every_position_of_the_block(is_sparse):
    X, y = make_data(n_rows=900, n_features=6)
    case = make_problem(sparse.csr_array(X) if is_sparse else X, y)
    group_rows = 32
    curvature = GroupedCurvature(case.problem, group_rows)
    block = np.array([1, 4])
    case.answer(curvature.load_moving([block]))
    params = np.random.RandomState(0).standard_normal((6, 1))
    evaluation = case.evaluate(params, group_rows=group_rows)
    measure, gradient = choose(case, curvature, evaluation, block)
    assert len(measure.indices) <= 6
    moved, reduced = params.copy(), np.empty(2)
    moved[block, 0] += [10.0, -7.0]
    gradient(np.array([10.0, -7.0, 1.0]), reduced)
    residual = dense_design(case) @ moved[:, 0] - y
    expected = X[:, block].T @ residual / len(y)
    np.testing.assert_allclose(reduced, expected, rtol=1e-11)


def test_rows_without_weight_are_never_atoms():
    X, y = make_data(n_rows=400, n_features=4)
    weights = np.random.RandomState(0).rand(400)
    weights[::2] = 0.0
    weights[:64] = 0.0
    case = make_problem(X, y, sample_weight=weights)
    _, measure, _ = reduce_block(case, np.array([0, 1]))
    assert np.all(weights[measure.indices] > 0)


def test_few_rows_are_their_own_measure():
    X, y = make_data(n_rows=4, n_features=3)
    case = make_problem(X, y)
    _, measure, _ = reduce_block(case, np.arange(3))
    np.testing.assert_array_equal(measure.indices, np.arange(4))
    np.testing.assert_allclose(measure.weights, 0.25)


def test_inexact_measure_is_refused(monkeypatch):
    X, y = make_data(n_rows=100, n_features=3)
    monkeypatch.setattr(_reduction, "_MAX_RESIDUAL", -1.0)
    with pytest.raises(RecombinationError, match="misses a moment"):
        reduce_block(make_problem(X, y), np.arange(2))


@pytest.mark.parametrize("n_rows", [1, 10, 5000, 10**6])
@pytest.mark.parametrize("n_statistics", [2, 50])
def test_group_rows_are_powers_of_two_that_fit_a_chunk(n_rows, n_statistics):
    X = np.broadcast_to(np.zeros(8), (n_rows, 8))
    case = make_problem(X, np.broadcast_to(0.0, (n_rows,)))
    group_rows = balanced_group_rows(case.problem, n_statistics)
    assert group_rows & (group_rows - 1) == 0
    assert 1 <= group_rows <= case.source.chunk_rows
    if n_rows == 10**6:
        survivors = (n_statistics + 1) * group_rows
        assert 0.4 < survivors / (n_rows / group_rows) < 5
