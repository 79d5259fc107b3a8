"""Sums over groups of rows, whatever the layout of the rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skcara.data import group_sums


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("group_rows", [1, 7, 10, 64, 103, 200])
def test_group_sums_are_products_of_slices(group_rows, layout):
    rng = np.random.default_rng(0)
    rows = layout(np.where(rng.random((103, 4)) < 0.5, 1.0, 0.0) * 3 + 1)
    rows[rows == 1] = 0.0
    factors = rng.standard_normal((103, 2))
    expected = [
        rows[start : start + group_rows].T @ factors[start : start + group_rows]
        for start in range(0, 103, group_rows)
    ]
    assert_allclose(group_sums(rows, factors, group_rows), expected, atol=1e-12)
    compressed = sparse.csr_array(rows)
    assert_allclose(group_sums(compressed, factors, group_rows), expected, atol=1e-12)
