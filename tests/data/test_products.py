"""Predictions and Gram matrices are plain products, whatever layout and shape."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skcara.data import gram, predictions, weighted_sums

LAYOUTS = {
    "c": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "part of the columns": lambda rows: np.hstack([rows, rows])[:, : rows.shape[1]],
    "csr": sparse.csr_array,
}


# With 3000 rows, products of several outputs are made for groups of rows.
SHAPES = [(70, 1), (70, 20), (70, 31), (70, 32), (70, 33), (70, 200)]
SHAPES += [(3000, 100), (3000, 600), (0, 5)]


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3, 7])
@pytest.mark.parametrize(("n_rows", "n_columns"), SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_predictions_are_products(layout, n_rows, n_columns, n_outputs, is_cached):
    rng = np.random.default_rng(n_columns)
    rows = rng.standard_normal((n_rows, n_columns))
    coef = rng.standard_normal((n_columns, n_outputs))
    result = predictions(LAYOUTS[layout](rows), coef, is_cached=is_cached)
    expected = np.einsum("ij,jk->ik", rows, coef)
    assert result.shape == (n_rows, n_outputs)
    assert_allclose(result, expected, atol=1e-12 * n_columns)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_outputs", [1, 3, 7])
@pytest.mark.parametrize(("n_rows", "n_columns"), SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weighted_sums_are_products(layout, n_rows, n_columns, n_outputs, order):
    rng = np.random.default_rng(n_columns)
    rows = rng.standard_normal((n_rows, n_columns))
    weights = np.asarray(rng.standard_normal((n_rows, n_outputs)), order=order)
    result = weighted_sums(LAYOUTS[layout](rows), weights)
    expected = np.einsum("ij,ik->jk", rows, weights)
    assert result.shape == (n_columns, n_outputs)
    assert_allclose(result, expected, atol=1e-12 * (n_rows + 1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_columns", [1, 2, 3, 24, 25, 48, 97, 256, 257])
@pytest.mark.parametrize("n_rows", [1, 30, 300, 2500])
def test_gram_is_the_product_of_the_rows(n_rows, n_columns, layout):
    rows = np.random.default_rng(n_rows).standard_normal((n_rows, n_columns))
    found = gram(LAYOUTS[layout](rows))
    limit = n_rows * np.finfo(float).eps * (np.abs(rows).T @ np.abs(rows))
    assert (np.abs(found - np.einsum("ij,ik->jk", rows, rows)) <= limit).all()
    np.testing.assert_array_equal(found, found.T)
