"""The order of additions depends on the number of parts and on nothing else."""

import numpy as np
import pytest

from skcara.io._tree import TreeSum


class Brackets:
    """Writes down how it was added up."""

    def merge(self, left, right):
        return f"({left}+{right})"


def total(n_parts, groups, empty=()):
    tree = TreeSum(n_parts, Brackets())
    for group in groups:
        branch = TreeSum(n_parts, Brackets())
        for part in group:
            branch.add(0, part, None if part in empty else str(part))
        for node in branch.nodes():
            tree.add(*node)
    return tree.total()


def test_the_tree_is_the_expected_one():
    assert total(5, [range(5)]) == "(((0+1)+(2+3))+4)"
    assert total(1, [[0]]) == "0"


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 8, 9, 100])
def test_whoever_adds_up(n_parts, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    expected = total(n_parts, [range(n_parts)])
    for n_groups in (1, 2, 3, 10):
        groups = np.array_split(rng.permutation(n_parts), n_groups)
        assert total(n_parts, groups) == expected


def test_neighbours_are_added_up_before_they_travel():
    branch = TreeSum(1024, Brackets())
    for part in range(256, 512):
        branch.add(0, part, "")
    assert len(list(branch.nodes())) == 1


def test_parts_without_rows_do_not_count():
    assert total(4, [[0, 1], [2, 3]], empty=[1, 2]) == "(0+3)"
    assert total(2, [[0, 1]], empty=[0, 1]) is None


def test_missing_parts_are_an_error():
    with pytest.raises(RuntimeError, match="missing"):
        total(4, [[0, 1, 3]])
