"""Steps solve their proximal problem; control statistics have their formulas."""

import numpy as np
import pytest

from skcara.objective import LogisticLoss, SquaredLoss
from skcara.solvers import CONTROLS
from skcara.solvers.descent._control import (
    Secant,
    control_matrix,
    rank_one_secant,
    resolve_control,
    secant_curvature,
)
from skcara.solvers.descent._steps import (
    DiagonalStep,
    NewtonStep,
    scaled_pseudo_inverse,
)


def composite_violation(point, base, gradient, hessian, l1, positive):
    slope = gradient + hessian @ (point - base)
    away = np.abs(slope + np.sign(point) * l1)
    at_zero = np.where(
        positive, np.maximum(-slope - l1, 0), np.maximum(np.abs(slope) - l1, 0)
    )
    return np.where(point == 0, at_zero, away).max()


@pytest.mark.parametrize("l1", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("bound", ["free", "positive", "mixed"])
@pytest.mark.parametrize("kind", ["diagonal", "newton"])
def test_step_solves_its_proximal_problem(kind, bound, l1, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    positive = {"free": np.zeros(4), "positive": np.ones(4), "mixed": [1, 0, 1, 0]}
    positive = np.array(positive[bound], dtype=bool)
    l1 = l1 * np.array([1, 1, 1, 0.0])
    if kind == "diagonal":
        rates = np.exp(rng.standard_normal(4))
        step, hessian = DiagonalStep(rates, l1, positive), np.diag(1 / rates)
    else:
        factor = rng.standard_normal((6, 4))
        hessian = factor.T @ factor
        step = NewtonStep(hessian, l1, positive)
    for _ in range(20):
        base, gradient = rng.standard_normal(4), 2 * rng.standard_normal(4)
        point = np.empty(4)
        step(base, gradient, point)
        assert np.all(point[positive] >= 0)
        violation = composite_violation(point, base, gradient, hessian, l1, positive)
        assert violation <= 1e-10 * np.abs(hessian).max()


def test_newton_step_ignores_columns_without_data():
    hessian = np.diag([2.0, 0.0])
    step = NewtonStep(hessian, np.array([0.0, 0.1]), np.zeros(2, dtype=bool))
    point = np.empty(2)
    step(np.array([1.0, 5.0]), np.array([4.0, 0.0]), point)
    np.testing.assert_allclose(point, [-1.0, 0.0])


def test_pseudo_inverse_does_not_depend_on_the_scale_of_columns():
    rng = np.random.RandomState(0)
    factor = rng.standard_normal((10, 3))
    hessian = factor.T @ factor
    scale = np.array([1e-6, 1.0, 1e6])
    scaled = hessian * np.outer(scale, scale)
    inverse = scaled_pseudo_inverse(scaled) * np.outer(scale, scale)
    np.testing.assert_allclose(inverse, np.linalg.inv(hessian), rtol=1e-9)


def test_scaled_step_multiplies_the_move():
    step = DiagonalStep(np.array([0.5, 2.0]), np.zeros(2), np.zeros(2, dtype=bool))
    point = np.empty(2)
    step.scaled(0.1)(np.zeros(2), np.ones(2), point)
    np.testing.assert_allclose(point, [-0.05, -0.2])
    assert step.overshoot(np.diag([1.0, 3.0])) == pytest.approx(6.0)
    newton = NewtonStep(np.diag([1.0, 3.0]), np.zeros(2), np.zeros(2, dtype=bool))
    assert newton.overshoot(np.diag([2.0, 3.0])) == pytest.approx(2.0)


def test_guaranteed_controls_dominate_the_hessian(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    factor = rng.standard_normal((8, 4))
    hessian, metric = factor.T @ factor, np.exp(rng.standard_normal(4))
    lipschitz = control_matrix("lipschitz", metric=metric, hessian=hessian)
    gap = np.linalg.eigvalsh(lipschitz - hessian)
    assert gap[0] == pytest.approx(0, abs=1e-10)
    exact = control_matrix("block-hessian", metric=metric, hessian=hessian)
    np.testing.assert_array_equal(exact, hessian)


def test_rank_one_secant_along_the_last_move_is_block_size_times_the_curvature():
    rng = np.random.RandomState(0)
    secant = Secant(rng.standard_normal(3), rng.standard_normal(3))
    matrix = rank_one_secant(secant, np.full(3, np.nan))
    along = secant.params @ matrix @ secant.params
    assert along == pytest.approx(3 * secant.gradient @ secant.params)
    other = rng.standard_normal(3)
    assert other @ matrix @ other == pytest.approx(other @ matrix.T @ other)


def test_rank_one_secant_survives_coordinates_that_did_not_move():
    secant = Secant(np.array([2.0, 0.0]), np.array([3.0, 5.0]))
    matrix = rank_one_secant(secant, np.array([7.0, 8.0]))
    np.testing.assert_allclose(matrix, [[1.5, 0.0], [0.0, 8.0]])


def test_secant_curvature_of_a_quadratic_lies_in_its_spectrum(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    factor = rng.standard_normal((8, 4))
    hessian = factor.T @ factor
    move = rng.standard_normal(4)
    curvature = secant_curvature(Secant(move, hessian @ move), np.ones(4))
    eigenvalues = np.linalg.eigvalsh(hessian)
    assert eigenvalues[0] <= curvature <= eigenvalues[-1]


def test_secant_curvature_is_positive_even_if_the_differences_are_not():
    secant = Secant(np.array([1.0, 1.0]), np.array([-1.0, -2.0]))
    assert 0 < secant_curvature(secant, np.ones(2)) < 1e-7


@pytest.mark.parametrize(("curvature", "used"), [(0.5, 0.5), (9.0, 2.0), (-1.0, 2e-8)])
def test_secant_curvature_is_limited_by_the_bound(curvature, used):
    matrix = control_matrix(
        "secant-bb",
        metric=np.array([1.0, 4.0]),
        hessian=np.diag([2.0, 4.0]),
        secant=Secant(np.ones(2), np.ones(2)),
        curvature=curvature,
    )
    np.testing.assert_allclose(matrix, used * np.diag([1.0, 4.0]))


@pytest.mark.parametrize("control", ["secant", "secant-bb"])
def test_secant_without_history_is_unknown_or_the_bound(control):
    assert control_matrix(control, metric=np.ones(2)) is None
    hessian = np.diag([1.0, 2.0])
    bound = control_matrix(control, metric=np.ones(2), hessian=hessian)
    np.testing.assert_allclose(bound, 2 * np.eye(2))


@pytest.mark.parametrize("control", ["secant", "secant-bb"])
def test_block_that_did_not_move_takes_the_curvature_of_the_others(control):
    nothing = Secant(np.zeros(2), np.ones(2))
    matrix = control_matrix(
        control, metric=np.array([1.0, 3.0]), secant=nothing, curvature=0.5
    )
    np.testing.assert_allclose(matrix, np.diag([0.5, 1.5]))


def test_auto_control_is_exact_where_it_can_be():
    assert resolve_control("auto", SquaredLoss()) == "block-hessian"
    assert resolve_control("auto", LogisticLoss()) == "secant-bb"
    assert {resolve_control(name, SquaredLoss()) for name in CONTROLS} == set(CONTROLS)
