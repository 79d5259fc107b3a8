"""Problems tall enough for reduced measures, small enough for a test."""

import numpy as np
from cases import make_case

from skcara.objective import (
    DualGap,
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    ResidualCorrelation,
    SeparablePenalty,
    SquaredLoss,
)

N_ROWS, N_FEATURES = 60_000, 20


def gaussian(n_rows=N_ROWS, n_features=N_FEATURES, seed=0):
    """Independent columns and a score in which every third column plays no part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    coef = 1.5 * rng.standard_normal(n_features) / np.sqrt(n_features)
    coef[::3] = 0.0
    return X, X @ coef, rng


def rare_levels(n_rows=N_ROWS, n_levels=16, seed=0):
    """One-hot levels down to a handful of rows, and two numbers."""
    X, score, rng = gaussian(n_rows, 2, seed)
    frequency = 1.0 / np.arange(1, n_levels + 1) ** 3
    levels = rng.choice(n_levels, n_rows, p=frequency / frequency.sum())
    onehot = np.zeros((n_rows, n_levels))
    onehot[np.arange(n_rows), levels] = 1.0
    effects = rng.standard_normal(n_levels)
    return np.hstack([X, onehot]), score + effects[levels], rng


def labels(score, rng, offset=0.0):
    """Draw labels from the logistic model."""
    probability = 1.0 / (1.0 + np.exp(-(score + offset)))
    return (rng.random(len(score)) < probability).astype(np.float64)


def classes(score, rng):
    """Draw three class codes from a multinomial logistic model."""
    scores = np.column_stack([score, -score, np.full_like(score, -1.0)])
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def make_problem(X, target, loss, l1=0.0, l2=0.0, *, positive=False, **options):
    """Full-data problem and its source, with the criterion of the estimators."""
    n_features = X.shape[1]
    n_params = n_features + options.get("fit_intercept", True)
    is_feature = (np.arange(n_params) < n_features)[:, None]
    penalty = SeparablePenalty(
        np.where(is_feature, l1, 0.0),
        np.where(is_feature, l2, 0.0),
        is_feature & positive,
    )
    if loss == "squared":
        criterion = DualGap() if l1 or l2 else ResidualCorrelation()
        return make_case(X, target, SquaredLoss(), penalty, criterion, **options)
    kind = LogisticLoss() if loss == "logistic" else MultinomialLoss(target.max() + 1)
    return make_case(X, target, kind, penalty, KKTViolation(), **options)
