"""Partitions: disjoint covers, sizes and orders."""

import itertools

import numpy as np
import pytest

from skcara.blocks import PARTITIONS
from skcara.blocks._partition import make_candidates


class KnownCurvature:
    """Curvature of a known Hessian."""

    def __init__(self, hessian):
        self._hessian = np.asarray(hessian, dtype=float)

    def lipschitz(self):
        return self._hessian.diagonal()

    def block_hessians(self, blocks):
        return [self._hessian[np.ix_(block, block)] for block in blocks]

    def hessian(self):
        return self._hessian


def diagonal_curvature(n_coords, seed):
    values = np.random.RandomState(seed).exponential(size=n_coords)
    return KnownCurvature(np.diag(values))


@pytest.mark.parametrize("partition", sorted(PARTITIONS))
@pytest.mark.parametrize(("n_coords", "block_size"), [(12, 3), (11, 3), (5, 9), (1, 2)])
def test_partition_covers_every_coordinate_once(
    partition, n_coords, block_size, global_random_seed
):
    curvature = diagonal_curvature(n_coords, global_random_seed)
    candidates = make_candidates(partition, n_coords, block_size, curvature)
    together = np.concatenate(candidates.units)
    assert sorted(together) == list(range(n_coords))
    assert candidates.n_coords == n_coords
    if candidates.is_fixed:
        sizes = [unit.size for unit in candidates.units]
        assert sizes[:-1] == [min(block_size, n_coords)] * (len(sizes) - 1)
        assert 1 <= sizes[-1] <= block_size
        assert all(np.all(np.diff(unit) > 0) for unit in candidates.units)


def test_sort_puts_the_largest_curvatures_first(global_random_seed):
    curvature = diagonal_curvature(11, global_random_seed)
    units = make_candidates("Sort", 11, 3, curvature).units
    lipschitz = curvature.lipschitz()
    for first, second in itertools.pairwise(units):
        assert lipschitz[first].min() >= lipschitz[second].max()


@pytest.mark.parametrize("n_coords", [8, 9])
def test_avg_alternates_small_and_large(n_coords, global_random_seed):
    curvature = diagonal_curvature(n_coords, global_random_seed)
    order = PARTITIONS["Avg"].coordinate_order(n_coords, curvature)
    rank = np.empty(n_coords, dtype=int)
    rank[np.argsort(curvature.lipschitz())] = np.arange(n_coords)
    n_small = (n_coords + 1) // 2
    assert list(rank[order][0::2]) == list(range(n_small))
    assert list(rank[order][1::2]) == list(range(n_coords - 1, n_small - 1, -1))


def test_order_keeps_neighbours_together():
    units = make_candidates("Order", 7, 3, None).units
    assert [list(unit) for unit in units] == [[0, 1, 2], [3, 4, 5], [6]]
