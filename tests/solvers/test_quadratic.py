"""Models of Newton steps: exact minimisers, secant equation, cost of a Hessian."""

import numpy as np
import pytest

from skcara.objective import SeparablePenalty
from skcara.solvers._quadratic import (
    QuadraticModel,
    ScaledCholesky,
    penalised_model,
    ridged_cholesky,
    steps_left,
)


def semi_definite(n_coords, rank, seed, condition=1.0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((rank, n_coords))
    return root.T @ root * np.outer(*[np.geomspace(1, condition, n_coords)] * 2)


def violation(matrix, l1, positive, anchor, gradient, params):
    """Distance of the slope to the subdifferential, by the textbook."""
    slope = gradient + matrix @ (params - anchor)
    at_zero = np.maximum(np.where(positive, -slope, np.abs(slope)) - l1, 0.0)
    return np.where(params == 0, at_zero, np.abs(slope + np.sign(params) * l1))


@pytest.mark.parametrize("rank", [12, 5], ids=["definite", "singular"])
@pytest.mark.parametrize("is_positive", [False, True])
@pytest.mark.parametrize("strength", [0.0, 0.3])
@pytest.mark.parametrize("condition", [1.0, 1e3])
def test_minimizer_satisfies_the_optimality_conditions(
    strength, is_positive, rank, condition, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    matrix = semi_definite(12, rank, global_random_seed, condition)
    l1 = np.full(12, strength)
    positive = np.full(12, is_positive)
    l1[-1], positive[-1] = 0.0, False  # an intercept
    anchor = np.abs(rng.standard_normal(12))
    gradient = matrix @ rng.standard_normal(12)  # bounded below, also if singular
    model = QuadraticModel(matrix, l1, positive)
    params = model.minimize(anchor, gradient)
    error = violation(matrix, l1, positive, anchor, gradient, params)
    # The scale of the terms that cancel in the slope.
    scale = np.abs(matrix) @ np.abs(params - anchor) + np.abs(gradient)
    assert (error <= 1e-10 * scale.max()).all()
    assert not is_positive or (params[:-1] >= 0).all()


@pytest.mark.parametrize("max_sweeps", [None, 5])
@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_a_free_coordinate_is_exact_where_all_others_are_zero(strength, max_sweeps):
    """What is wrong with an intercept may be small next to the intercept itself."""
    l1, positive = np.array([strength, 0.0]), np.array([strength == 0, False])
    anchor, gradient = np.array([0.0, 1.35]), np.array([0.1, -3e-15])
    model = QuadraticModel(np.eye(2), l1, positive)
    params = model.minimize(anchor, gradient, max_sweeps=max_sweeps)
    assert params.tolist() == [0.0, 1.35 + 3e-15]


@pytest.mark.parametrize("max_sweeps", [None, 5, 10])
def test_no_minimizer_goes_uphill_where_curvature_is_rounding(max_sweeps):
    """Two directions of a model after many secant steps; it once went to 1e302."""
    flat = np.array(
        [
            [3.7260988000038533e-15, -3.7330854834264025e-15, 6.9868819693113514e-18],
            [-3.7330854834264025e-15, 3.7294726673782016e-15, 3.6130136263427195e-18],
            [6.986881969311353e-18, 3.613013626343611e-18, -1.0600291717673376e-17],
        ]
    )
    mixed = np.array(
        [
            [5.699986268135022e-16, -5.821230213498787e-16, 2.0448904863589758e-18],
            [-5.749553891047147e-16, 5.634046177628927e-16, 1.5221333983632016e-18],
            [4.956763388647243e-18, 1.8718296540269185e-17, -3.5670700125626994e-18],
        ]
    )
    curved = 0.108493592982670 * (3 * np.eye(3) - 1)
    matrix = np.block([[flat, mixed], [mixed.T, curved]])
    l1 = np.repeat([2.0023398076617987e-26, 7.10715219680866e05], 3)
    anchor = np.array([38793837.289331876, 38793837.28926077, 0.0, 0.0, 0.0, 0.0])
    gradient = np.array([-2.7e-10, -1.4e-10, 4.1e-10, 0.396, -0.41, 0.013])
    model = QuadraticModel(matrix, l1, np.zeros(6, dtype=bool))
    params = model.minimize(anchor, gradient, max_sweeps=max_sweeps)
    terms = (np.abs(gradient) + l1) @ np.abs(params - anchor)
    assert model.decrease(anchor, gradient, params) <= 1e-12 * terms


@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_response_is_the_largest_change_in_a_unit_ball(strength, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    matrix = semi_definite(6, 20, global_random_seed)
    l1 = np.full(6, strength)
    l1[-1] = 0.0  # an intercept moves, whether it is asked for or not
    slope, is_free = rng.standard_normal(6), np.array([True] * 3 + [False] * 3)
    response = QuadraticModel(matrix, l1, l1 < 0).response(slope, is_free)
    free = is_free | (l1 == 0)
    steps = rng.standard_normal((10_000, 6)) * free
    best = np.zeros(6)
    best[free] = np.linalg.solve(matrix[np.ix_(free, free)], slope[free])
    steps = np.vstack([steps, best])
    lengths = np.sqrt(np.einsum("ki,ij,kj->k", steps, matrix, steps))
    changes = steps @ slope / lengths
    assert changes.max() == pytest.approx(np.sqrt(slope @ response), rel=1e-10)


def test_few_faces_are_tried_however_many_signs_change(monkeypatch):
    """From a start with hundreds of wrong signs, face by face would take hundreds."""
    n_coords, rng = 200, np.random.default_rng(0)
    rows = rng.standard_normal((800, n_coords)) + 3 * rng.standard_normal((800, 1))
    rows /= np.linalg.norm(rows, axis=0)
    target = rows @ (rng.standard_normal(n_coords) * (rng.random(n_coords) < 0.5))
    target += 0.1 * rng.standard_normal(800)
    matrix, cross = rows.T @ rows, rows.T @ target
    start = np.linalg.solve(matrix, cross)
    n_faces, face_step = 0, QuadraticModel._face_step

    def counted(*arguments):
        nonlocal n_faces
        n_faces += 1
        return face_step(*arguments)

    monkeypatch.setattr(QuadraticModel, "_face_step", counted)
    l1, free = np.full(n_coords, 0.1), np.zeros(n_coords, dtype=bool)
    params = QuadraticModel(matrix, l1, free).minimize(start, matrix @ start - cross)
    error = violation(matrix, l1, free, start, matrix @ start - cross, params)
    assert error.max() <= 1e-11 * l1[0]
    assert np.count_nonzero(params * start <= 0) > 50
    assert n_faces <= 30


@pytest.mark.parametrize("max_sweeps", [0, 1, 5])
def test_limited_effort_never_makes_a_model_worse(max_sweeps, global_random_seed):
    """Not even for a singular matrix, where face steps lead far away."""
    rng = np.random.default_rng(global_random_seed)
    rows = rng.standard_normal((20, 80))
    matrix, l1, free = rows.T @ rows / 20, np.full(80, 0.01), np.zeros(80, dtype=bool)
    anchor, gradient = rng.standard_normal(80), rng.standard_normal(80)
    model = QuadraticModel(matrix, l1, free)

    def value(params):
        step = params - anchor
        smooth = gradient @ step + 0.5 * step @ matrix @ step
        return smooth + l1 @ np.abs(params)

    values = [value(anchor), value(model.minimize(anchor, gradient, max_sweeps=0))]
    values.append(value(model.minimize(anchor, gradient, max_sweeps=max_sweeps)))
    values.append(value(model.minimize(anchor, gradient)))
    assert (np.diff(values) <= 1e-9 * np.abs(values[:-1])).all()
    assert values[-1] < values[0]


def test_flat_directions_do_not_stop_the_others(global_random_seed):
    """As the classes of a multinomial model, to which any constant may be added.

    A small L1 term sends the minimiser on a face far along such directions, until some
    coordinate changes its sign; that must not be the end of the whole step.
    """
    n_features, n_classes = 12, 8
    rng = np.random.default_rng(global_random_seed)
    rows = rng.standard_normal((60, n_features)) + 3 * rng.standard_normal((60, 1))
    centring = np.eye(n_classes) - 1 / n_classes
    matrix = np.kron(rows.T @ rows / 60, centring)
    n_coords = len(matrix)
    l1, free = np.full(n_coords, 1e-7), np.zeros(n_coords, dtype=bool)
    anchor = rng.standard_normal(n_coords)
    gradient = matrix @ rng.standard_normal(n_coords)
    model = QuadraticModel(matrix, l1, free)

    def decrease(params):
        step = params - anchor
        smooth = gradient @ step + 0.5 * step @ matrix @ step
        return -smooth - l1 @ (np.abs(params) - np.abs(anchor))

    most = decrease(model.minimize(anchor, gradient))
    assert decrease(model.minimize(anchor, gradient, max_sweeps=10)) > 0.99 * most


def test_coordinates_without_curvature_do_not_move():
    matrix = np.diag([1.0, 0.0, 1e-40])
    anchor, gradient = np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.0, 1e-30])
    free = np.zeros(3, dtype=bool)
    params = QuadraticModel(matrix, np.zeros(3), free).minimize(anchor, gradient)
    np.testing.assert_allclose(params, [2.0, 2.0, 1.0])
    params = QuadraticModel(matrix, np.full(3, 0.1), free).minimize(anchor, gradient)
    np.testing.assert_allclose(params, [1.9, 0.0, 0.0], err_msg="L1 alone decides")


@pytest.mark.parametrize("curvature", [-3e-15, -1e-16, 1e-16])
def test_direction_without_curvature_is_not_followed(curvature, global_random_seed):
    # As the intercepts of several classes, to which any constant may be added.
    matrix = semi_definite(12, 20, global_random_seed) / 20
    constant = np.zeros(12)
    constant[-3:] = 1 / np.sqrt(3)
    project = np.eye(12) - np.outer(constant, constant)
    matrix = project @ matrix @ project + curvature * np.outer(constant, constant)
    l1 = np.where(np.arange(12) < 9, 1e-3, 0.0)
    rng = np.random.default_rng(global_random_seed)
    gradient = 0.1 * project @ rng.standard_normal(12) + 2e-15 * constant
    model = QuadraticModel(matrix, l1, np.zeros(12, dtype=bool))
    params = model.minimize(np.zeros(12), gradient)
    assert abs(constant @ params) < 1.0


def test_secant_update_maps_step_to_gradient_change(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    truth = semi_definite(6, 12, global_random_seed + 1)
    zeros = np.zeros(6)
    model = QuadraticModel(semi_definite(6, 12, 7), zeros, zeros.astype(bool))
    step = rng.standard_normal(6)
    updated = model.secant(step, truth @ step)
    np.testing.assert_allclose(updated.matrix @ step, truth @ step, rtol=1e-10)
    np.testing.assert_allclose(updated.matrix, updated.matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(updated.matrix).min() > 0
    assert model.secant(step, -truth @ step) is model, "no negative curvature"


@pytest.mark.parametrize("rounding", [-1e-15, 0.0, 1e-15, 1e-12])
def test_classes_without_a_penalty_do_not_drift_together(rounding, global_random_seed):
    """Rounding is neither a slope nor a curvature of what they have in common."""
    rng = np.random.default_rng(global_random_seed)
    X, probabilities = rng.normal(size=(300, 2)), rng.dirichlet(np.ones(3), size=300)
    hessian = np.zeros((6, 6))
    for row, p in zip(X, probabilities, strict=True):
        hessian += np.kron(np.outer(row, row), np.diag(p) - np.outer(p, p)) / 300
    hessian += np.kron(np.diag([0.0, rounding]), np.ones((3, 3)))
    l2 = np.array([[0.1], [0.0]])
    penalty = SeparablePenalty(0 * l2, l2, l2 < 0)
    model = penalised_model(hessian, penalty, n_outputs=3)
    anchor, slope = rng.normal(size=(2, 6))
    slope[3:] += 1e-10 - slope[3:].mean()
    # Nor does a secant let it in, along which the change of the gradient is tiny.
    change = np.array([0.2, -0.1, 0.4, 1e-3, 2e-3, -3e-3 + 1e-10])
    step = np.array([0.5, -0.5, 0.5, 0.5, 0.5, -1.0])
    for each in (model, model.secant(step, change)):
        move = each.minimize(anchor, slope) - anchor
        assert abs(move[3:].sum()) <= 1e-12 * np.abs(move).max()
        # All else is as without that direction.
        slope_there = slope + each.matrix @ move
        assert np.abs(slope_there[:3]).max() <= 1e-5
        assert np.ptp(slope_there[3:]) <= 1e-5


def test_cholesky_solves_badly_scaled_and_singular_systems(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    matrix = semi_definite(8, 4, global_random_seed, condition=1e6)
    right_side = matrix @ rng.standard_normal(8)
    solution = ScaledCholesky(matrix).solve(right_side)
    scale = np.sqrt(np.diagonal(matrix))
    assert np.abs((matrix @ solution - right_side) / scale).max() < 1e-5
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        ScaledCholesky(np.full((3, 3), np.nan))


def test_steps_left_extrapolates_the_contraction():
    assert steps_left(1e-2, 1.0, 1e-6) == pytest.approx(2.0)
    assert steps_left(1.0, np.inf, 1e-6) == 0.0
    assert steps_left(1.0, 0.5, 1e-6) == np.inf
    assert steps_left(1.0, 0.0, 1e-6) == np.inf
    assert steps_left(0.5, 1.0, 0.0) == np.inf
    assert steps_left(0.0, 1.0, 0.0) == 0.0


@pytest.mark.parametrize("largest", [1.0, 3.0, 1e30])
def test_a_ridge_makes_any_matrix_definite(largest, global_random_seed):
    """Rounding of saturated losses makes entries larger than their diagonal allows."""
    rng = np.random.default_rng(global_random_seed)
    matrix = rng.uniform(-largest, largest, (6, 6))
    matrix = matrix + matrix.T
    factor = ridged_cholesky(matrix.copy())
    assert np.isfinite(factor).all()
    assert (np.diagonal(factor) > 0).all()


def test_a_model_without_any_curvature_stays_where_it_is():
    """All rows of a saturated fold are predicted with certainty."""
    model = QuadraticModel(np.zeros((3, 3)), np.zeros(3), np.zeros(3, dtype=bool))
    anchor = np.array([1.0, 0.0, -2.0])
    np.testing.assert_array_equal(model.minimize(anchor, np.ones(3)), anchor)
