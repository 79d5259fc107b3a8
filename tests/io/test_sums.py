"""The bits of a sum depend on the parts, not on who adds them up."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from skcara.io._exact import ExactSums
from skcara.io._sums import PartSum


class Brackets:
    """Writes down how it was added up."""

    def merge(self, left, right):
        return f"({left}+{right})"


def share_of(n_parts, results):
    own = PartSum(n_parts, Brackets())
    for number, result in results.items():
        own.add(number, result)
    return own.share()


def total(n_parts, shares):
    whole = PartSum(n_parts, Brackets())
    for results in shares:
        whole.absorb(share_of(n_parts, results))
    return whole.total()


def texts(numbers, empty=()):
    return {number: None if number in empty else str(number) for number in numbers}


# ---- a tree of parts ---------------------------------------------------------------


def test_the_tree_is_the_expected_one():
    assert total(5, [texts(range(5))]) == "(((0+1)+(2+3))+4)"
    assert total(1, [texts([0])]) == "0"


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 8, 9, 100])
def test_whoever_adds_up(n_parts, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    expected = total(n_parts, [texts(range(n_parts))])
    for n_groups in (1, 2, 3, 10):
        groups = np.array_split(rng.permutation(n_parts), n_groups)
        assert total(n_parts, map(texts, groups)) == expected


def test_neighbours_are_added_up_before_they_travel():
    share = share_of(1024, texts(range(256, 512)))
    assert len(share.nodes) == 1


def test_parts_without_rows_do_not_count():
    shares = [texts([0, 1], empty=[1]), texts([2, 3], empty=[2])]
    assert total(4, shares) == "(0+3)"
    assert total(2, [texts([0, 1], empty=[0, 1])]) is None


def test_missing_parts_are_an_error():
    with pytest.raises(RuntimeError, match="missing"):
        total(4, [texts([0, 1, 3])])
    with pytest.raises(RuntimeError, match="missing"):
        total(4, [exact_parts([0, 1, 3], np.ones(4))])
    with pytest.raises(RuntimeError, match="missing"):
        total(4, [exact_parts([0, 1], np.ones(4)), {3: None}])


# ---- exact sums --------------------------------------------------------------------


def exact_parts(numbers, values):
    return {number: ExactSums([[values[number]]]) for number in numbers}


def wide_numbers(rng, shape):
    """Numbers of very different sizes, which cancel."""
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-200, 200, shape)
    values[::2] = -values[1::2] * (1 + rng.integers(-2, 3, values[::2].shape) * 2**-52)
    return rng.permutation(values)


def test_exact_sums_are_rounded_once_in_any_order(global_random_seed):
    """Same bits as a sum of fractions."""
    rng = np.random.default_rng(global_random_seed)
    values = wide_numbers(rng, (60, 5))
    expected = [float(sum(map(Fraction, column))) for column in values.T.tolist()]
    for n_groups in (1, 2, 7):
        groups = np.array_split(rng.permutation(60), n_groups)
        found = total(60, (exact_parts(group, values) for group in groups))
        np.testing.assert_array_equal(found.rounded()[0][0], expected)


def test_what_travels_does_not_grow_with_the_parts():
    """Even if no two of the parts are neighbours."""
    values = np.random.default_rng(0).standard_normal((4000, 400))
    share = share_of(4000, exact_parts(range(0, 4000, 2), values))
    # The sums, their errors and shapes; a tree would have 2000 nodes.
    assert len(pickle.dumps(share)) < 3 * values[0].nbytes


def test_exact_sums_keep_shapes_and_types():
    results = [[1.5, np.float64(2), np.ones((2, 3)), np.arange(4)], [7, np.array([])]]
    sums = ExactSums(results)
    sums += ExactSums(results)
    for found, expected in zip(sums.rounded(), results, strict=True):
        for one, other in zip(found, expected, strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            assert np.ndim(one) == np.ndim(other)
            np.testing.assert_array_equal(one, 2 * np.asarray(other))


@pytest.mark.parametrize("entry", [[1.0], None, "text", True, 1j, np.array([True])])
def test_other_entries_are_not_added_exactly(entry):
    assert not ExactSums.can_hold(entry)


def test_sums_that_overflow_are_infinite():
    sums = ExactSums([[np.array([1e308, np.inf, np.nan, -np.inf])]])
    for _ in range(2):
        sums += ExactSums([[np.array([1e308, 1.0, 1.0, 3.0])]])
    ((found,),) = sums.rounded()
    np.testing.assert_array_equal(found, [np.inf, np.inf, np.nan, -np.inf])
