"""Newton steps of all folds on a sample: they end at the minima, from anywhere."""

import numpy as np
import pytest
from solvers.test_paths_sample import problem, sample_of

from skcara.objective import SeparablePenalty
from skcara.solvers.paths._fold_newton import FoldPoints, Tilt, minimize_folds
from skcara.solvers.paths._near_hessians import NearHessians


@pytest.mark.parametrize("l1", [0.0, 0.01])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("distance", [0.0, 3.0, 30.0])
def test_minima_are_found_from_far_away(distance, n_classes, l1, global_random_seed):
    """Where most rows are predicted with certainty a whole step is far too long."""
    rng = np.random.default_rng(global_random_seed)
    rows, target, loss = problem(rng, n_classes)
    sample, shape = sample_of(rows, target, loss), (rows.shape[1], loss.n_outputs)
    strengths = np.ones((shape[0], 1))
    penalty = SeparablePenalty(l1 * strengths, 1e-3 * strengths, strengths < 0)
    start = distance * rng.standard_normal((3, *shape))
    points = FoldPoints(np.arange(3), start, sample.weights)
    tilt = Tilt(np.zeros_like(start), 0.0 * strengths)
    found = minimize_folds(
        NearHessians(sample), [penalty] * 3, points, tilt, accuracy=1e-14
    )
    _, gradients = sample.evaluate(found.params, sample.weights)
    for params, gradient in zip(found.params, gradients, strict=True):
        wrong = penalty.violation(params, gradient + penalty.l2 * params)
        assert wrong.max() <= 1e-7
