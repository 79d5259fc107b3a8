"""Gram matrices from pairs of entries are those of the rows written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skcara.data import SparsePairs
from skcara.data import _sparse_pairs as module


def encoded(n_rows, n_columns, length, seed=0):
    """Rows with the same number of ones, in any order, maybe in the same column."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_columns, n_rows * length, dtype=np.int32)
    ends = np.arange(0, columns.size + 1, length, dtype=np.int32)
    data = np.ones(columns.size)
    return sparse.csr_array((data, columns, ends), shape=(n_rows, n_columns))


def scaled(rows):
    """Every column times a number."""
    factors = np.linspace(-2.0, 3.0, rows.shape[1])
    data = rows.data * factors[rows.indices]
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


RANDOM = sparse.random_array((300, 20), density=0.1, random_state=0, format="csr")
KINDS = {
    "encoded": encoded(300, 20, 3),
    "scaled": scaled(encoded(300, 20, 3)),
    "lengths": RANDOM,
    "single entries": encoded(300, 20, 1),
    "empty": sparse.csr_array((300, 20)),
}


@pytest.mark.parametrize("block_pairs", [1, 50, 2**18])
@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_has_its_gram_matrix(kind, block_pairs, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_PAIRS", block_pairs)
    rows, weights = KINDS[kind], np.random.default_rng(0).random((300, 4))
    grams = SparsePairs(rows).grams(weights)
    dense = rows.toarray()
    for found, own in zip(grams, weights.T, strict=True):
        assert_allclose(found, dense.T @ (own[:, None] * dense), atol=1e-12)


def test_pairs_are_for_thin_rows_that_outnumber_the_matrix(monkeypatch):
    assert SparsePairs.fit(encoded(3000, 40, 4))
    assert not SparsePairs.fit(encoded(3000, 40, 20)), "dense products are faster"
    assert not SparsePairs.fit(encoded(30, 40, 4)), "the matrix has more entries"
    monkeypatch.setattr(module, "_MAX_PAIRS", 10_000)
    assert not SparsePairs.fit(encoded(3000, 40, 4)), "too much memory"
