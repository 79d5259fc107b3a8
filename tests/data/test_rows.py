"""Operations on rows are the same for dense and sparse ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skcara.data import (
    append_ones,
    centred_strips,
    in_order,
    row_range,
    rows_at,
    scaled_rows,
    squared,
    squared_sums,
    transposed,
    with_entries,
)


def make_rows(to_rows):
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((50, 6)) * (rng.uniform(size=(50, 6)) < 0.4)
    dense[7] = dense[-1] = 0.0
    return dense, to_rows(dense)


def to_dense(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


@pytest.mark.parametrize("bounds", [(0, 50), (5, 20), (49, 50), (7, 8), (3, 3)])
@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_array])
def test_row_range_is_a_view(to_rows, bounds):
    dense, rows = make_rows(to_rows)
    part = row_range(rows, *bounds)
    assert_array_equal(to_dense(part), dense[slice(*bounds)])
    sums = part.T @ np.ones(part.shape[0])
    assert_allclose(sums, to_dense(part).sum(axis=0), atol=1e-13)
    entries = [rows.data, part.data] if sparse.issparse(rows) else [rows, part]
    assert np.shares_memory(*entries) == (entries[1].size > 0)


@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_array])
def test_ones_stand_behind_the_columns(to_rows):
    dense, rows = make_rows(to_rows)
    extended = append_ones(rows)
    assert sparse.issparse(extended) == sparse.issparse(rows)
    assert_array_equal(to_dense(extended), np.hstack([dense, np.ones((50, 1))]))


def test_entries_are_replaced_without_a_copy_of_the_pattern():
    dense, rows = make_rows(sparse.csr_array)
    squares = with_entries(rows, rows.data**2)
    assert_array_equal(squares.toarray(), dense**2)
    assert np.shares_memory(squares.indices, rows.indices)


@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_array])
def test_transpose_is_a_view(to_rows):
    dense, rows = make_rows(to_rows)
    part = transposed(row_range(rows, 5, 20))
    assert_array_equal(to_dense(part), dense[5:20].T)
    assert_allclose(part @ np.ones((15, 2)), dense[5:20].T @ np.ones((15, 2)))
    entries = [rows.data, part.data] if sparse.issparse(rows) else [rows, part]
    assert np.shares_memory(*entries)


@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_array])
def test_entries_are_scaled_and_squared(to_rows):
    dense, rows = make_rows(to_rows)
    factors = np.linspace(-1.0, 2.0, 50)
    assert_array_equal(to_dense(scaled_rows(rows, factors)), dense * factors[:, None])
    assert_array_equal(to_dense(squared(rows)), dense**2)
    assert_array_equal(to_dense(rows), dense)


@pytest.mark.parametrize("n_rows", [0, 1, 50, 30_000])
@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_array])
def test_squares_are_summed_over_all_rows(to_rows, n_rows):
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((n_rows, 6)).astype(np.float32)
    weights = rng.uniform(size=(n_rows, 2))
    expected = (dense.astype(np.float64) ** 2).T @ weights
    assert_allclose(squared_sums(to_rows(dense), weights), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(50, 6), (3, 70_000), (40_000, 5), (1, 1), (0, 3)])
def test_strips_cover_all_rows_once(shape, dtype):
    rng = np.random.default_rng(0)
    rows = (100 * rng.standard_normal(shape)).astype(dtype)
    centre, seen = rng.standard_normal(shape[1]), np.full(shape, np.nan)
    for part, differences in centred_strips(rows, centre):
        assert np.isnan(seen[part]).all()
        seen[part] = differences
    assert_array_equal(seen, rows.astype(np.float64) - centre)


@pytest.mark.parametrize(
    "to_rows",
    [np.asarray, np.asfortranarray, lambda rows: rows[::-1], sparse.csr_array],
)
def test_rows_by_their_numbers(to_rows):
    dense, rows = make_rows(to_rows)
    numbers = np.array([3, 7, 0, 49, 7])
    expected = to_dense(to_rows(dense))[numbers]
    assert_array_equal(to_dense(rows_at(rows, numbers)), expected)


@pytest.mark.parametrize("n_columns", [1, 8, 19])
@pytest.mark.parametrize("to_rows", [np.array, sparse.csr_array])
def test_rows_in_another_order(to_rows, n_columns):
    rng = np.random.default_rng(0)
    dense, order = rng.standard_normal((50, n_columns)), rng.permutation(50)
    rows = to_rows(dense)
    found = in_order(rows, order)
    assert_array_equal(to_dense(found), dense[order])
    if not sparse.issparse(rows):
        assert found is rows
