"""The distance to the subdifferential, and the value in other coordinates."""

import numpy as np
import pytest
from certificates import soft_threshold
from numpy.testing import assert_allclose

from skcara.objective import SeparablePenalty


def make_penalty(rng, n_params, positive):
    return SeparablePenalty(
        l1=rng.random((n_params, 1)),
        l2=rng.random((n_params, 1)),
        positive=np.full((n_params, 1), positive),
    )


@pytest.mark.parametrize("positive", [False, True])
def test_violation_vanishes_exactly_at_fixed_points_of_proximal_steps(positive):
    rng = np.random.default_rng(1)
    penalty = make_penalty(rng, 200, positive)
    l1 = penalty.l1
    params = soft_threshold(2 * rng.standard_normal((200, 1)), l1, positive)
    assert (params == 0).any()
    # A gradient for which every params is optimal: minus a subgradient.
    inside = rng.uniform(-1, 1, (200, 1)) * l1
    if positive:
        inside -= rng.random((200, 1))
    gradient = np.where(params == 0, -inside, -np.sign(params) * l1)
    assert_allclose(penalty.violation(params, gradient), 0, atol=1e-15)
    moved = soft_threshold(params - 0.1 * gradient, 0.1 * l1, positive)
    assert_allclose(moved, params, atol=1e-14)
    worse = gradient - 2 * l1 - 2.0
    assert (penalty.violation(params, worse) > 0).all()


def test_scaled_penalty_has_the_same_value():
    rng = np.random.default_rng(2)
    penalty, scale = make_penalty(rng, 5, False), rng.random(5) + 0.5
    params = rng.standard_normal((5, 1))
    scaled = penalty.scaled(scale)
    assert scaled.value(params * scale[:, None]) == pytest.approx(penalty.value(params))
