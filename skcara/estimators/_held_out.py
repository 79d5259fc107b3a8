"""Scores of held-out rows by any scorer.

A scorer of scikit-learn looks at predictions and targets. Scores that only count how
many rows of each class are predicted as another need one read for all penalties and no
memory. Others are put behind an estimator that already knows the predictions of the
held-out rows, so ``X`` is read once for as many penalties as their predictions fit into
memory. A callable of another kind may look at the rows: it gets them, and an estimator
with coefficients.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import BaseEstimator

from skcara._sklearn_compat import (
    is_plain_scorer,
    score_function,
    scorer_with_labels,
)
from skcara.data import Coordinates, FoldSets, atom_counts, rows_of_test_set
from skcara.estimators._classifier import LinearClassifierMixin, linear_attributes
from skcara.passes import HeldOutConfusions, HeldOutScores

# Memory of the predictions of held-out rows: this share of that of X, and at least so
# many bytes.
_MEMORY_SHARE, _FREE_BYTES = 0.1, 2**25
# Scores that are functions of the weights of the rows by true and predicted class.
_COUNTING_SCORES = {
    metrics.accuracy_score,
    metrics.balanced_accuracy_score,
    metrics.cohen_kappa_score,
    metrics.f1_score,
    metrics.fbeta_score,
    metrics.jaccard_score,
    metrics.matthews_corrcoef,
    metrics.precision_score,
    metrics.recall_score,
    metrics.zero_one_loss,
}


class _KnownPredictions(LinearClassifierMixin, BaseEstimator):
    """A classifier whose linear predictions are known."""

    def __init__(self, classes, scores):
        self.classes_ = classes
        self._scores = scores

    def _predict_linear(self, X):
        return self._scores.copy()

    def __sklearn_is_fitted__(self):
        return True


class _Coefficients(LinearClassifierMixin, BaseEstimator):
    """A classifier with known coefficients."""

    def __init__(self, classes, linear):
        self.classes_ = classes
        self.coef_, self.intercept_ = linear["coef_"], linear["intercept_"]

    def _predict_linear(self, X):
        return X @ self.coef_.T + self.intercept_

    def __sklearn_is_fitted__(self):
        return True


def score_held_out(
    data, coordinates: Coordinates, params
) -> Generator[Any, Any, np.ndarray]:
    """Scores of all folds and penalties.

    Parameters
    ----------
    data : SearchData
    coordinates : Coordinates
    params : ndarray of shape (n_folds, n_penalties, n_params, n_outputs)

    Returns
    -------
    scores : ndarray of shape (n_folds, n_penalties)
    """
    scoring = data.scoring
    if not scoring.is_plain:
        return (yield ScoreRows(coordinates, params, scoring))
    if scoring.counts_classes:
        confusions = yield HeldOutConfusions(
            coordinates,
            data.sets,
            params,
            len(data.classes),
            data.inverse_factors,
            "sample_weight" in scoring.params,
        )
        return np.array([[*map(scoring.score_counts, one)] for one in confusions])
    n_folds, n_penalties, _, n_outputs = params.shape
    budget = max(_MEMORY_SHARE * 8 * data.source.facts.n_entries, _FREE_BYTES)
    n_together = max(int(budget / (8 * scoring.n_held_out * n_outputs)), 1)
    scores = np.empty((n_folds, n_penalties))
    for first in range(0, n_penalties, n_together):
        part = slice(first, min(first + n_together, n_penalties))
        known = yield HeldOutScores(coordinates, data.sets, params[:, part])
        for fold, predictions in enumerate(known):
            for place in range(part.stop - part.start):
                scores[fold, first + place] = scoring.score(fold, predictions[:, place])
    return scores


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Request for scores by a callable that may look at the rows.

    The answer is an array of shape (n_folds, n_penalties).

    Attributes
    ----------
    coordinates : Coordinates
    params : ndarray of shape (n_folds, n_penalties, n_params, n_outputs)
    scoring : FoldScoring
    """

    coordinates: Coordinates
    params: np.ndarray
    scoring: "FoldScoring"

    cost = 1.0

    def fetch(self, source) -> np.ndarray:
        """Copy the held-out rows, fold by fold."""
        scores = np.empty(self.params.shape[:2])
        for fold, points in enumerate(self.params):
            rows = self.scoring.rows[self.scoring.held_out(fold)]
            for place, point in enumerate(points):
                linear = linear_attributes(*self.coordinates.to_user(point))
                scores[fold, place] = self.scoring.score_coef(fold, linear, rows)
        return scores


class FoldScoring:
    """A scorer with everything it is given for each fold.

    Parameters
    ----------
    scorer : callable
    classes : ndarray of shape (n_classes,)
    batches : list of FoldBatch
    y : ndarray of shape (n_rows,) or None
        None if nobody looks at the labels of single rows.
    params : dict
        Arrays of length n_rows, or other values, handed to the scorer.
    rows : array or CSR matrix, optional
        All rows, for scorers that look at them.

    Attributes
    ----------
    is_plain : bool
        Whether the scorer looks at predictions and targets only.
    counts_classes : bool
        Whether it only counts the rows of each class that are predicted as another.
    """

    def __init__(self, scorer, classes, batches, y, params: dict, rows=None):
        self.is_plain = is_plain_scorer(scorer)
        self.counts_classes = (
            self.is_plain
            and score_function(scorer) in _COUNTING_SCORES
            and set(params) <= {"sample_weight"}
        )
        self._scorer = scorer_with_labels(scorer, classes)
        self._classes, self._batches, self._y = classes, batches, y
        self.params, self.rows = params, rows
        self._fold: int | None = None
        self._rows = np.empty(0, dtype=np.intp)

    @property
    def n_held_out(self) -> int:
        """Rows of all test sets, at least one."""
        counts = atom_counts(self._batches, len(self._y))
        _, test = FoldSets(self._batches).totals(counts)
        return max(int(test.sum()), 1)

    def held_out(self, fold: int) -> np.ndarray:
        """Numbers of the test rows of a fold, ascending."""
        if fold != self._fold:
            rows = rows_of_test_set(self._batches, fold, len(self._y))
            self._fold, self._rows = fold, rows
        return self._rows

    def score(self, fold: int, predictions) -> float:
        """Score of known predictions, of shape (n_test_rows, n_outputs)."""
        estimator = _KnownPredictions(self._classes, predictions)
        return self._score(fold, estimator, self.held_out(fold)[:, None])

    def score_coef(self, fold: int, linear: dict, rows) -> float:
        """Score of fitted attributes on the test rows of a fold."""
        return self._score(fold, _Coefficients(self._classes, linear), rows)

    def score_counts(self, confusion) -> float:
        """Score of weights by true and by predicted class.

        A row stands for all rows of one class that are predicted as another.
        """
        true, found = np.nonzero(confusion)
        n_classes = len(self._classes)
        predictions = 2.0 * found[:, None] - 1.0
        if n_classes > 2:
            predictions = np.eye(n_classes)[found]
        return float(
            self._scorer(
                _KnownPredictions(self._classes, predictions),
                true[:, None],
                self._classes[true],
                sample_weight=confusion[true, found],
            )
        )

    def _score(self, fold, estimator, X):
        rows, n_rows = self.held_out(fold), len(self._y)
        params = {
            name: value[rows] if np.shape(value)[:1] == (n_rows,) else value
            for name, value in self.params.items()
        }
        return float(self._scorer(estimator, X, self._y[rows], **params))
