"""Predictions of held-out rows, each of them or counted by class."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skcara.data import Coordinates, FoldSets, SumTask, predictions


@dataclass(frozen=True, eq=False)
class _HeldOutTask(SumTask):
    """What predicts the test rows of each fold, by a few columns of the fold.

    Attributes
    ----------
    coordinates : Coordinates
    sets : FoldSets
    params : ndarray of shape (n_folds, n_columns, n_params, n_outputs)
    """

    coordinates: Coordinates
    sets: FoldSets
    params: np.ndarray

    @cached_property
    def _effective(self):
        """Coefficients (n_features, n_columns * n_outputs) and intercepts by fold."""
        n_folds, _, n_params, _ = self.params.shape
        stacked = self.params.transpose(0, 2, 1, 3).reshape(n_folds, n_params, -1)
        return [self.coordinates.effective_params(one) for one in stacked]

    def _predictions(self, chunk) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Fold, numbers of the held-out rows in the chunk, and their predictions.

        Rows are repeated as in the test set. Predictions have the shape
        (n_held_out, n_columns, n_outputs).
        """
        rows, shape = self.coordinates.rows(chunk.rows), self.params.shape
        _, test = self.sets.counts(chunk.atom)
        for fold, ((coef, intercept), counts) in enumerate(
            zip(self._effective, test, strict=True)
        ):
            held_out = np.flatnonzero(counts)
            if held_out.size:
                own = rows if held_out.size == chunk.n_rows else rows[held_out]
                scores = predictions(own, coef) + intercept
                scores = np.repeat(scores, counts[held_out], axis=0)
                held_out = np.repeat(held_out, counts[held_out])
                yield fold, held_out, scores.reshape(-1, shape[1], shape[3])


@dataclass(frozen=True, eq=False)
class HeldOutScores(_HeldOutTask):
    """Predictions of the test rows of each fold, by a few columns of the fold.

    The answer is a list with one array of shape (n_test_rows, n_columns, n_outputs) for
    each fold, rows in their order in the source; a row that is several times in a test
    set is repeated.
    """

    def visit(self, chunk):
        """Predictions of the rows of a chunk, a list for each fold."""
        answers: list[list] = [[] for _ in self._effective]
        for fold, _, scores in self._predictions(chunk):
            answers[fold].append(scores)
        return answers

    def finish(self, total):
        """Join the parts of each fold."""
        return [np.concatenate(parts) for parts in total]


@dataclass(frozen=True, eq=False)
class HeldOutConfusions(_HeldOutTask):
    """Weights of the test rows by their class and by the class that is predicted.

    The answer has the shape (n_folds, n_columns, n_classes, n_classes).

    Attributes
    ----------
    n_classes : int
    factors : ndarray of shape (n_classes,) or None
        By which the weight of a row is multiplied, for each class.
    is_weighted : bool
        Whether rows count by their weight, or each once.
    """

    n_classes: int = 2
    factors: np.ndarray | None = None
    is_weighted: bool = True

    def visit(self, chunk):
        """Weights of the rows of a chunk."""
        n_folds, n_columns = self.params.shape[:2]
        n_classes = self.n_classes
        sums = np.zeros((n_folds, n_columns, n_classes, n_classes))
        weights = chunk.weights if self.is_weighted else None
        if weights is not None and self.factors is not None:
            weights = weights * self.factors.take(chunk.target)
        for fold, held_out, scores in self._predictions(chunk):
            found = scores.argmax(axis=2)
            if scores.shape[2] == 1:
                found = (scores[:, :, 0] > 0).astype(np.intp)
            own = None if weights is None else weights[held_out]
            numbers = n_classes * chunk.target[held_out].astype(np.intp)
            for column in range(n_columns):
                counts = np.bincount(numbers + found[:, column], own, n_classes**2)
                sums[fold, column] += counts.reshape(n_classes, n_classes)
        return [sums]

    def finish(self, total):
        """Return the sums of all folds."""
        return total[0]
