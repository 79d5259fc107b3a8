"""From the chunks of a user's data to the chunks that solvers see."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from skcara.data import Chunk, SumTask, Task, with_entries
from skcara.io._exact import ExactSums
from skcara.io._labels import LabelCodes


@dataclass(frozen=True, eq=False)
class Preparation:
    """Encodes targets, weighs classes and hides rows of weight zero.

    Attributes
    ----------
    codes : LabelCodes or None
        None if the targets are numbers.
    reference_row, reference_target : ndarray
        What stands in rows of weight zero: theirs may be a code for missing.
    features : ndarray of int or None
        The columns that are kept; None for all.
    shows_idle : bool
        Whether rows of weight zero are shown as they are.
    """

    codes: LabelCodes | None
    reference_row: np.ndarray
    reference_target: np.ndarray
    features: np.ndarray | None = None
    shows_idle: bool = False

    def restricted(self, features) -> "Preparation":
        """Return a preparation that also leaves out all other columns."""
        kept = features if self.features is None else self.features[features]
        return replace(self, features=kept, reference_row=self.reference_row[features])

    def weigh(self, target, weights):
        """Weights of rows, times the weights of their classes."""
        return weights if self.codes is None else self.codes.encode(target, weights)[1]

    def apply(self, chunk: Chunk) -> Chunk:
        """Return the chunk as solvers see it."""
        if self.codes is None:
            target, weights = chunk.target.astype(np.float64, copy=False), chunk.weights
        else:
            target, weights = self.codes.encode(chunk.target, chunk.weights)
        rows = chunk.rows if self.features is None else chunk.rows[:, self.features]
        chunk = chunk._replace(rows=rows, target=target, weights=weights)
        if weights is None or self.shows_idle or weights.all():
            return chunk
        return self._without_idle_rows(chunk)

    def _without_idle_rows(self, chunk):
        is_idle = chunk.weights == 0
        rows, target = chunk.rows, chunk.target.copy()
        if sparse.issparse(rows):
            entries = rows.data.copy()
            entries[np.repeat(is_idle, np.diff(rows.indptr))] = 0
            rows = with_entries(rows, entries)
        else:
            rows = rows.copy()
            rows[is_idle] = self.reference_row
        target[is_idle] = self.reference_target
        return chunk._replace(rows=rows, target=target)


@dataclass(frozen=True, eq=False)
class TaskGroup:
    """Several tasks that share one read, as one task.

    Attributes
    ----------
    tasks : tuple of Task
    preparation : Preparation or None
        Applied to every chunk before the tasks see it, once for all of them.
    """

    tasks: tuple[Task, ...]
    preparation: Preparation | None = None

    def visit(self, chunk: Chunk) -> list:
        """Partial results of all tasks."""
        if self.preparation is not None:
            chunk = self.preparation.apply(chunk)
        return [task.visit(chunk) for task in self.tasks]

    def merge(self, left: list, right: list) -> list:
        """Add the partial results task by task."""
        return [
            task.merge(total, term)
            for task, total, term in zip(self.tasks, left, right, strict=True)
        ]

    def sealed(self, total: list) -> list | ExactSums:
        """Total of a part; if all tasks are sums, one that can be added in any order.

        Lists that are joined are not.
        """
        are_sums = all(isinstance(task, SumTask) for task in self.tasks)
        if are_sums and all(ExactSums.can_hold(e) for term in total for e in term):
            return ExactSums(total)
        return total

    def finish(self, total: list | ExactSums) -> list:
        """Results of all tasks."""
        if isinstance(total, ExactSums):
            total = total.rounded()
        return [task.finish(term) for task, term in zip(self.tasks, total, strict=True)]
