"""Sums over parts in an order that depends on nothing but their numbers.

The parts are the leaves of a binary tree: node ``(level, index)`` stands for the parts
``index * 2**level`` to ``(index + 1) * 2**level - 1``, and the sum of a node is that of
its left child plus that of its right child. Whoever holds some of the parts adds up
what it can and passes the remaining nodes on. Rounding is the same whoever that was.
"""

from collections.abc import Iterator
from typing import Any

from skcara.data import PartialTask


def merged(task: PartialTask, left, right):
    """Sum of two results of a task; ``None`` stands for no rows."""
    if left is None or right is None:
        return right if left is None else left
    return task.merge(left, right)


class TreeSum:
    """Partial results of some of the parts of a source.

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

    def add(self, level: int, index: int, result):
        """Add the result of a node; ``None`` if its parts have no rows."""
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

    def nodes(self) -> Iterator[tuple[int, int, Any]]:
        """Yield what could not be added up, as arguments of :meth:`add`."""
        for (level, index), result in self._nodes.items():
            yield level, index, result

    def total(self):
        """Result of all parts.

        Raises
        ------
        RuntimeError
            If some parts were not added.
        """
        if set(self._nodes) != {(self._depth, 0)}:
            raise RuntimeError("The results of some parts are missing.")
        return self._nodes[self._depth, 0]
