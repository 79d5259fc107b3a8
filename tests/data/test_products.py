"""Predictions and Gram matrices are plain products, whatever layout and shape."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skcara.data import gram, predictions

LAYOUTS = {
    "c": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "part of the columns": lambda rows: np.hstack([rows, rows])[:, : rows.shape[1]],
    "csr": sparse.csr_array,
}


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_columns", [1, 20, 31, 32, 33, 200])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_predictions_are_products(layout, n_columns, n_outputs):
    rng = np.random.default_rng(n_columns)
    rows = rng.standard_normal((70, n_columns))
    coef = rng.standard_normal((n_columns, n_outputs))
    result = predictions(LAYOUTS[layout](rows), coef)
    expected = (rows[:, :, None] * coef).sum(axis=1)
    assert result.shape == (70, n_outputs)
    assert_allclose(result, expected, atol=1e-12 * n_columns)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_columns", [1, 2, 3, 24, 25, 48, 97, 256, 257])
@pytest.mark.parametrize("n_rows", [1, 30, 300, 2500])
def test_gram_is_the_product_of_the_rows(n_rows, n_columns, layout):
    rows = np.random.default_rng(n_rows).standard_normal((n_rows, n_columns))
    found = gram(LAYOUTS[layout](rows))
    limit = n_rows * np.finfo(float).eps * (np.abs(rows).T @ np.abs(rows))
    assert (np.abs(found - np.einsum("ij,ik->jk", rows, rows)) <= limit).all()
    np.testing.assert_array_equal(found, found.T)
