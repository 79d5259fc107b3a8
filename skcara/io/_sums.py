"""Sums over parts whose bits depend on nothing but the numbers of the parts.

Sums of numbers are exact, see :mod:`skcara.io._exact`, and added in any order. For all
other results the parts are the leaves of a binary tree: node ``(level, index)`` stands
for the parts ``index * 2**level`` to ``(index + 1) * 2**level - 1``, and the sum of a
node is that of its left child plus that of its right child. Whoever holds some of the
parts adds up what it can and passes the remaining nodes on.
"""

from typing import Any, NamedTuple

from skcara.data import PartialTask
from skcara.io._exact import ExactSums


def merged(task: PartialTask, left, right):
    """Sum of two results of a task; ``None`` stands for no rows."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, ExactSums):
        left += right
        return left
    return task.merge(left, right)


class Share(NamedTuple):
    """What somebody could add up of the parts that it holds; it travels.

    Attributes
    ----------
    nodes : dict
        Results by level and index in the tree.
    exact : ExactSums or None
        Sum of results that are in no node.
    n_exact : int
        Number of parts of this sum.
    """

    nodes: dict[tuple[int, int], Any]
    exact: ExactSums | None
    n_exact: int


class PartSum:
    """Results of some of the parts of a source, added up as far as possible.

    Parameters
    ----------
    n_parts : int
        Number of parts of the whole source.
    task : PartialTask
        Adds the results of two neighbouring nodes, left and right.
    """

    def __init__(self, n_parts: int, task: PartialTask):
        self._n_parts = n_parts
        self._task = task
        self._depth = max(n_parts - 1, 0).bit_length()
        self._nodes: dict[tuple[int, int], Any] = {}
        self._exact: ExactSums | None = None
        self._n_exact = 0

    def add(self, number: int, result):
        """Add the result of a part; ``None`` if it has no rows."""
        if isinstance(result, ExactSums):
            self._add_exact(result, 1)
        else:
            self._add_node(0, number, result)

    def absorb(self, share: Share):
        """Add what somebody else has added up."""
        self._add_exact(share.exact, share.n_exact)
        for (level, index), result in share.nodes.items():
            self._add_node(level, index, result)

    def _add_exact(self, result, n_parts):
        self._exact = merged(self._task, self._exact, result)
        self._n_exact += n_parts

    def _add_node(self, level, index, result):
        while level < self._depth:
            sibling = index ^ 1
            if sibling << level < self._n_parts:
                if (level, sibling) not in self._nodes:
                    break
                other = self._nodes.pop((level, sibling))
                pair = (other, result) if index & 1 else (result, other)
                result = merged(self._task, *pair)
            level, index = level + 1, index >> 1
        self._nodes[level, index] = result

    def share(self) -> Share:
        """Return what was added up so far."""
        return Share(self._nodes, self._exact, self._n_exact)

    def total(self):
        """Result of all parts.

        Raises
        ------
        RuntimeError
            If some parts were not added.
        """
        n_found = self._n_exact
        for level, index in self._nodes:
            n_found += min((index + 1) << level, self._n_parts) - (index << level)
        if n_found != self._n_parts:
            raise RuntimeError("The results of some parts are missing.")
        if self._exact is not None:  # nodes, if any, are parts without rows
            return self._exact
        return self._nodes[self._depth, 0]
