"""Selection rules: scores against brute force, shares, coverage."""

import itertools

import numpy as np
import pytest
from blocks.test_partition import KnownCurvature
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skcara.blocks import PARTITIONS, SELECTIONS, is_valid_rule, make_selection

VALID_RULES = [
    (partition, selection)
    for partition, selection in itertools.product(PARTITIONS, SELECTIONS)
    if is_valid_rule(partition, selection)
]
FIXED = [name for name, rule in PARTITIONS.items() if rule.is_fixed]
GREEDY = ["GS", "GSD", "GSL", "GSDHb", "GSQ", "IHT"]


def random_curvature(rng, n_coords):
    factor = rng.standard_normal((2 * n_coords, n_coords))
    scales = np.exp(rng.standard_normal(n_coords))
    factor *= scales
    return KnownCurvature(factor.T @ factor)


def make(partition, selection, curvature, block_size=3, fraction=None):
    return make_selection(
        partition,
        selection,
        n_coords=len(curvature.hessian()),
        block_size=block_size,
        fraction=fraction,
        curvature=curvature,
    )


@pytest.mark.parametrize(("partition", "selection"), VALID_RULES)
@pytest.mark.parametrize("fraction", [None, 0.3, 1.0])
@pytest.mark.parametrize("block_size", [1, 3, 20])
def test_selected_blocks_are_disjoint_sorted_and_not_too_large(
    partition, selection, fraction, block_size, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    curvature = random_curvature(rng, 11)
    rule = make(partition, selection, curvature, block_size, fraction)
    for _ in range(15):
        blocks = rule.select(rng.standard_normal(11), curvature, rng)
        together = np.concatenate(blocks)
        assert len(set(together)) == together.size
        assert all(0 < block.size <= block_size for block in blocks)
        assert all(np.all(np.diff(block) > 0) for block in blocks)
        if fraction is None:
            assert len(blocks) == 1


@pytest.mark.parametrize(("partition", "selection"), VALID_RULES)
def test_every_coordinate_that_violates_is_selected_in_the_end(
    partition, selection, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    curvature = random_curvature(rng, 7)
    rule = make(partition, selection, curvature, block_size=2)
    gradient = rng.standard_normal(7)
    # Rules that draw give flat coordinates a small chance only.
    for _ in range(20_000):
        for block in rule.select(gradient, curvature, rng):
            gradient[block] = 0.0
        if not gradient.any():
            return
    pytest.fail("some coordinates were never selected")


SCORES = {
    "GS": lambda g, h: np.linalg.norm(g),
    "GSD": lambda g, h: g**2 @ (1 / h.diagonal()),
    "GSL": lambda g, h: g @ g / np.linalg.eigvalsh(h)[-1],
    "GSQ": lambda g, h: g @ np.linalg.solve(h, g),
}


@pytest.mark.parametrize("partition", FIXED)
@pytest.mark.parametrize("selection", sorted(SCORES))
def test_greedy_block_is_the_brute_force_maximum(
    partition, selection, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    curvature = random_curvature(rng, 8)
    rule = make(partition, selection, curvature)
    for _ in range(20):
        gradient = rng.standard_normal(8)
        (block,) = rule.select(gradient, curvature, rng)
        scores = [
            SCORES[selection](gradient[unit], hessian)
            for unit, hessian in zip(
                rule.candidates.units,
                curvature.block_hessians(rule.candidates.units),
                strict=True,
            )
        ]
        assert list(block) == list(rule.candidates.units[int(np.argmax(scores))])


@pytest.mark.parametrize("selection", ["GS", "GSD", "GSDHb"])
def test_greedy_variable_block_is_the_best_of_all_subsets(
    selection, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    curvature = random_curvature(rng, 7)
    hessian = curvature.hessian()
    majoriser = {
        "GS": np.ones(7),
        "GSD": hessian.diagonal(),
        "GSDHb": np.abs(hessian).sum(axis=1),
    }[selection]
    rule = make("VB", selection, curvature)
    gradient = rng.standard_normal(7)
    (block,) = rule.select(gradient, curvature, rng)
    best = max(
        itertools.combinations(range(7), 3),
        key=lambda subset: (gradient**2 / majoriser)[list(subset)].sum(),
    )
    assert list(block) == list(best)


def test_gershgorin_diagonal_dominates_the_hessian(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    hessian = random_curvature(rng, 9).hessian()
    gap = np.diag(np.abs(hessian).sum(axis=1)) - hessian
    assert np.linalg.eigvalsh(gap)[0] >= -1e-10 * np.abs(hessian).max()


def test_iht_finds_the_best_support_of_a_diagonal_hessian(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    diagonal = 1 + rng.random_sample(8)
    curvature = KnownCurvature(np.diag(diagonal))
    # Far apart: thresholding may settle on any of several supports that are alike.
    gradient = rng.permutation(3.0 ** np.arange(8)) * rng.choice([-1, 1], 8)
    rule = make("VB", "IHT", curvature)
    rule.n_iter = 500  # long enough to settle, the default is the article's 10
    (block,) = rule.select(gradient, curvature, rng)
    best = np.argsort(-(gradient**2) / diagonal)[:3]
    assert set(block) == set(best)


def test_iht_move_is_sparse_and_lowers_the_model(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    curvature = random_curvature(rng, 8)
    hessian = curvature.hessian()
    gradient = rng.standard_normal(8)
    rule = make("VB", "IHT", curvature)
    sizes = rule.scores(gradient, curvature)
    assert np.count_nonzero(sizes) <= 3
    # From d = 0 every thresholded step lowers g'd + d'Hd/2; the best move on the
    # support found is lower still.
    (block,) = rule.select(gradient, curvature, rng)
    move = -np.linalg.solve(hessian[np.ix_(block, block)], gradient[block])
    assert gradient[block] @ move < 0


@given(
    gradient=arrays(float, st.integers(1, 12), elements=st.floats(-5, 5, width=16)),
    fraction=st.floats(0.01, 1.0),
    block_size=st.integers(1, 5),
)
def test_percentage_rule_takes_the_shortest_sufficient_prefix(
    gradient, fraction, block_size
):
    curvature = KnownCurvature(np.eye(gradient.size))
    rule = make("VB", "GS", curvature, block_size, fraction)
    blocks = rule.select(gradient, curvature, None)
    if not gradient.any():
        assert blocks == []
        return
    chosen = np.concatenate(blocks)
    masses = np.sort(np.abs(gradient))[::-1]
    # The masses are summed in the order of the rule, so that equality is exact.
    target = fraction * np.cumsum(masses)[-1]
    enough = np.flatnonzero(np.cumsum(masses) > target)
    n_needed = enough[0] + 1 if enough.size else gradient.size
    assert chosen.size == min(max(n_needed, block_size), gradient.size)
    assert np.abs(gradient[chosen]).min() >= masses[chosen.size - 1]
    assert all(block.size == min(block_size, gradient.size) for block in blocks[:-1])


@pytest.mark.parametrize(
    ("n_coords", "block_size", "fraction", "n_drawn"),
    [(10, 2, 0.5, 4), (10, 3, 0.75, 6), (3, 2, 0.1, 2), (2, 5, 0.5, 2), (8, 2, 1, 8)],
)
def test_random_rule_draws_whole_blocks(n_coords, block_size, fraction, n_drawn):
    rng = np.random.RandomState(0)
    curvature = KnownCurvature(np.eye(n_coords))
    rule = make("VB", "Random", curvature, block_size, fraction)
    chosen = np.concatenate(rule.select(np.ones(n_coords), curvature, rng))
    assert len(set(chosen)) == chosen.size == n_drawn


@pytest.mark.parametrize("partition", sorted(PARTITIONS))
@pytest.mark.parametrize("fraction", [None, 0.5])
def test_perm_visits_every_coordinate_once_an_epoch(partition, fraction):
    rng = np.random.RandomState(3)
    curvature = random_curvature(rng, 10)
    rule = make(partition, "Perm", curvature, fraction=fraction)
    orders = []
    for _ in range(3):
        visited = []
        while len(visited) < 10:
            for block in rule.select(np.ones(10), curvature, rng):
                visited.extend(block)
        assert sorted(visited) == list(range(10))
        orders.append(tuple(visited))
    assert len(set(orders)) > 1


@pytest.mark.parametrize("partition", sorted(PARTITIONS))
def test_cyclic_uses_no_randomness(partition):
    curvature = random_curvature(np.random.RandomState(0), 8)
    rule = make(partition, "Cyclic", curvature)
    cycles = [
        [tuple(b) for _ in range(3) for b in rule.select(np.ones(8), curvature, None)]
        for _ in range(2)
    ]
    assert cycles[0] == cycles[1]
    assert sorted(itertools.chain(*cycles[0])) == list(range(8))


@pytest.mark.parametrize("partition", ["VB", "Order"])
def test_lipschitz_draws_in_proportion_to_the_curvature(partition):
    rng = np.random.RandomState(0)
    curvature = KnownCurvature(np.diag([1.0, 3.0, 0.0, 5.0]))
    rule = make(partition, "Lipschitz", curvature, block_size=1)
    draws = [rule.select(np.ones(4), curvature, rng)[0][0] for _ in range(4000)]
    shares = np.bincount(draws, minlength=4) / len(draws)
    # Four standard errors of a share of 4000 draws are 0.03.
    np.testing.assert_allclose(shares, [0.1, 0.3, 0.1, 0.5], atol=0.03)


@pytest.mark.parametrize(
    ("partition", "selection"), [rule for rule in VALID_RULES if rule[1] in GREEDY]
)
def test_greedy_rules_select_nothing_at_an_optimum(partition, selection):
    curvature = random_curvature(np.random.RandomState(0), 6)
    rule = make(partition, selection, curvature, fraction=0.75)
    assert rule.select(np.zeros(6), curvature, None) == []


@pytest.mark.parametrize("selection", GREEDY)
def test_coordinates_that_cannot_move_never_win(selection):
    rng = np.random.RandomState(1)
    curvature = random_curvature(rng, 6)
    partition = "VB" if is_valid_rule("VB", selection) else "Order"
    rule = make(partition, selection, curvature, block_size=2)
    gradient = np.array([0, 0, 0, 0, 1e-3, -1e-3])
    (block,) = rule.select(gradient, curvature, rng)
    assert set(block) == {4, 5}
