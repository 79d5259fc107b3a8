"""Regression problems for cross-validation, and exact fold fits that share no code."""

import warnings
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path


class Chunk(NamedTuple):
    start: int
    rows: object
    target: np.ndarray
    weights: np.ndarray | None
    atom: np.ndarray | None


def read(task, X, y, weights, labels, chunk_rows=64):
    """Run a task over chunks of rows, as a source does."""
    total = None
    for start in range(0, X.shape[0], chunk_rows):
        part = slice(start, start + chunk_rows)
        chunk = Chunk(
            start,
            X[part],
            y[part],
            None if weights is None else weights[part],
            None if labels is None else labels[part],
        )
        term = task.visit(chunk)
        total = term if total is None else task.merge(total, term)
    return task.finish(total)


def regression(rng, n_rows=300, n_features=6, *, kind="plain"):
    """Rows, targets and what is special about them."""
    X = rng.standard_normal((n_rows, n_features))
    coef = np.where(
        np.arange(n_features) % 3 == 2, 0.0, rng.standard_normal(n_features)
    )
    y = X @ coef + 0.5 * rng.standard_normal(n_rows)
    if kind == "offset":
        X, y = X + 1e6 * (1 + np.arange(n_features)), y - 1e6
    elif kind == "dependent":
        X[:, 1] = X[:, 0] + 1e-6 * X[:, 1]
    elif kind == "duplicate":
        X[:, 1] = X[:, 0]
        X[:, 4] = X[:, 2] - X[:, 3]
    elif kind == "constant in a fold":
        X[n_rows // 5 :, 1] = 3.0
    elif kind == "constant":
        X[:, 1] = 1e5
    elif kind == "heavy fold":
        X[: n_rows // 5] *= 1e4
        y[: n_rows // 5] *= 1e4
    elif kind == "levels":
        X[: n_rows // 2] += 1e6
    elif kind == "scales":
        X *= 10.0 ** np.linspace(-4, 4, n_features)
    return X, y


KINDS = [
    "plain",
    "offset",
    "dependent",
    "duplicate",
    "constant in a fold",
    "constant",
    "heavy fold",
    "levels",
    "scales",
]


def fit_path(X, y, alphas, l1_ratio, weights=None, *, fit_intercept=True, **options):
    """Coefficients and intercepts of tight coordinate descent on centred rows."""
    weights = np.ones(len(y)) if weights is None else weights
    mu = weights / weights.sum()
    x_mean, y_mean = np.zeros(X.shape[1]), 0.0
    if fit_intercept:
        # Twice, so that nothing is left of an offset.
        x_mean = X[0] + mu @ (X - X[0])
        x_mean = x_mean + mu @ (X - x_mean)
        y_mean = y[0] + mu @ (y - y[0])
    roots = np.sqrt(mu * len(y))
    rows = np.asfortranarray((X - x_mean) * roots[:, None])
    rows[:, (X == X[0]).all(axis=0) & fit_intercept] = 0.0
    target = (y - y_mean) * roots
    if l1_ratio == 0:
        ridged = [
            np.linalg.lstsq(
                np.vstack([rows, np.sqrt(alpha * len(y)) * np.eye(X.shape[1])]),
                np.append(target, np.zeros(X.shape[1])),
                rcond=None,
            )[0]
            for alpha in alphas
        ]
        coefs = np.transpose(ridged)
    else:
        with warnings.catch_warnings():
            # As tight as rounding allows, whether that is the tolerance or not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, coefs, _ = enet_path(
                rows,
                target,
                alphas=alphas,
                l1_ratio=l1_ratio,
                tol=1e-15,
                max_iter=10**5,
                **options,
            )
    return coefs, x_mean, y_mean


def exact_mean(rows, weights):
    """Weighted means of the columns in rational arithmetic."""
    weights = [Fraction(weight) for weight in weights]
    return [
        sum(w * Fraction(z) for w, z in zip(weights, column, strict=True))
        / sum(weights)
        for column in rows.T
    ]


def exact_mean_square(X, y, weights, coef, x_centre, y_centre):
    """Mean square of the residuals in rational arithmetic."""
    coef = [Fraction(value) for value in coef]
    x_centre = [Fraction(value) for value in x_centre]
    total = mass = Fraction(0)
    for row, value, weight in zip(X, y, weights, strict=True):
        residual = Fraction(value) - Fraction(y_centre)
        for entry, centre, factor in zip(row, x_centre, coef, strict=True):
            residual -= (Fraction(entry) - centre) * factor
        total += Fraction(weight) * residual**2
        mass += Fraction(weight)
    return total / mass
