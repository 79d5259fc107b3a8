"""Rows from a function: same bits as in memory; whatever cannot be read twice fails."""

import numpy as np
import pytest
from io_tasks import Moments, RowNumbers, assert_same_bits, make_rows
from scipy import sparse

from skcara import CaLasso
from skcara.data import ArraySource
from skcara.io import from_chunks


def opener(X, y, weights=None, step=7000):
    def open_chunks():
        for a in range(0, len(y), step):
            parts = (X, y) if weights is None else (X, y, weights)
            yield tuple(part[a : a + step] for part in parts)

    return open_chunks


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("step", [999, 8192, 100_000])
def test_same_bits_as_in_memory(weighted, step, global_random_seed):
    X, y, weights = make_rows(global_random_seed, n_rows=200_001)
    weights = weights if weighted else None
    source = from_chunks(opener(X, y, weights, step)).for_regression()
    in_memory = ArraySource(X, y, weights)
    assert_same_bits(source.run([Moments()])[0], in_memory.run([Moments()])[0])
    assert source.facts.n_rows == 200_001
    assert source.facts.depth == in_memory.facts.depth
    assert source.facts.has_weights == weighted
    assert source.facts.total_weight == pytest.approx(in_memory.facts.total_weight)
    (found,), (expected,) = source.facts.target_moments, in_memory.facts.target_moments
    assert found.mean == pytest.approx(expected.mean, rel=1e-12, abs=1e-12)
    assert found.variance == pytest.approx(expected.variance, rel=1e-12)
    assert found.mean_square == pytest.approx(expected.mean_square, rel=1e-12)


def test_sparse_chunks():
    rng = np.random.default_rng(0)
    X = sparse.random_array((9000, 30), density=0.1, format="csr", random_state=rng)
    y = np.arange(9000.0)
    source = from_chunks(opener(X, y, step=1234)).for_regression()
    assert source.facts.is_sparse
    assert source.facts.n_entries == X.nnz
    expected = ArraySource(X, y).run([Moments()])[0]
    for one, other in zip(source.run([Moments()])[0], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_several_targets():
    X, y, _ = make_rows(0, n_rows=1000)
    source = from_chunks(opener(X, np.column_stack([y, -y]), step=300))
    facts = source.for_regression().facts
    assert len(facts.target_moments) == 2
    assert facts.reference_target.shape == (2,)
    assert facts.target_moments[0].mean == -facts.target_moments[1].mean


def test_rows_are_taken_by_number():
    X, y, weights = make_rows(0, n_rows=5000)
    weights += 0.1
    source = from_chunks(opener(X, y, weights, step=600)).for_regression()
    for indices in (np.array([0, 599, 600, 4999]), np.arange(3000)):
        chunks = list(source.take(indices))
        np.testing.assert_array_equal(
            np.concatenate([c.rows for c in chunks]), X[indices]
        )
        found = np.concatenate([chunk.target for chunk in chunks])
        np.testing.assert_array_equal(found, y[indices])
        found = np.concatenate([chunk.weights for chunk in chunks])
        np.testing.assert_array_equal(found, weights[indices])


def test_rows_that_are_drawn_cost_no_read(global_random_seed):
    X, y, weights = make_rows(global_random_seed, n_rows=30_000)
    n_opened = 0

    def open_chunks():
        nonlocal n_opened
        n_opened += 1
        yield X, y, weights

    source = from_chunks(open_chunks).for_regression()
    before = n_opened
    indices, shares = source.draw(400, np.random.RandomState(global_random_seed))
    taken = np.concatenate([chunk.target for chunk in source.take(indices)])
    assert n_opened == before
    assert 350 <= len(indices) <= 400
    assert (np.diff(indices) > 0).all()
    np.testing.assert_array_equal(taken, y[indices])
    assert shares.sum() == pytest.approx(1)
    mean, spread = weights @ y / weights.sum(), y.std() / np.sqrt(200)
    assert abs(shares @ taken - mean) < 5 * spread


def test_row_numbers_are_consecutive():
    X, y, _ = make_rows(0, n_rows=20_000)
    source = from_chunks(opener(X, y, step=333)).for_regression()
    ((ranges,),) = source.run([RowNumbers()])
    assert [part.start for part in ranges] == [0, *(part.stop for part in ranges[:-1])]
    assert ranges[-1].stop == 20_000


def test_a_glance_shows_the_columns(global_random_seed):
    X, y, weights = make_rows(global_random_seed, n_rows=30_000)
    source = from_chunks(opener(X, y, weights)).for_regression()
    seen = source.glance()
    rows, shares = seen.rows, seen.weights
    assert 2000 < len(rows) <= 4096
    mean, spread = weights @ X / weights.sum(), X.std(axis=0)
    assert (np.abs(shares @ rows / shares.sum() - mean) < 0.2 * spread).all()
    assert (np.abs(source.facts.reference_row - mean) < 0.2 * spread).all()


def test_some_of_the_columns():
    X, y, weights = make_rows(0, n_rows=5000)
    source = from_chunks(opener(X, y, weights)).for_regression()
    few = source.columns(np.array([4, 1, 2])).columns(np.array([0, 2]))
    expected = ArraySource(np.ascontiguousarray(X[:, [4, 2]]), y, weights)
    found = few.run([Moments()])[0]
    for one, other in zip(found, expected.run([Moments()])[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert few.facts.n_features == 2
    assert few.facts.n_entries == 10_000
    assert few.glance().rows.shape[1] == 2


@pytest.mark.parametrize("class_weight", [None, "balanced", {"no": 2.0, "yes": 0.5}])
def test_labels_of_any_type(class_weight):
    X, y, weights = make_rows(0, n_rows=3000)
    labels = np.where(y > 1, "yes", "no").astype(object)
    source = from_chunks(opener(X, labels, weights, step=500))
    classes, source = source.for_classification(class_weight)
    assert classes.tolist() == ["no", "yes"]
    codes = (labels == "yes").astype(np.int8)
    factors = {None: [1, 1], "balanced": None}.get(
        class_weight if not isinstance(class_weight, dict) else 0, [2.0, 0.5]
    )
    if factors is None:
        masses = np.bincount(codes, weights)
        factors = weights.sum() / (2 * masses)
    expected = ArraySource(X, codes, np.take(factors, codes) * weights)
    found = source.run([Moments()])[0]
    for one, other in zip(found, expected.run([Moments()])[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    total = expected.facts.total_weight
    assert source.facts.total_weight == pytest.approx(total)
    assert source.facts.has_weights


# ---- bad input -------------------------------------------------------------------


def test_an_iterator_is_refused_at_once():
    X, y, _ = make_rows(0, n_rows=10)
    with pytest.raises(TypeError, match="must be a function that returns a fresh iter"):
        from_chunks(iter([(X, y)]))
    once = iter([(X, y)])
    with pytest.raises(TypeError, match="returned the same iterator twice"):
        from_chunks(lambda: once)


def test_an_exhausted_iterator_behind_a_function_is_noticed():
    X, y, _ = make_rows(0, n_rows=1000)
    once = iter([(X, y)] * 3)
    source = from_chunks(lambda: (chunk for chunk in once))
    with pytest.raises(ValueError, match=r"(no rows|yielded \d chunks in the first)"):
        source.for_regression().run([Moments()])


def test_an_iterator_that_ends_with_the_first_look_is_noticed():
    chunks = iter([(np.ones((10, 2)), np.arange(10.0))])

    def open_chunks():
        yield from chunks

    with pytest.raises(ValueError, match=r"1 chunks in the first .* read only once"):
        CaLasso().fit(from_chunks(open_chunks))


def test_chunks_that_change_between_reads():
    X, y, _ = make_rows(0, n_rows=1000)
    reads = []

    def open_chunks():
        reads.append(1)
        length = 300 if len(reads) < 3 else 299
        yield X[:500], y[:500]
        yield X[500 : 500 + length], y[500 : 500 + length]

    source = from_chunks(open_chunks).for_regression()
    with pytest.raises(ValueError, match="Chunk 1: 300 rows in the first read, 299 in"):
        source.run([Moments()])


def test_chunks_that_are_missing_in_a_later_read():
    X, y, _ = make_rows(0, n_rows=1000)
    reads = []

    def open_chunks():
        reads.append(1)
        yield from [(X, y)] * (3 if len(reads) < 3 else 2)

    source = from_chunks(open_chunks).for_regression()
    with pytest.raises(ValueError, match="3 chunks in the first read and 2 in this"):
        source.run([Moments()])


def test_chunks_that_disagree():
    X, y, _ = make_rows(0, n_rows=10)
    source = from_chunks(lambda: [(X, y), (X[:, :2], y)])
    with pytest.raises(ValueError, match="Chunk 1: All blocks must agree in their col"):
        source.for_regression()
    source = from_chunks(lambda: [(X, y), (X.astype(np.float32), y)])
    with pytest.raises(ValueError, match="Chunk 1: All blocks must agree in their dty"):
        source.for_regression()
    source = from_chunks(lambda: [(X, y), X])
    with pytest.raises(TypeError, match=r"Chunk 1: .*tuples \(X, y\)"):
        source.for_regression()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_values_are_found_with_row_and_column(bad):
    X, y, _ = make_rows(0, n_rows=3000)
    X[2000, 3] = bad
    source = from_chunks(opener(X, y, step=400))
    with pytest.raises(ValueError, match="NaN or infinity in column 3, row 2000"):
        source.for_regression()
    y[17] = bad
    with pytest.raises(ValueError, match="NaN or infinity in the target, row 17"):
        source.for_regression()


def test_bad_values_in_sparse_rows():
    X = sparse.csr_array(np.diag([1.0, 2.0, np.nan]))
    source = from_chunks(lambda: [(X, np.zeros(3))])
    with pytest.raises(ValueError, match="NaN or infinity in column 2, row 2"):
        source.for_regression()


def test_what_stands_in_rows_of_weight_zero_does_not_matter():
    X, y, weights = make_rows(0, n_rows=3000)
    clean = from_chunks(opener(X.copy(), y.copy(), weights)).for_regression()
    X[weights == 0], y[weights == 0] = np.nan, np.inf
    source = from_chunks(opener(X, y, weights)).for_regression()
    assert_same_bits(source.run([Moments()])[0], clean.run([Moments()])[0])
    assert source.facts.target_moments == clean.facts.target_moments


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], "non-negative, got -1.0 in row 1"),
        ([1.0, 1.0, np.nan], "non-negative, got nan in row 2"),
        ([0.0, 0.0, 0.0], "at least one non-zero"),
    ],
)
def test_bad_weights(weights, message):
    source = from_chunks(lambda: [(np.ones((3, 1)), np.ones(3), np.array(weights))])
    with pytest.raises(ValueError, match=message):
        source.for_regression()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1.0, 2.0], "continuous"),
        ([1, 1, 1], "only one: 1"),
        (np.array(["a", None, "b"], dtype=object), "labels are missing"),
        (np.array(["a", 1, "b"], dtype=object), "one type that can be sorted"),
    ],
)
def test_bad_labels(labels, message):
    source = from_chunks(lambda: [(np.ones((3, 1)), np.array(labels))])
    with pytest.raises((TypeError, ValueError), match=message):
        source.for_classification()


def test_labels_are_no_target_of_a_regression():
    source = from_chunks(lambda: [(np.ones((2, 1)), np.array(["a", "b"]))])
    with pytest.raises(TypeError, match="target of a regression must be numbers"):
        source.for_regression()


def test_no_rows():
    with pytest.raises(ValueError, match="there are no rows"):
        from_chunks(lambda: []).for_regression()
