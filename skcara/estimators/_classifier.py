"""Predictions of linear classifiers."""

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import ClassifierMixin

from skcara.estimators._inputs import or_lazily

# Rows of scores that are turned into probabilities at a time.
_PART_ROWS = 4096


def linear_attributes(coef, intercept) -> dict:
    """Fitted attributes from the user's coefficients, one column for each output."""
    if len(intercept) > 1:
        # The loss does not see a constant added to all classes.
        intercept = intercept - intercept.mean()
    return {"coef_": np.ascontiguousarray(coef.T), "intercept_": intercept}


class LinearClassifierMixin(ClassifierMixin):
    """Mixin of linear models with ``classes_``."""

    classes_: np.ndarray

    @or_lazily
    def decision_function(self, X) -> np.ndarray:
        """Linear predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of ``classes_[1]`` for two classes, else one score per class.
        """
        scores = self._predict_linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @or_lazily
    def predict(self, X) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        is_binary = scores.ndim == 1
        codes = (scores > 0).view(np.int8) if is_binary else scores.argmax(axis=1)
        return self.classes_[codes]

    @or_lazily
    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithm of the class probabilities, without underflow.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            log_proba = _of_both_classes(log_expit, scores)
            if log_proba.dtype == np.float32:
                # Where the probability rounds to one, as with more classes.
                log_proba[log_proba > -0.5 * np.finfo(np.float32).epsneg] = 0.0
            return log_proba
        for part in _parts(scores):
            part -= part.max(axis=1, keepdims=True)
            part -= np.log(np.exp(part).sum(axis=1, keepdims=True))
        return scores

    @or_lazily
    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return _of_both_classes(expit, scores)
        for part in _parts(scores):
            part -= part.max(axis=1, keepdims=True)
            np.exp(part, out=part)
            part /= part.sum(axis=1, keepdims=True)
        return scores


def _of_both_classes(function, scores):
    """Values at minus the scores and at the scores, which are overwritten."""
    values = np.empty((len(scores), 2), scores.dtype)
    function(scores, out=values[:, 1])
    np.negative(scores, out=scores)
    function(scores, out=values[:, 0])
    return values


def _parts(scores):
    """Parts of the rows that stay in the cache from one operation to the next."""
    for start in range(0, len(scores), _PART_ROWS):
        yield scores[start : start + _PART_ROWS]
