"""The proximal map and the distance to the subdifferential."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skcara.objective import SeparablePenalty


def make_penalty(rng, n_params, positive):
    return SeparablePenalty(
        l1=rng.random((n_params, 1)),
        l2=rng.random((n_params, 1)),
        positive=np.full((n_params, 1), positive),
    )


@pytest.mark.parametrize("positive", [False, True])
def test_prox_minimises_its_definition(positive, global_random_seed):
    """No other point has a smaller value of step * l1 |p| + (p - q)^2 / 2."""
    rng = np.random.default_rng(global_random_seed)
    penalty = make_penalty(rng, 30, positive)
    point, step = 2 * rng.standard_normal((30, 1)), 0.7

    def value(params):
        return step * penalty.l1 * np.abs(params) + 0.5 * (params - point) ** 2

    best = penalty.prox(point, step)
    grid = np.linspace(0 if positive else -6, 6, 4001)
    assert (value(best) <= value(grid[None, :]) + 1e-12).all()
    assert (best == 0).any(), "some coordinates must be exactly zero"


@pytest.mark.parametrize("positive", [False, True])
def test_violation_vanishes_exactly_at_fixed_points_of_the_prox(positive):
    rng = np.random.default_rng(1)
    penalty = make_penalty(rng, 200, positive)
    params = penalty.prox(2 * rng.standard_normal((200, 1)), 1.0)
    # A gradient for which every params is optimal: minus a subgradient.
    inside = rng.uniform(-1, 1, (200, 1)) * penalty.l1
    if positive:
        inside -= rng.random((200, 1))
    gradient = np.where(params == 0, -inside, -np.sign(params) * penalty.l1)
    assert_allclose(penalty.violation(params, gradient), 0, atol=1e-15)
    moved = penalty.prox(params - 0.1 * gradient, 0.1)
    assert_allclose(moved, params, atol=1e-14)
    worse = gradient - 2 * penalty.l1 - 2.0
    assert (penalty.violation(params, worse) > 0).all()


def test_scaled_penalty_has_the_same_value():
    rng = np.random.default_rng(2)
    penalty, scale = make_penalty(rng, 5, False), rng.random(5) + 0.5
    params = rng.standard_normal((5, 1))
    scaled = penalty.scaled(scale)
    assert scaled.value(params * scale[:, None]) == pytest.approx(penalty.value(params))


def test_restrict_picks_flat_coordinates():
    penalty = make_penalty(np.random.default_rng(3), 4, False)
    restricted = penalty.restrict([5, 0], n_outputs=3)
    assert_allclose(restricted.l1, penalty.l1[[1, 0]])
