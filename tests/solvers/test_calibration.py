"""Calibrated weights are positive and match the full gradient to rounding."""

import numpy as np
import pytest
from scipy import sparse

from skcara.solvers.newton._calibration import calibrate_rows


def sample(n_rows, n_params, n_outputs, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, n_params))
    rows[:, -1] = 1.0
    derivative = rng.uniform(-1, 1, (n_rows, n_outputs))
    weights = rng.uniform(0.5, 1.5, n_rows)
    return rows, derivative, weights / weights.sum(), rng


@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [3000, 40_001], ids=["single-rows", "tiles"])
def test_calibrated_measure_has_the_gradient_and_mass_one(
    n_rows, n_outputs, to_rows, global_random_seed
):
    rows, derivative, weights, rng = sample(n_rows, 6, n_outputs, global_random_seed)
    if n_outputs == 3:
        # The derivatives of a softmax sum to zero: dependent moments.
        derivative -= derivative.mean(axis=1, keepdims=True)
    gradient = (rows.T @ (derivative * weights[:, None])).ravel()
    gradient += 1e-3 * (rows.T @ derivative[rng.permutation(n_rows)]).ravel() / n_rows
    calibrated = calibrate_rows(
        to_rows(rows), derivative * weights[:, None], weights, gradient
    )
    assert (calibrated > 0).all()
    assert calibrated.sum() == pytest.approx(1.0, rel=1e-12)
    reached = (rows.T @ (derivative * calibrated[:, None])).ravel()
    size = np.abs(rows * weights[:, None]).sum(axis=0).max()
    np.testing.assert_allclose(reached, gradient, atol=1e-11 * size)


def test_unreachable_gradient_gives_no_measure():
    rows, derivative, weights, _ = sample(3000, 6, 1, seed=0)
    beyond = np.full(6, 2 * np.abs(rows).max())
    assert calibrate_rows(rows, derivative * weights[:, None], weights, beyond) is None


def test_duplicated_and_zero_columns_are_no_obstacle():
    rows, derivative, weights, _ = sample(3000, 6, 1, seed=0)
    rows[:, 1], rows[:, 2] = rows[:, 0], 0.0
    gradient = rows.T @ (derivative[:, 0] * weights)
    gradient[3] += 1e-4
    calibrated = calibrate_rows(rows, derivative * weights[:, None], weights, gradient)
    reached = rows.T @ (derivative[:, 0] * calibrated)
    np.testing.assert_allclose(reached, gradient, atol=1e-11)


def test_factors_change_as_little_as_possible(global_random_seed):
    # So few rows that each of them is a tile.
    rows, derivative, weights, _ = sample(100, 3, 1, global_random_seed)
    tiles = np.column_stack([rows * derivative * weights[:, None], weights])
    moments = tiles.sum(axis=0)
    moments[:-1] += 0.01
    calibrated = calibrate_rows(
        rows, derivative * weights[:, None], weights, moments[:-1]
    )
    # Stationarity: W_t (f_t - 1) is a combination of the moments.
    change = calibrated - weights
    assert np.abs(change).max() > 1e-4 * weights.max()
    multiplier, *_ = np.linalg.lstsq(tiles, change, rcond=None)
    np.testing.assert_allclose(tiles @ multiplier, change, atol=1e-10 * weights.max())
