"""Every method keeps the contract on every input."""

from __future__ import annotations

import numpy as np
import pytest
from recombination.clouds import (
    CLOUDS,
    Cloud,
    affine_rank,
    assert_contract,
    is_feasible,
    masses_of,
)
from scipy.linalg import lstsq

from skcara.recombination import RECOMBINATION_METHODS, Recombination, recombine

METHODS = sorted(RECOMBINATION_METHODS)
by_method = pytest.mark.parametrize("method", METHODS)
by_cloud = pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.name)


@by_method
@by_cloud
def test_recombine_keeps_the_contract(method, cloud, global_random_seed):
    result = recombine(
        cloud.points, cloud.weights, method=method, random_state=global_random_seed
    )
    assert_contract(cloud, result)


@by_method
@by_cloud
@pytest.mark.parametrize("target_size", [1, 7, 30, 80])
def test_target_size_bounds_the_support(method, cloud, target_size):
    result = recombine(
        cloud.points,
        cloud.weights,
        method=method,
        target_size=target_size,
        random_state=0,
    )
    assert_contract(cloud, result, target_size)


@by_method
def test_target_size_of_all_points_changes_nothing(method):
    cloud = CLOUDS[1]
    indices, weights = recombine(
        cloud.points, cloud.weights, method=method, target_size=300
    )
    np.testing.assert_array_equal(indices, np.arange(300))
    np.testing.assert_array_equal(weights, cloud.weights)


@by_method
@by_cloud
def test_inputs_are_not_modified_and_not_shared(method, cloud):
    points = cloud.points.copy()
    weights = None if cloud.weights is None else cloud.weights.copy()
    result = recombine(points, weights, method=method, random_state=0)
    np.testing.assert_array_equal(points, cloud.points)
    if weights is not None:
        np.testing.assert_array_equal(weights, cloud.weights)
        assert not np.shares_memory(result.weights, weights)
    result.weights[:] = 0.0  # must be writeable, and nobody else's


@by_method
def test_same_seed_gives_the_same_result(method):
    rng = np.random.default_rng(3)
    points, weights = rng.exponential(size=(2000, 6)), rng.random(2000)
    for target_size in (None, 100):
        options = {"method": method, "target_size": target_size}
        first = recombine(points, weights, random_state=5, **options)
        again = recombine(points, weights, random_state=5, **options)
        generator = np.random.default_rng(5)
        drawn = recombine(points, weights, random_state=generator, **options)
        for other in (again, drawn):
            np.testing.assert_array_equal(first.indices, other.indices)
            np.testing.assert_array_equal(first.weights, other.weights)
        states = [np.random.RandomState(5) for _ in range(2)]
        pair = [recombine(points, weights, random_state=s, **options) for s in states]
        np.testing.assert_array_equal(pair[0].indices, pair[1].indices)
        np.testing.assert_array_equal(pair[0].weights, pair[1].weights)


@by_method
def test_affine_maps_of_the_points_are_matched_too(method):
    """Moments are affine: matching P T + b matches P for an invertible T."""
    rng = np.random.default_rng(4)
    points = rng.normal(size=(500, 5))
    mapped = points @ rng.normal(size=(5, 5)) + 10 * rng.normal(size=5)
    indices, weights = recombine(mapped, method=method, random_state=0)
    # The map has condition number below 100.
    np.testing.assert_allclose(weights @ points[indices], points.mean(0), atol=1e-12)


@by_method
def test_recombining_again_does_not_enlarge_the_support(method):
    rng = np.random.default_rng(5)
    points = rng.exponential(size=(400, 4))
    first = recombine(points, method=method, random_state=0)
    again = recombine(
        points[first.indices], first.weights, method=method, random_state=0
    )
    assert len(again.indices) <= len(first.indices)


@by_method
@pytest.mark.parametrize("factor", [1e-200, 0.3, 1e7, 1e200])
def test_weights_of_any_total(method, factor):
    cloud = CLOUDS[1]
    scaled = Cloud("scaled", cloud.points, factor * cloud.weights)
    result = recombine(scaled.points, scaled.weights, method=method, random_state=0)
    assert_contract(scaled, result)


@by_cloud
def test_nnls_agrees_that_the_support_is_feasible(cloud):
    indices, _ = recombine(cloud.points, cloud.weights)
    assert is_feasible(cloud.points, masses_of(cloud), indices)


@pytest.mark.skipif(np.finfo("g").eps > 1e-18, reason="needs a judge of more digits")
@pytest.mark.parametrize("target_size", [None, 6000, 11_990])
def test_the_residual_of_many_alike_rows_is_the_true_one(target_size):
    """Terms that are alike round alike; added one by one they drift 1e-14 off."""
    rng = np.random.default_rng(0)
    points = rng.random(30) + 1e-3 * rng.random((12_000, 30))
    result = recombine(points, target_size=target_size, random_state=0)
    exact, masses = points.astype("g"), result.weights.astype("g")
    moved = masses @ exact[result.indices] - exact.mean(axis=0)
    error = float((np.abs(moved) / exact.max(axis=0)).max())
    assert abs(result.residual - error) <= 1e-15


def test_default_weights_are_one_over_n():
    points = np.random.default_rng(0).normal(size=(50, 2))
    assert recombine(points).weights.sum() == pytest.approx(1.0, abs=1e-15)


def test_result_is_frozen_and_unpacks():
    points = np.random.default_rng(0).normal(size=(50, 2))
    result = recombine(points)
    indices, weights = result
    assert indices is result.indices
    assert weights is result.weights
    assert isinstance(result, Recombination)
    assert isinstance(result.residual, float)
    assert result.method == "pivoting"
    with pytest.raises(AttributeError):
        result.method = "other"


@by_method
def test_support_is_rank_plus_one_in_general_position(method):
    """Almost surely no smaller support exists, so the bound is met with equality."""
    rng = np.random.default_rng(6)
    points = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 7))
    indices, _ = recombine(points, method=method, random_state=0)
    assert affine_rank(points, np.ones(300)) == 3
    assert len(indices) == 4


@by_method
def test_quadratic_statistics_give_an_exact_least_squares_coreset(method):
    """Matching all products of (x, y) matches the squared loss everywhere."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(2000, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=2000)
    extended = np.column_stack([X, y])
    rows, columns = np.triu_indices(4)
    products = extended[:, rows] * extended[:, columns]
    indices, weights = recombine(products, method=method, random_state=0)
    assert len(indices) <= 11
    for coefficients in rng.normal(size=(5, 3)):
        full = np.mean((y - X @ coefficients) ** 2)
        reduced = weights @ (y[indices] - X[indices] @ coefficients) ** 2
        assert reduced == pytest.approx(full, rel=1e-9)
    root = np.sqrt(weights)
    solution = lstsq(root[:, None] * X[indices], root * y[indices])[0]
    np.testing.assert_allclose(solution, lstsq(X, y)[0], rtol=1e-9)


def test_maalouf_preserves_the_mass():
    """The published program preserves weighted sums but loses the mass."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        points, weights = rng.normal(size=(500, 3)), rng.random(500)
        result = recombine(points, weights, method="maalouf")
        assert result.method == "maalouf"
        assert result.weights.sum() == pytest.approx(weights.sum(), rel=1e-12)


def test_many_rows_are_read_through_groups():
    """Large enough for the streamed first level of every grouped method."""
    rng = np.random.default_rng(9)
    points, weights = rng.exponential(size=(60_000, 4)), rng.random(60_000)
    weights[rng.random(60_000) < 0.3] = 0.0
    weights[:9000] = 0.0  # groups without any mass
    cloud = Cloud("large", points, weights)
    for method in sorted(set(METHODS) - {"cone", "davis"}):
        for target_size in (None, 12, 400, 20_000):
            result = recombine(
                points, weights, method=method, target_size=target_size, random_state=0
            )
            assert_contract(cloud, result, target_size)
