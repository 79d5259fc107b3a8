"""Scores of held-out rows by any scorer.

A scorer of scikit-learn looks at predictions and targets. Behind an estimator that
already knows the predictions of the held-out rows it needs no rows, so ``X`` is read
once for as many penalties as their predictions fit into memory. A callable of another
kind may look at the rows: it gets them, and an estimator with coefficients.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skcara._sklearn_compat import is_plain_scorer, scorer_with_labels
from skcara.data import Coordinates, Facts, FoldSets
from skcara.estimators._classifier import LinearClassifierMixin, linear_attributes
from skcara.passes import HeldOutScores

# Memory of the predictions of held-out rows: this share of that of X, and at least so
# many bytes.
_MEMORY_SHARE, _FREE_BYTES = 0.1, 2**25


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
    facts: Facts, sets: FoldSets, coordinates: Coordinates, params, scoring
) -> Generator[Any, Any, np.ndarray]:
    """Scores of all folds and penalties.

    Parameters
    ----------
    facts : Facts
    sets : FoldSets
    coordinates : Coordinates
    params : ndarray of shape (n_folds, n_penalties, n_params, n_outputs)
    scoring : FoldScoring

    Returns
    -------
    scores : ndarray of shape (n_folds, n_penalties)
    """
    if not scoring.is_plain:
        return (yield ScoreRows(coordinates, params, scoring))
    n_folds, n_penalties, _, n_outputs = params.shape
    budget = max(_MEMORY_SHARE * 8 * facts.n_entries, _FREE_BYTES)
    n_held_out = max(int(sets.totals(None, facts.n_rows)[1].sum()), 1)
    n_together = max(int(budget / (8 * n_held_out * n_outputs)), 1)
    scores = np.empty((n_folds, n_penalties))
    for first in range(0, n_penalties, n_together):
        part = slice(first, min(first + n_together, n_penalties))
        known = yield HeldOutScores(coordinates, sets, params[:, part])
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
            rows = source.X[self.scoring.held_out(fold)]
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
    y : ndarray of shape (n_rows,)
    sets : FoldSets
    params : dict
        Arrays of length n_rows, or other values, handed to the scorer.
    """

    def __init__(self, scorer, classes, y, sets: FoldSets, params: dict):
        self.is_plain = is_plain_scorer(scorer)
        self._scorer = scorer_with_labels(scorer, classes)
        self._classes, self._y, self._sets, self.params = classes, y, sets, params
        self._fold: int | None = None
        self._rows = np.empty(0, dtype=np.intp)

    def held_out(self, fold: int) -> np.ndarray:
        """Numbers of the test rows of a fold, ascending."""
        if fold != self._fold:
            self._fold, self._rows = fold, self._sets.test_rows(fold, len(self._y))
        return self._rows

    def score(self, fold: int, predictions) -> float:
        """Score of known predictions, of shape (n_test_rows, n_outputs)."""
        estimator = _KnownPredictions(self._classes, predictions)
        return self._score(fold, estimator, self.held_out(fold)[:, None])

    def score_coef(self, fold: int, linear: dict, rows) -> float:
        """Score of fitted attributes on the test rows of a fold."""
        return self._score(fold, _Coefficients(self._classes, linear), rows)

    def _score(self, fold, estimator, X):
        rows, n_rows = self.held_out(fold), len(self._y)
        params = {
            name: value[rows] if np.shape(value)[:1] == (n_rows,) else value
            for name, value in self.params.items()
        }
        return float(self._scorer(estimator, X, self._y[rows], **params))
