"""What is accepted, what is refused, and what is never done to the caller's data."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from skcara.recombination import merge, recombine, recombine_groups

POINTS = np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_rows", [40, 30_000])
@pytest.mark.parametrize("weight", [None, 1.0, 0.0])
def test_points_must_be_finite(bad, n_rows, weight):
    points = np.ones((n_rows, 3))
    points[n_rows // 2, 1] = bad
    weights = None
    if weight is not None:
        weights = np.ones(n_rows)
        weights[n_rows // 2] = weight
    with pytest.raises(ValueError, match=r"^points .*finite"):
        recombine(points, weights)


@pytest.mark.parametrize(
    ("points", "error"),
    [
        (np.ones(3), ValueError),
        (np.ones((2, 2, 2)), ValueError),
        (np.empty((0, 3)), ValueError),
        (np.ones((3, 2), dtype=complex), TypeError),
        (np.ones((3, 2), dtype=object), TypeError),
        ([["a", "b"]], TypeError),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError),
        (sparse.csr_array(np.eye(3)), TypeError),
        (sparse.csr_matrix(np.eye(3)), TypeError),
        ([[1.0], [1.0, 2.0]], ValueError),
        (None, TypeError),
    ],
)
def test_points_must_be_a_real_matrix(points, error):
    with pytest.raises(error, match=r"^points"):
        recombine(points)


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        (np.full(40, np.nan), ValueError),
        (np.r_[np.inf, np.ones(39)], ValueError),
        (np.r_[-1e-9, np.ones(39)], ValueError),
        (np.zeros(40), ValueError),
        (np.ones(39), ValueError),
        (np.ones((40, 1)), ValueError),
        (np.ones(40, dtype=complex), TypeError),
        (np.ones(40, dtype=object), TypeError),
        (1.0, ValueError),
    ],
)
def test_weights_must_be_masses(weights, error):
    with pytest.raises(error, match=r"^weights"):
        recombine(POINTS, weights)


def test_weights_must_have_a_finite_total():
    with pytest.raises(ValueError, match=r"^weights"):
        recombine(POINTS, np.full(40, 1e308))


@pytest.mark.parametrize("method", ["simplex", None, 3, ["auto"]])
def test_unknown_method_names_the_known_ones(method):
    with pytest.raises(ValueError, match=r"^method .*'auto'.*'litterer-lyons'"):
        recombine(POINTS, method=method)


@pytest.mark.parametrize("target_size", [0, -3, 2.5, "10", True])
def test_target_size_must_be_a_positive_integer(target_size):
    with pytest.raises((ValueError, TypeError), match=r"^target_size"):
        recombine(POINTS, target_size=target_size)


@pytest.mark.parametrize("random_state", ["0", 1.5, -1, True])
def test_random_state_must_be_a_seed(random_state):
    with pytest.raises((ValueError, TypeError), match=r"^random_state"):
        recombine(POINTS, random_state=random_state)


@pytest.mark.parametrize(
    "convert",
    [
        lambda points: points.tolist(),
        np.asfortranarray,
        lambda points: points.astype(np.float32),
        lambda points: np.round(10 * points).astype(np.int16),
        lambda points: points > 0,
        lambda points: points[::-1, ::-1],
        lambda points: np.repeat(points, 2, axis=1)[:, ::2],
        lambda points: points.astype(">f8"),
        lambda points: points.astype(np.longdouble),
    ],
)
def test_any_real_array_is_accepted(convert):
    points = convert(POINTS)
    indices, weights = recombine(points)
    values = np.asarray(points, dtype=float)
    np.testing.assert_allclose(weights @ values[indices], values.mean(0), atol=1e-14)


def test_read_only_arrays_work():
    points, weights = POINTS.copy(), np.ones(40)
    points.flags.writeable = weights.flags.writeable = False
    result = recombine(points, weights)
    assert result.weights.flags.writeable


LARGE_SHAPE = (400_000, 8)


@pytest.mark.parametrize("kind", ["float64", "float32", "fortran", "memmap"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target_size", [None, 1000])
def test_large_arrays_are_not_copied(kind, weighted, target_size, tmp_path):
    """Beyond the input, a few per cent of its size."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal(LARGE_SHAPE, dtype=np.float32)
    if kind == "float64":
        points = points.astype(np.float64)
    elif kind == "fortran":
        points = np.asfortranarray(points, dtype=np.float64)
    elif kind == "memmap":
        path = tmp_path / "points.npy"
        np.save(path, points)
        points = np.load(path, mmap_mode="r")
    weights = rng.random(len(points)) if weighted else None
    tracemalloc.start()
    try:
        indices, masses = recombine(
            points, weights, target_size=target_size, random_state=0
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 0.08 * 8 * points.size
    mean = np.average(points.astype(np.float64), axis=0, weights=weights)
    reduced = masses @ points[indices].astype(np.float64) / masses.sum()
    np.testing.assert_allclose(reduced, mean, atol=1e-12)


class TestMerge:
    def test_results_and_pairs_may_be_mixed_and_overlap(self):
        weights = np.random.default_rng(1).random(40)
        first = recombine(POINTS, weights)
        merged = merge(POINTS, [first, (np.arange(40), weights), ([3, 3], [1, 2])])
        assert len(merged.indices) <= 4
        assert merged.weights.sum() == pytest.approx(2 * weights.sum() + 3)
        expected = 2 * weights @ POINTS + 3 * POINTS[3]
        np.testing.assert_allclose(merged.weights @ POINTS[merged.indices], expected)

    def test_indices_are_rows_of_the_points(self):
        merged = merge(POINTS, [([30, 35, 31], [1.0, 1.0, 2.0])])
        assert set(merged.indices) <= {30, 31, 35}

    def test_only_the_rows_of_the_measures_are_read(self):
        points = POINTS.copy()
        points[20:] = np.nan
        assert len(merge(points, [(np.arange(20), np.ones(20))]).indices) == 4

    def test_empty_parts_add_nothing(self):
        merged = merge(POINTS, [([], []), ([1], [2.0])])
        assert merged.indices.tolist() == [1]
        assert merged.weights.tolist() == [2.0]

    @pytest.mark.parametrize(
        "measures",
        [
            [],
            [([40], [1.0])],
            [([-1], [1.0])],
            [([0.5], [1.0])],
            [([0, 1], [1.0])],
            [([0], [-1.0])],
            [([0], [np.nan])],
            [([0], [0.0])],
            [([], [])],
            [3],
            [None],
            [([0], [1.0], [2.0])],
            ([0], [1.0]),
            ([0, 1], [1.0, 1.0]),
            "ab",
        ],
    )
    def test_bad_measures_are_refused(self, measures):
        with pytest.raises((ValueError, TypeError), match=r"^measures"):
            merge(POINTS, measures)

    @pytest.mark.parametrize("measures", [None, 3, 2.5, recombine(POINTS)])
    def test_measures_must_be_a_sequence(self, measures):
        expected = r"^measures must be a sequence .* pairs \(indices, weights\); got "
        with pytest.raises(TypeError, match=expected + type(measures).__name__):
            merge(POINTS, measures)

    def test_an_iterator_of_measures_is_fine(self):
        parts = [recombine(POINTS[:20]), ([30, 35], [1.0, 2.0])]
        assert merge(POINTS, iter(parts)).weights.sum() == pytest.approx(4.0)


def make_groups(seed=0, n_groups=60, n_columns=3):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, n_groups)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    points = rng.normal(size=(offsets[-1], n_columns))
    row_weights = rng.random(offsets[-1])
    row_weights[rng.random(offsets[-1]) < 0.2] = 0.0
    of_group = np.repeat(np.arange(n_groups), lengths)
    masses = np.bincount(of_group, row_weights, n_groups)
    sums = np.zeros((n_groups, n_columns))
    np.add.at(sums, of_group, row_weights[:, None] * points)
    return points, row_weights, sums, masses, offsets, of_group


class TestRecombineGroups:
    @pytest.mark.parametrize("target_size", [None, 10, 30])
    @pytest.mark.parametrize("method", ["auto", "tree", "combined"])
    def test_rows_of_surviving_groups_match_all_rows(self, method, target_size):
        points, row_weights, sums, masses, offsets, of_group = make_groups()
        result = recombine_groups(
            sums,
            masses,
            offsets,
            row_weights,
            method=method,
            target_size=target_size,
            random_state=0,
        )
        rows, weights = result
        assert (np.diff(rows) > 0).all()
        assert (weights > 0).all()
        assert weights.sum() == pytest.approx(row_weights.sum(), rel=1e-13)
        np.testing.assert_allclose(
            weights @ points[rows], row_weights @ points, atol=1e-13
        )
        survivors = np.unique(of_group[rows])
        assert len(survivors) <= (target_size or 4)
        for group in survivors:  # all rows with mass, in proportion
            members = np.flatnonzero((of_group == group) & (row_weights > 0))
            assert set(members) <= set(rows)
            ratios = weights[np.isin(rows, members)] / row_weights[members]
            np.testing.assert_allclose(ratios, ratios[0])

    def test_without_row_weights_the_mass_is_spread_evenly(self):
        points = np.random.default_rng(1).normal(size=(60, 2))
        sums = points.reshape(20, 3, 2).sum(axis=1)
        offsets = np.arange(21) * 3
        rows, weights = recombine_groups(sums, np.full(20, 3.0), offsets)
        assert len(rows) <= 9
        np.testing.assert_allclose(weights @ points[rows], points.sum(0), atol=1e-13)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sums", np.full((60, 3), np.nan)),
            ("sums", np.ones(60)),
            ("masses", np.ones(59)),
            ("masses", -np.ones(60)),
            ("masses", np.zeros(60)),
            ("masses", np.ones(60)),  # some groups have no rows
            ("offsets", np.arange(60)),
            ("offsets", np.linspace(0, 1, 61)),
            ("offsets", np.arange(61)[::-1]),
            ("offsets", np.arange(61) - 1),
            ("row_weights", np.ones(3)),
        ],
    )
    def test_bad_arguments_are_named(self, name, value):
        _, row_weights, sums, masses, offsets, _ = make_groups()
        arguments = {
            "sums": sums,
            "masses": masses,
            "offsets": offsets,
            "row_weights": row_weights,
        }
        with pytest.raises((ValueError, TypeError), match=f"^{name}"):
            recombine_groups(**(arguments | {name: value}))
