"""Judges of a solution that share no code with the solvers.

All of them work on the full data in the user's coordinates, with the textbook formulas,
and in extended precision if the data are given in it (:func:`extended`).
"""

import numpy as np
from scipy import sparse
from scipy.special import log_softmax, softmax


def extended(*arrays):
    """Arrays (or None) in extended precision, entry by entry as they are."""
    return [
        None if array is None else np.asarray(array, dtype=np.longdouble)
        for array in arrays
    ]


def _dense(X):
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return X.astype(np.result_type(X, np.float64), copy=False)


def _mu(y, sample_weight):
    if sample_weight is None:
        sample_weight = np.ones(len(y), dtype=np.result_type(y, np.float64))
    weights = np.asarray(sample_weight)
    return weights / weights.sum()


def _distance(coef, gradient, l1, positive):
    """Distance of ``-gradient`` to the subdifferential of ``l1 |coef|``."""
    distance = np.abs(gradient + np.sign(coef) * l1)
    at_zero = coef == 0
    excess = -gradient - l1 if positive else np.abs(gradient) - l1
    return np.where(at_zero, np.maximum(excess, 0), distance)


def soft_threshold(params, threshold, positive=False):
    """Proximal map of ``threshold |params|``, on the positive half line if asked."""
    shrunk = np.sign(params) * np.maximum(np.abs(params) - threshold, 0.0)
    return np.maximum(shrunk, 0.0) if positive else shrunk


def squared_objective(X, y, coef, intercept, l1=0.0, l2=0.0, sample_weight=None):
    residual = y - _dense(X) @ coef - intercept
    mu = _mu(y, sample_weight)
    penalty = l1 * np.abs(coef).sum() + 0.5 * l2 * np.sum(coef**2)
    return 0.5 * mu @ residual**2 + penalty


def squared_violation(
    X,
    y,
    coef,
    intercept,
    l1=0.0,
    l2=0.0,
    *,
    sample_weight=None,
    positive=False,
    fit_intercept=True,
):
    """Largest KKT violation of the penalised least-squares problem."""
    X, mu = _dense(X), _mu(y, sample_weight)
    weighted = mu * (X @ coef + intercept - y)
    violation = _distance(coef, X.T @ weighted + l2 * coef, l1, positive).max()
    return max(violation, abs(weighted.sum())) if fit_intercept else violation


def lasso_dual_gap(
    X, y, coef, intercept, l1, l2=0.0, *, sample_weight=None, fit_intercept=True
):
    """Duality gap of the elastic net, the better of two dual points.

    The residual of the data augmented by the rows ``sqrt(l2) I``, shrunk to be feasible
    for the Lasso; and for ``l2 > 0`` the residual itself, by Fenchel conjugation.
    """
    X, mu = _dense(X), _mu(y, sample_weight)
    primal = squared_objective(X, y, coef, intercept, l1, l2, sample_weight)
    if fit_intercept:
        X, y = X - mu @ X, y - mu @ y
    root = np.sqrt(mu)
    design, target = root[:, None] * X, root * y
    if l2 > 0:
        design = np.vstack([design, np.sqrt(l2) * np.eye(X.shape[1])])
        target = np.concatenate([target, np.zeros(X.shape[1])])
    residual = target - design @ coef
    residual *= min(1.0, l1 / max(np.abs(design.T @ residual).max(), 1e-300))
    dual = residual @ target - 0.5 * residual @ residual
    if l2 > 0:
        residual = y - X @ coef
        excess = np.maximum(np.abs(X.T @ (mu * residual)) - l1, 0.0)
        conjugate = np.sum(excess**2) / (2 * l2)
        value = mu @ (residual * y) - 0.5 * mu @ residual**2 - conjugate
        dual = max(dual, value)
    return primal - dual


def _scores(X, coef, intercept):
    scores = _dense(X) @ np.atleast_2d(coef).T + intercept
    if scores.shape[1] == 1:
        # Two classes: score z of the second class and 0 of the first.
        scores = np.hstack([np.zeros_like(scores), scores])
    return scores


def logistic_objective(
    X, codes, coef, intercept, C, l1_ratio=0.0, *, sample_weight=None
):
    """Mean objective of (multinomial) logistic regression."""
    coef = np.atleast_2d(coef)
    n_rows = len(codes)
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight)
    log_proba = log_softmax(_scores(X, coef, intercept), axis=1)
    loss = -(weights / weights.sum()) @ log_proba[np.arange(n_rows), codes]
    penalty = l1_ratio * np.abs(coef).sum() + 0.5 * (1 - l1_ratio) * np.sum(coef**2)
    return loss + penalty / (C * weights.sum())


def logistic_violation(
    X,
    codes,
    coef,
    intercept,
    C,
    l1_ratio=0.0,
    *,
    sample_weight=None,
    fit_intercept=True,
):
    """Largest KKT violation of the mean objective of logistic regression."""
    coef = np.atleast_2d(coef)
    n_rows = len(codes)
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight)
    strength = 1.0 / (C * weights.sum())
    difference = softmax(_scores(X, coef, intercept), axis=1)
    difference[np.arange(n_rows), codes] -= 1.0
    difference *= (weights / weights.sum())[:, None]
    difference = difference[:, -len(coef) :]
    gradient = difference.T @ _dense(X) + strength * (1 - l1_ratio) * coef
    violation = _distance(coef, gradient, strength * l1_ratio, False).max()
    if fit_intercept:
        violation = max(violation, np.abs(difference.sum(axis=0)).max())
    return violation
