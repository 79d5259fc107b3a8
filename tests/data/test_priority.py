"""Priority sampling: exact size, unbiased, sure of what matters, blind to the cut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skcara.data import PriorityRows, rare_uniforms, row_uniforms


def sample(densities, weights, *, n_draws, seed=0, chunk_rows=None, order=None):
    """Sample of rows that are met chunk by chunk, in any order of the chunks."""
    chunk_rows = len(densities) if chunk_rows is None else chunk_rows
    starts = np.arange(0, len(densities), chunk_rows)
    starts = starts if order is None else starts[order.permutation(len(starts))]
    total = None
    for start in starts:
        part = slice(start, start + chunk_rows)
        rows = PriorityRows.of_chunk(
            start, densities[part], weights[part], n_draws=n_draws, seed=seed
        )
        total = rows if total is None else total.merge(rows, n_draws)
    return total.sample(n_draws)


def uneven(n_rows=400, seed=0):
    """Densities over several decades, weights that are not proportional to them."""
    rng = np.random.default_rng(seed)
    weights = rng.random(n_rows)
    weights[::7] = 0.0
    return rng.pareto(1.2, n_rows) * weights, weights / weights.sum()


def test_uniforms_are_uniform_and_belong_to_the_row():
    values = row_uniforms(5, 0, 100_000)
    assert 0 < values.min() < values.max() < 1
    counts, _ = np.histogram(values, 100, (0, 1))
    # A hundred counts of mean 1000: chi-squared with 99 degrees of freedom.
    assert 60 < ((counts - 1000) ** 2 / 1000).sum() < 150
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.02
    assert_array_equal(row_uniforms(5, 700, 10), values[700:710])
    others = row_uniforms(6, 0, 100_000)
    assert abs(np.corrcoef(values, others)[0, 1]) < 0.02


@pytest.mark.parametrize("most", [0.0, 1e-18, 1e-3, 0.5, 1.0, np.inf])
def test_rare_uniforms_are_the_small_ones(most, global_random_seed):
    values = row_uniforms(global_random_seed, 700, 50_000)
    if 0 < most < 1:
        # The bound may be one of the numbers.
        most = float(values[np.argmin(np.abs(values - most))])
    rows, found = rare_uniforms(global_random_seed, 700, 50_000, most)
    assert_array_equal(found, values[rows])
    assert (np.diff(rows) > 0).all()
    assert_array_equal(rows[found <= most], np.flatnonzero(values <= most))
    assert (found <= most + 1e-12).all()


@pytest.mark.parametrize("n_draws", [1, 10, 100])
def test_samples_have_their_size_and_are_distinct_and_ascending(n_draws):
    densities, weights = uneven()
    for seed in range(50):
        indices, own = sample(densities, weights, n_draws=n_draws, seed=seed)
        assert len(indices) == len(own) == n_draws
        assert (np.diff(indices) > 0).all()
        assert (own > 0).all()
        assert (densities[indices] > 0).all()


def test_few_rows_are_all_kept_with_their_own_weight():
    densities, weights = uneven(30)
    for n_draws in (np.count_nonzero(densities), 50):
        indices, own = sample(densities, weights, n_draws=int(n_draws))
        assert_array_equal(indices, np.flatnonzero(densities))
        assert_allclose(own, weights[indices], rtol=1e-6)


def test_sums_over_any_set_of_rows_are_unbiased():
    densities, weights = uneven()
    value = np.random.default_rng(1).standard_normal(400)
    estimates = []
    for seed in range(4000):
        indices, own = sample(densities, weights, n_draws=60, seed=seed)
        estimates.append([own @ value[indices], own[indices < 100].sum(), own.sum()])
    estimates = np.array(estimates)
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    truth = np.array([weights @ value, weights[:100].sum(), weights.sum()])
    assert (np.abs(estimates.mean(axis=0) - truth) <= 5 * error).all()
    # Half the rows must tell more about the total than one in seven.
    assert error[2] < 0.01


def test_dominating_rows_are_kept_with_their_own_weight():
    densities = np.full(1000, 1e-3)
    densities[[17, 400]] = 10.0
    weights = np.full(1000, 1e-3)
    for seed in range(100):
        indices, own = sample(densities, weights, n_draws=50, seed=seed)
        for row in (17, 400):
            assert own[indices == row] == pytest.approx(weights[row], rel=1e-6)


@pytest.mark.parametrize("chunk_rows", [1, 7, 64, 5000])
def test_neither_the_cut_nor_the_order_of_chunks_changes_the_sample(chunk_rows):
    rng = np.random.default_rng(0)
    densities, weights = rng.pareto(1.5, 5000), rng.random(5000)
    expected = sample(densities, weights, n_draws=300)
    order = np.random.default_rng(1)
    for one_order in (None, order):
        indices, own = sample(
            densities, weights, n_draws=300, chunk_rows=chunk_rows, order=one_order
        )
        assert_array_equal(indices, expected[0])
        assert_allclose(own, expected[1], rtol=1e-6)
