"""Linear predictions of held-out rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skcara.data import Coordinates, FoldSets, SumTask, predictions


@dataclass(frozen=True, eq=False)
class HeldOutScores(SumTask):
    """Predictions of the test rows of each fold, by a few columns of the fold.

    The answer is a list with one array of shape (n_test_rows, n_columns, n_outputs) for
    each fold, rows in their order in the source; a row that is several times in a test
    set is repeated.

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

    def visit(self, chunk):
        """Predictions of the rows of a chunk, a list for each fold."""
        rows, shape = self.coordinates.rows(chunk.rows), self.params.shape
        _, test = self.sets.counts(chunk.atom)
        answers: list[list[np.ndarray]] = [[] for _ in self._effective]
        for answer, (coef, intercept), counts in zip(
            answers, self._effective, test, strict=True
        ):
            held_out = np.flatnonzero(counts)
            if held_out.size:
                own = rows if held_out.size == chunk.n_rows else rows[held_out]
                scores = predictions(own, coef) + intercept
                scores = np.repeat(scores, counts[held_out], axis=0)
                answer.append(scores.reshape(-1, shape[1], shape[3]))
        return answers

    def finish(self, total):
        """Join the parts of each fold."""
        return [np.concatenate(parts) for parts in total]
