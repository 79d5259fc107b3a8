"""Small problems for the estimators, well- and badly-behaved."""

import numpy as np


def regression(n_rows=600, n_features=8, seed=0, noise=0.5):
    """Gaussian columns, half of the coefficients zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    coef = rng.standard_normal(n_features) * (np.arange(n_features) % 2 == 0)
    return X, X @ coef + 1.5 + noise * rng.standard_normal(n_rows)


def classification(n_rows=600, n_features=8, n_classes=2, seed=0):
    """Labels drawn from a (multinomial) logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    coef = rng.standard_normal((n_features, n_classes))
    coef[1::2] = 0.0
    scores = X @ coef + np.linspace(0, 1, n_classes)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def adversarial(kind, X, y, seed=0):
    """Make a problem harder without changing its kind."""
    rng = np.random.default_rng(seed)
    if kind == "sorted":
        order = np.argsort(y, kind="stable")
        return X[order], y[order]
    if kind == "heavy-tailed":
        return rng.standard_t(2, X.shape), y
    if kind == "scaled":
        return X * np.logspace(-4, 4, X.shape[1]), y
    if kind == "duplicated":
        return np.hstack([X, X[:, :2]]), y
    if kind == "constant":
        return np.hstack([X, np.ones((len(X), 1)), np.zeros((len(X), 1))]), y
    if kind == "offset":
        return X + 1e4, y
    raise ValueError(kind)


ADVERSARIES = [
    "sorted",
    "heavy-tailed",
    "scaled",
    "duplicated",
    "constant",
    "offset",
]
