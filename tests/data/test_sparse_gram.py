"""The Gram matrix of sparse rows is that of the same rows written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skcara.data import SparseGram, gram
from skcara.data import _sparse_gram as module


def encoded(n_rows, n_columns, length, seed=0, values="ones"):
    """Rows with the same number of entries, in any order, maybe in the same column."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_columns, n_rows * length, dtype=np.int32)
    data = np.ones(columns.size)
    if values == "any":
        data = rng.standard_normal(columns.size)
    ends = np.arange(0, columns.size + 1, length) if length else np.zeros(n_rows + 1)
    ends = ends.astype(np.int32)
    return sparse.csr_array((data, columns, ends), shape=(n_rows, n_columns))


@pytest.fixture
def few_pairs(monkeypatch):
    monkeypatch.setattr(module, "_MIN_PAIRS", 100)
    monkeypatch.setattr(module, "_MAX_PAIRS", 1000)


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("values", ["ones", "any"])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 30])
@pytest.mark.parametrize("n_columns", [4, 40, 200])
def test_sums_of_parts_are_the_products_of_all_rows(n_columns, length, values):
    rows = encoded(500, n_columns, length, values=values)
    dense = rows.toarray()
    assert_allclose(gram(rows), dense.T @ dense, atol=1e-11)
    total = SparseGram(rows[:90])
    for start, stop in ((90, 91), (91, 400), (400, 500)):
        total += SparseGram(rows[start:stop])
    assert_allclose(total.toarray(), dense.T @ dense, atol=1e-11)


@pytest.mark.usefixtures("few_pairs")
def test_parts_of_every_kind_are_added():
    parts = [
        encoded(50, 60, 4),
        encoded(70, 60, 3, values="any"),
        sparse.csr_array((5, 60)),
        sparse.random_array((80, 60), density=0.03, random_state=0, format="csr"),
        sparse.random_array((40, 60), density=0.5, random_state=1, format="csr"),
    ]
    expected = sum(part.toarray().T @ part.toarray() for part in parts)
    for order in (parts, parts[::-1]):
        total = SparseGram(order[0])
        for part in order[1:]:
            total += SparseGram(part)
        assert_allclose(total.toarray(), expected, atol=1e-12)
        assert total.depth >= max(part.shape[0] for part in parts)


def test_no_rows_and_no_columns():
    assert_array_equal(gram(sparse.csr_array((0, 3))), np.zeros((3, 3)))
    assert gram(sparse.csr_array((3, 0))).shape == (0, 0)


def test_counts_are_exact():
    rows = encoded(20_000, 300, 10)
    dense = rows.toarray()
    assert_array_equal(gram(rows), dense.T @ dense)


@pytest.mark.usefixtures("few_pairs")
def test_errors_are_within_what_the_depth_promises():
    parts = [encoded(400, 30, 4, seed, values="any") for seed in range(20)]
    total = SparseGram(parts[0])
    for part in parts[1:]:
        total += SparseGram(part)
    dense = np.vstack([part.toarray() for part in parts]).astype(np.longdouble)
    matrix, exact = total.toarray(), dense.T @ dense
    sizes = np.abs(dense).T @ np.abs(dense)
    # One more rounding: that of the product.
    bound = (total.depth + 1) * np.finfo(np.float64).eps / 2 * sizes
    assert (np.abs(matrix - exact) <= bound).all()
    assert total.depth < 20 * 400
