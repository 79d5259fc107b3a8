"""A pass over the rows as a value: what is computed on a chunk and how it adds up.

A :class:`Task` says what to compute on a :class:`Chunk` of rows, how two partial
results add and what the total means. It holds no data and writes nowhere, so the same
task runs in a thread, in another process or next to a partition on another machine. Who
reads the chunks, and in which order their results are added, is the business of a
:class:`~skcara.data.Source`.
"""

from operator import iadd
from typing import Any, NamedTuple, Protocol

import numpy as np


class Chunk(NamedTuple):
    """Consecutive rows, and everything that belongs to them.

    Attributes
    ----------
    start : int
        Number of the first row in the source.
    rows : ndarray or CSR array of shape (n_rows, n_features)
        In the precision of the source.
    target : ndarray of shape (n_rows,) or (n_rows, n_targets)
    weights : ndarray of shape (n_rows,) or None
        Sample weights of any total; None means one for every row.
    atom : ndarray of int of shape (n_rows,) or None
        For cross-validation: rows with the same number are in the same folds.
    """

    start: int
    rows: Any
    target: np.ndarray
    weights: np.ndarray | None
    atom: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]


class PartialTask(Protocol):
    """What is computed on chunks, and how it adds up."""

    def visit(self, chunk: Chunk) -> Any:
        """Return the partial result of a chunk, in arrays of its own."""

    def merge(self, left: Any, right: Any) -> Any:
        """Add two partial results, ``left`` from the rows before.

        The total may take over the memory of both: whoever merges gives them away.
        """


class Task(PartialTask, Protocol):
    """What one pass computes; frozen and picklable."""

    def finish(self, total: Any) -> Any:
        """Return what the total means."""


class SumTask:
    """A task whose partial results are lists, added entry by entry.

    Numbers and arrays are added, lists are joined: what belongs to single rows or
    groups of rows is collected in lists.
    """

    @property
    def cost(self) -> float:
        """Share of the data that the task reads."""
        return 1.0

    def merge(self, left, right):
        """Add in place: matrices of many columns are not small."""
        return [iadd(total, term) for total, term in zip(left, right, strict=True)]

    def finish(self, total):
        """Return the sums."""
        return total
