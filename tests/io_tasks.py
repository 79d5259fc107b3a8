"""Tasks and rows for the tests of sources; importable by the workers of a cluster."""

import time

import numpy as np

from skcara.data import SumTask


class Moments(SumTask):
    """Sums whose last bits show the order of the additions, and the row numbers."""

    def visit(self, chunk):
        rows = chunk.rows.toarray() if hasattr(chunk.rows, "toarray") else chunk.rows
        weights = np.ones(chunk.n_rows) if chunk.weights is None else chunk.weights
        numbers = np.arange(chunk.start, chunk.start + chunk.n_rows)
        weighted = rows * weights[:, None]
        return [
            np.exp(rows / 3).sum(axis=0),
            weighted.T @ rows,
            rows.T @ (weights * chunk.target),
            float(weights.sum()),
            numbers @ weights,
        ]


class SlowMoments(Moments):
    """The same, slowly enough for a worker to die meanwhile."""

    def visit(self, chunk):
        time.sleep(0.05)
        return super().visit(chunk)


class RowNumbers(SumTask):
    """Lists the numbers of the rows of all chunks."""

    def visit(self, chunk):
        return [[range(chunk.start, chunk.start + chunk.n_rows)]]


def make_rows(seed, n_rows=50_001, n_features=6):
    """Rows with large and small columns, a target and weights with zeros."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * np.logspace(-2, 2, n_features)
    y = X @ rng.standard_normal(n_features) + rng.standard_normal(n_rows)
    weights = rng.exponential(size=n_rows) * (rng.uniform(size=n_rows) > 0.1)
    return X, y, weights


#: Lengths of the partitions of a table, one of them without rows.
PART_LENGTHS = (4000, 9000, 1, 0, 8500, 3000, 5000, 700, 12_000, 20, 6000)


def load_part(number):
    """X, y and weights of a partition beside each other."""
    X, y, weights = make_rows(number, n_rows=PART_LENGTHS[number])
    return np.column_stack([X, y, weights])


def assert_same_bits(left, right):
    """Results of :class:`Moments` agree in every bit."""
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


def make_numbers(block_info=None):
    """Random numbers of a block."""
    shape, place = (
        block_info[None][name] for name in ("chunk-shape", "chunk-location")
    )
    return np.random.default_rng(place).standard_normal(shape)
