"""The pool represents all rows, whoever read them in whatever order."""

import numpy as np
import pytest
from scipy import sparse

from skcara.data import Chunk
from skcara.io._pool import Pool, lower_bound

N_ROWS = 20_000


def chunks(edges, weights=None, as_rows=np.asarray):
    X = as_rows(np.arange(2.0 * N_ROWS).reshape(N_ROWS, 2))
    for a, b in zip([0, *edges], [*edges, N_ROWS], strict=True):
        part = None if weights is None else weights[a:b]
        yield Chunk(a, X[a:b], np.arange(a, b), part)


def finish(pool, weights=None):
    total = N_ROWS if weights is None else weights.sum()
    return pool.finish(N_ROWS, total)


def fill(edges, capacity, weights=None, threshold=0.0, as_rows=np.asarray):
    pool = Pool(capacity, threshold)
    for chunk in chunks(edges, weights, as_rows):
        pool.offer(chunk)
    return finish(pool, weights)


def exponential_weights(seed):
    rng = np.random.default_rng(seed)
    return rng.exponential(size=N_ROWS) * (rng.uniform(size=N_ROWS) > 0.3)


@pytest.mark.parametrize("weighted", [False, True])
def test_same_rows_whatever_the_parts(weighted, global_random_seed):
    weights = exponential_weights(global_random_seed) if weighted else None
    expected = fill([], 500, weights)
    for edges in ([1], range(100, N_ROWS, 100), [50, 19_000]):
        found = fill(edges, 500, weights)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.weights, expected.weights)
    first, second = Pool(500), Pool(500)
    for number, chunk in enumerate(chunks(range(100, N_ROWS, 100), weights)):
        (first if number % 3 else second).offer(chunk)
    second.absorb(first)
    np.testing.assert_array_equal(finish(second, weights).indices, expected.indices)


def test_same_rows_with_a_bound_known_before(global_random_seed):
    weights = exponential_weights(global_random_seed)
    bound = lower_bound(N_ROWS, weights.sum(), 500)
    found = fill([777], 500, weights, threshold=0.99 * bound)
    expected = fill([], 500, weights)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_rows_belong_to_their_numbers(as_rows):
    pooled = fill([3000], 400, as_rows=as_rows)
    rows = pooled.block.rows
    rows = rows.toarray() if sparse.issparse(rows) else rows
    assert 300 < len(pooled.indices) <= 400
    assert (np.diff(pooled.indices) > 0).all()
    np.testing.assert_array_equal(rows[:, 0], 2 * pooled.indices)
    np.testing.assert_array_equal(pooled.block.target, pooled.indices)


def test_estimates_are_unbiased_within_sampling_error(global_random_seed):
    weights = exponential_weights(global_random_seed)
    pooled = fill([5000], 2000, weights)
    for part in (slice(0, 7000), slice(7000, N_ROWS)):
        inside = (pooled.indices >= part.start) & (pooled.indices < part.stop)
        estimate, truth = pooled.weights[inside].sum(), weights[part].sum()
        assert abs(estimate - truth) < 5 * truth / np.sqrt(inside.sum())


def test_heavy_rows_are_kept_with_their_own_weight_and_idle_ones_never():
    weights = np.full(N_ROWS, 1e-3)
    weights[::2] = 0.0
    weights[[5, 11, 4001]] = 1e3
    pooled = fill([10_000], 300, weights)
    for row in (5, 11, 4001):
        assert pooled.weights[np.flatnonzero(pooled.indices == row)] == [1e3]
    assert (pooled.indices % 2 == 1).all()


def test_everything_is_kept_where_there_is_room():
    weights = np.linspace(0, 1, N_ROWS)
    pooled = fill([100], N_ROWS, weights)
    np.testing.assert_array_equal(pooled.indices, np.arange(1, N_ROWS))
    np.testing.assert_array_equal(pooled.weights, weights[1:])


def test_a_pool_is_a_copy():
    X = np.zeros((10, 1))
    pool = Pool(10)
    pool.offer(Chunk(0, X, X[:, 0], None))
    assert not np.shares_memory(pool.finish(10, 10.0).block.rows, X)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_a_pool_without_rows_knows_the_same_numbers(as_rows, global_random_seed):
    weights = exponential_weights(global_random_seed)
    expected = fill([777], 500, weights)
    pool = Pool(500, holds_rows=False)
    for chunk in chunks([777], weights, as_rows):
        other = pool.fresh()
        other.offer(chunk)
        pool.absorb(other)
    found = finish(pool, weights)
    assert found.block is None
    for name in ("indices", "target", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
