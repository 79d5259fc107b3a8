"""Inner loop: gradients of few rows, roll-back, caps, momentum."""

import numpy as np
import pytest

from skcara.objective import LogisticLoss, MultinomialLoss, SquaredLoss
from skcara.solvers.descent._inner import BlockModel, ReducedGradient, run_inner_loop
from skcara.solvers.descent._steps import DiagonalStep


def at(displacement):
    """Displacement in the form that a reduced gradient takes."""
    return np.append(displacement, 1.0)


LOSSES = [SquaredLoss(), LogisticLoss(), MultinomialLoss(3)]


def few_rows(loss, rng, n_atoms=4, block_size=2):
    outputs = np.arange(block_size) % loss.n_outputs
    target = rng.randint(0, 2, n_atoms)
    rows = rng.standard_normal((n_atoms, block_size))
    prediction = rng.standard_normal((n_atoms, loss.n_outputs))
    weights = rng.dirichlet(np.ones(n_atoms))
    return rows, outputs, target, prediction, weights


def quadratic(rate, *, l1=0.0, l2=0.0, control=None, anchor=(1.0, -2.0)):
    """Least squares on four atoms whose exact curvature is the control."""
    rng = np.random.RandomState(0)
    anchor = np.array(anchor)
    rows, outputs, _, prediction, weights = few_rows(SquaredLoss(), rng)
    target = rng.standard_normal(4)
    reduced = ReducedGradient(rows, outputs, target, prediction, weights, SquaredLoss())
    gradient = np.empty(2)
    reduced(at(np.zeros(2)), gradient)
    hessian = rows.T @ (weights[:, None] * rows) + l2 * np.eye(2)
    model = BlockModel(
        anchor=anchor,
        gradient=gradient + l2 * anchor,
        control=hessian if control is None else control * np.eye(2),
        l1=np.full(2, l1),
        l2=np.full(2, l2),
    )
    step = DiagonalStep(np.full(2, rate), np.full(2, l1), np.zeros(2, dtype=bool))
    return model, (step, step), reduced, hessian


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_kernel_is_the_derivative_of_the_loss(loss, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    prediction = 50 * rng.standard_normal((6, loss.n_outputs))
    target = rng.randint(0, 2, 6)
    out = np.empty(prediction.size)
    loss.derivative_kernel(target)(prediction.ravel(), out)
    expected = loss.derivative(target, prediction)
    np.testing.assert_allclose(out.reshape(prediction.shape), expected, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_reduced_gradient_is_the_derivative_of_the_reduced_loss(
    loss, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    rows, outputs, target, prediction, weights = few_rows(loss, rng)
    reduced = ReducedGradient(rows, outputs, target, prediction, weights, loss)

    def value(displacement):
        moved = prediction.copy()
        for coord, output in enumerate(outputs):
            moved[:, output] += rows[:, coord] * displacement[coord]
        return weights @ loss.value(target, moved)

    displacement, gradient = rng.standard_normal(2), np.empty(2)
    reduced(at(displacement), gradient)
    numeric = [
        (value(displacement + 1e-6 * e) - value(displacement - 1e-6 * e)) / 2e-6
        for e in np.eye(2)
    ]
    # Central differences at 1e-6 are good to about 1e-9.
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)


def test_loop_ends_where_the_statistic_stops_decreasing():
    """The accepted point is the last one with a smaller statistic (roll-back)."""
    model, steps, reduced, _ = quadratic(0.05, control=1.7)
    result = run_inner_loop(model, steps, reduced=reduced, max_iter=10_000)
    changes = []
    point, gradient = model.anchor.copy(), np.empty(2)
    for _ in range(result.attempted):
        reduced(at(point - model.anchor), gradient)
        point = point - 0.05 * gradient
        delta = point - model.anchor
        changes.append(model.gradient @ delta + 0.5 * delta @ model.control @ delta)
    assert result.attempted == result.accepted + 1
    assert np.all(np.diff([0.0, *changes[:-1]]) < 0)
    assert changes[-1] >= changes[-2]
    assert result.change == pytest.approx(changes[-2], rel=1e-12)


def test_statistic_with_the_exact_hessian_is_the_change_of_the_objective():
    model, steps, reduced, hessian = quadratic(0.3, l1=0.1, l2=0.2)
    result = run_inner_loop(model, steps, reduced=reduced, max_iter=7)
    delta = result.params - model.anchor
    smooth = model.gradient @ delta + 0.5 * delta @ hessian @ delta
    l1 = 0.1 * (np.abs(result.params).sum() - np.abs(model.anchor).sum())
    assert result.change == pytest.approx(smooth + l1, rel=1e-12)
    assert result.accepted == 7


@pytest.mark.parametrize("cap", [0, 1, 5])
def test_cap_is_exact(cap):
    model, steps, reduced, _ = quadratic(1e-3)
    result = run_inner_loop(model, steps, reduced=reduced, max_iter=cap)
    assert result.accepted == result.attempted == cap
    expected = model.anchor.copy()
    gradient = np.empty(2)
    for _ in range(cap):
        reduced(at(expected - model.anchor), gradient)
        expected -= 1e-3 * gradient
    np.testing.assert_allclose(result.params, expected, rtol=1e-14)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_first_step_is_the_full_step(momentum):
    model, steps, reduced, _ = quadratic(0.01)
    velocity = -0.02 * model.gradient
    result = run_inner_loop(
        model, steps, reduced=reduced, max_iter=1, momentum=momentum, velocity=velocity
    )
    expected = model.anchor + momentum * velocity - 0.01 * model.gradient
    np.testing.assert_allclose(result.params, expected, rtol=1e-13)


@pytest.mark.parametrize(("factor", "accepts"), [(1.9, True), (2.1, False)])
def test_steps_beyond_twice_the_inverse_curvature_are_refused(factor, accepts):
    model, _, reduced, _ = quadratic(1.0, control=4.0)
    step = DiagonalStep(np.full(2, factor / 4.0), np.zeros(2), np.zeros(2, dtype=bool))
    result = run_inner_loop(model, (step, step), reduced=reduced, max_iter=10)
    assert (result.accepted >= 1) == accepts
    if not accepts:
        np.testing.assert_array_equal(result.params, model.anchor)


def test_nan_statistic_stops_the_loop():
    model, steps, reduced, _ = quadratic(0.1, control=np.nan)
    result = run_inner_loop(model, steps, reduced=reduced, max_iter=10)
    assert result.accepted == 0
    np.testing.assert_array_equal(result.params, model.anchor)


def test_uphill_momentum_is_restarted_once():
    model, steps, reduced, _ = quadratic(0.01)
    uphill = 100.0 * model.gradient
    result = run_inner_loop(
        model, steps, reduced=reduced, max_iter=1, momentum=0.9, velocity=uphill
    )
    assert (result.accepted, result.attempted) == (1, 2)
    expected = model.anchor - 0.01 * model.gradient
    np.testing.assert_allclose(result.params, expected, rtol=1e-13)
    np.testing.assert_allclose(result.velocity, expected - model.anchor, rtol=1e-9)


def test_without_a_measure_one_step_is_taken():
    model, steps, _, _ = quadratic(0.01)
    result = run_inner_loop(model, steps, max_iter=50)
    assert result.accepted == 1
    expected = model.anchor - 0.01 * model.gradient
    np.testing.assert_array_equal(result.params, expected)


def test_hessian_bound_of_the_measure_dominates_its_hessian(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    loss = MultinomialLoss(3)
    rows, outputs, target, prediction, weights = few_rows(loss, rng, 6, 3)
    reduced = ReducedGradient(rows, outputs, target, prediction, weights, loss)
    bound = reduced.hessian_bound(0.5 * (np.eye(3) - 1 / 3))
    second = loss.second_derivative(target, prediction)
    hessian = np.einsum(
        "a,ac,ad,acd->cd", weights, rows, rows, second[:, outputs][:, :, outputs]
    )
    assert np.linalg.eigvalsh(bound - hessian)[0] >= -1e-12
