"""One read for any number of tasks, whatever the layout, the cut and the threads."""

import pickle

import numpy as np
import pytest
from data.layouts import LAYOUTS, dense, make_rows, unaligned
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skcara.data import ArraySource, SumTask


class ColumnSums(SumTask):
    """Weighted sums of functions of the columns, and of the target."""

    def __init__(self, function=np.sin):
        self._function = function

    def visit(self, chunk):
        rows = dense(chunk.rows)
        weights = np.ones(len(rows)) if chunk.weights is None else chunk.weights
        return [weights @ self._function(rows), weights @ chunk.target]


class Visits(SumTask):
    """Numbers of the first rows and of the rows of all chunks."""

    def visit(self, chunk):
        return [[chunk.start], [chunk.n_rows]]


def make_source(X, seed=0, *, weighted=False, n_jobs=None):
    rng = np.random.default_rng(seed)
    target, weights = rng.standard_normal(X.shape[0]), None
    if weighted:
        weights = rng.random(X.shape[0])
        weights[rng.random(X.shape[0]) < 0.2] = 0.0
    return ArraySource(X, target, weights, n_jobs=n_jobs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_cover_all_rows_once(layout, weighted, global_random_seed):
    X = LAYOUTS[layout](make_rows(np.random.default_rng(global_random_seed)))
    source = make_source(X, weighted=weighted)
    weights = np.ones(len(source.target)) if not weighted else source.weights
    [total] = source.run([ColumnSums(np.positive)])
    assert_allclose(total[0], weights @ dense(X), rtol=1e-10)
    assert_allclose(total[1], weights @ source.target, rtol=1e-10)


@pytest.mark.parametrize("layout", ["c", "csr"])
@pytest.mark.parametrize("n_rows", [1, 1000, 40_001, 300_000])
def test_all_chunks_but_the_last_have_as_many_rows(layout, n_rows):
    X = LAYOUTS[layout](np.zeros((n_rows, 2)))
    source = make_source(X)
    [(starts, sizes)] = source.run([Visits()])
    assert_array_equal(starts, np.arange(0, n_rows, source.facts.chunk_rows))
    assert sum(sizes) == n_rows
    assert set(sizes[:-1]) <= {source.facts.chunk_rows}
    assert source.facts.chunk_rows & (source.facts.chunk_rows - 1) == 0


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("layout", ["c", "csr"])
def test_sums_do_not_depend_on_the_number_of_threads(backend, layout):
    X = LAYOUTS[layout](make_rows(np.random.default_rng(0), n_rows=400_000))
    with parallel_config(backend=backend):
        one, two = (make_source(X, n_jobs=n).run([ColumnSums()])[0] for n in (1, 2))
    assert_array_equal(one[0], two[0])
    assert one[1] == two[1]


def test_several_tasks_are_each_alone():
    source = make_source(make_rows(np.random.default_rng(0)), weighted=True)
    tasks = [ColumnSums(np.sin), Visits(), ColumnSums(np.cos)]
    together = source.run(tasks)
    for task, result in zip(tasks, together, strict=True):
        [alone] = source.run([task])
        for one, two in zip(alone, result, strict=True):
            assert_array_equal(one, two)


def test_the_cut_into_chunks_changes_rounding_only():
    X = make_rows(np.random.default_rng(0))
    results = []
    for chunk_rows in (64, 1024, 2**16):
        source = make_source(X, weighted=True)
        source.chunk_rows = chunk_rows
        results.append(source.run([ColumnSums()])[0])
    for other in results[1:]:
        assert_allclose(other[0], results[0][0], rtol=1e-11)


def test_unaligned_rows_give_the_same_bits():
    X = make_rows(np.random.default_rng(0))
    aligned, odd = (make_source(rows) for rows in (X, unaligned(X)))
    for task in (ColumnSums(), ColumnSums(np.square)):
        assert_array_equal(aligned.run([task])[0][0], odd.run([task])[0][0])
    assert_array_equal(aligned.glance().rows, odd.glance().rows)
    assert odd.glance().rows.flags.aligned


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_taken_by_number_in_parts(layout):
    X = LAYOUTS[layout](make_rows(np.random.default_rng(0)))
    source = make_source(X, weighted=True)
    indices = np.sort(np.random.default_rng(1).choice(40_000, 3000, replace=False))
    parts = list(source.take(indices))
    assert [part.start for part in parts] == list(
        np.cumsum([0] + [part.n_rows for part in parts[:-1]])
    )
    rows = np.vstack([dense(part.rows) for part in parts])
    assert_array_equal(rows, dense(X)[indices])
    target = np.concatenate([part.target for part in parts])
    assert_array_equal(target, source.target[indices])
    weights = np.concatenate([part.weights for part in parts])
    assert_array_equal(weights, source.weights[indices])


def test_data_are_not_copied():
    X = make_rows(np.random.default_rng(0), n_rows=100)
    X.flags.writeable = False

    class Shares(SumTask):
        def visit(self, chunk):
            rows = chunk.rows
            entries = rows.data if sparse.issparse(rows) else rows
            return [[np.shares_memory(entries, memory)]]

    memory = X
    assert make_source(X).run([Shares()]) == [[[True]]]
    for container in (sparse.csr_array, sparse.csr_matrix):
        S = container(X)
        memory = S.data
        assert np.shares_memory(ArraySource(S, np.zeros(100)).X.data, S.data)
        assert make_source(S).run([Shares()]) == [[[True]]]


@pytest.mark.parametrize("layout", ["c", "float32", "csr"])
@pytest.mark.parametrize("fill", [1e15, 9.97e36, 1e300, np.inf, np.nan])
def test_rows_of_weight_zero_are_never_seen(layout, fill):
    """A code for missing values must not leave its trace in any sum."""
    X = LAYOUTS[layout](make_rows(np.random.default_rng(0), n_rows=5000))
    source = make_source(X, weighted=True)
    is_idle = source.weights == 0
    if np.isfinite(fill):
        fill = min(fill, float(np.finfo(X.dtype).max))
    spoilt = X.copy()
    if sparse.issparse(X):
        spoilt.data[np.repeat(is_idle, np.diff(X.indptr))] = fill
    else:
        spoilt[is_idle] = fill
    other = ArraySource(spoilt, source.target, source.weights)
    for one, two in zip(
        source.run([ColumnSums()])[0], other.run([ColumnSums()])[0], strict=True
    ):
        assert_allclose(two, one, rtol=1e-12)
    assert_allclose(dense(other.glance().rows), dense(source.glance().rows))
    for _ in range(5):
        indices, _ = other.draw(100, np.random.RandomState(0))
        assert not is_idle[indices].any()
    assert other.facts.total_weight == source.facts.total_weight
    assert_allclose(other.facts.reference_row, source.facts.reference_row)


@pytest.mark.parametrize("fill", [1e15, 9.97e36, 1e300, np.inf, np.nan])
def test_targets_of_weight_zero_do_not_enter_the_moments(fill):
    source = make_source(np.ones((5000, 2)), weighted=True)
    spoilt = np.where(source.weights == 0, fill, source.target)
    other = ArraySource(source.X, spoilt, source.weights)
    [one], [two] = source.facts.target_moments, other.facts.target_moments
    assert two.mean == pytest.approx(one.mean)
    assert two.variance == pytest.approx(one.variance)
    assert two.mean_square == pytest.approx(one.mean_square)
    [one], [two] = source.run([ColumnSums()]), other.run([ColumnSums()])
    assert two[1] == pytest.approx(one[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_facts_tell_how_far_rows_are_from_the_reference(weighted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4)) * [1e-8, 1.0, 1e8, 1.0] + [0.0, 1e6, 1e8, 0.0]
    X[:, 3] = 0.1
    weights = rng.random(3000) if weighted else None
    facts = ArraySource(X, X[:, 1], weights).facts
    mean = np.average(X, axis=0, weights=weights)
    square = np.average((X - mean) ** 2, axis=0, weights=weights)
    assert_allclose(facts.reference_square[:3], square[:3], rtol=1e-8)
    # Nothing is left of a constant column.
    assert facts.reference_row[3] == 0.1
    assert facts.reference_square[3] == 0.0
    rows = sparse.csr_array(X)
    facts = ArraySource(rows, X[:, 1], weights).facts
    square = np.average(X**2, axis=0, weights=weights)
    assert_allclose(facts.reference_square, square, rtol=1e-12)


def test_facts_are_the_moments_of_the_targets():
    rng = np.random.default_rng(0)
    targets, weights = rng.standard_normal((9000, 3)) + 1e6, rng.random(9000)
    weights[:7] = 0.0
    X = rng.standard_normal((9000, 2))
    facts = ArraySource(X, targets, weights).facts
    assert facts.total_weight == pytest.approx(weights.sum())
    # Near the means, so that sums around them do not cancel.
    assert np.abs(facts.reference_row - X.mean(axis=0)).max() < 0.1
    assert np.abs(facts.reference_target - targets.mean(axis=0)).max() < 0.1
    for moments, target in zip(facts.target_moments, targets.T, strict=True):
        mean = np.average(target, weights=weights)
        assert moments.mean == pytest.approx(mean, rel=1e-13)
        variance = np.average((target - mean) ** 2, weights=weights)
        assert moments.variance == pytest.approx(variance, rel=1e-9)
        square = np.average(target**2, weights=weights)
        assert moments.mean_square == pytest.approx(square, rel=1e-13)
    assert pickle.loads(pickle.dumps(facts)).n_rows == 9000


def test_all_weights_zero_are_refused():
    source = ArraySource(np.ones((5, 1)), np.ones(5), np.zeros(5))
    with pytest.raises(ValueError, match="weight zero"):
        _ = source.facts
