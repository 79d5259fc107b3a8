"""Exact errors of the folds of a search at a few of its penalties, cached by name.

Shares nothing with the searches. For the squared loss the training rows, centred, are
reduced to a triangular factor (QR by chunks, which does not square their condition
number); coordinate descent on it is completed by the feature-sign search of
``reference.py``. For the logistic loss ``solve_reference`` is run on a copy of the
training rows, each penalty starting where the last one ended. Errors come from the
residuals or margins of the test rows.
"""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from judge import CHUNK_ROWS, LOSSES
from problems import BenchProblem
from reference import newton_target, solve_reference
from sklearn.linear_model import enet_path

# How many penalties of a grid are judged, and how many folds.
N_JUDGED_PENALTIES, N_JUDGED_FOLDS = 4, 2


def judged_places(problem):
    """Places of the judged penalties, spread evenly, the weakest among them."""
    n_penalties = problem.strengths.shape[1]
    n_judged = min(N_JUDGED_PENALTIES, n_penalties)
    return np.unique(np.linspace(0, n_penalties - 1, n_judged).round().astype(int))


def exact_errors(problem, cache_dir=None):
    """Errors of the first folds, shape (n_judged_folds, n_l1_ratios, n_judged)."""
    path = None
    if cache_dir is not None:
        path = Path(cache_dir) / f"search-{problem.name}.json"
        if path.exists():
            return np.array(json.loads(path.read_text()))
    solve = squared_errors if problem.loss == "squared" else logistic_errors
    errors = np.array([solve(problem, fold) for fold in range(N_JUDGED_FOLDS)])
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(errors.tolist()))
    return errors


def largest_error(outcome, problem, exact):
    """Largest relative error of the scores of an outcome, NaN if it has none."""
    if outcome.errors is None:
        return np.nan
    found = outcome.errors[:N_JUDGED_FOLDS][:, :, judged_places(problem)]
    return float(np.abs(found / exact - 1).max())


# ---- squared loss ----------------------------------------------------------------


def squared_errors(problem, fold):
    """Mean squared errors of one fold, shape (n_l1_ratios, n_judged)."""
    train, test = problem.splits[fold]
    x_mean, y_mean = _accurate_mean(problem.X, train), _accurate_mean(problem.y, train)
    triangle = _triangle(problem, train, x_mean, y_mean)
    factor, target = triangle[:, :-1], triangle[:, -1]
    places, errors = judged_places(problem), []
    for ratio, grid in zip(
        problem.l1_ratios, problem.fold_strengths(fold), strict=True
    ):
        coefs = [
            _solve(factor, target, ratio * strength, (1 - ratio) * strength)
            for strength in grid[places]
        ]
        errors.append(_test_errors(problem, test, x_mean, y_mean, np.transpose(coefs)))
    return np.array(errors)


def _accurate_mean(values, rows):
    """Mean, corrected by the mean of what it leaves."""
    mean = values[rows[0]]
    for _ in range(2):
        total = sum(
            (values[part] - mean).sum(axis=0)
            for part in np.array_split(rows, len(rows) // CHUNK_ROWS + 1)
        )
        mean = mean + total / len(rows)
    return mean


def _triangle(problem, train, x_mean, y_mean):
    """Triangular factor of the centred rows ``(x, y) / sqrt(n)``."""
    n_columns = problem.X.shape[1] + 1
    triangle = np.empty((0, n_columns))
    for rows in np.array_split(train, len(train) // CHUNK_ROWS + 1):
        block = np.column_stack([problem.X[rows] - x_mean, problem.y[rows] - y_mean])
        triangle = np.linalg.qr(np.vstack([triangle, block]), mode="r")
    return triangle / np.sqrt(len(train))


def _solve(factor, target, l1, l2):
    """Minimise ``|target - factor b|^2 / 2`` and the penalty."""
    n_features = factor.shape[1]
    factor = np.vstack([factor, np.sqrt(l2) * np.eye(n_features)])
    target = np.append(target, np.zeros(n_features))
    start = np.linalg.lstsq(factor, target, rcond=None)[0]
    if l1:
        root = np.sqrt(len(factor))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, coefs, _ = enet_path(
                np.asfortranarray(root * factor),
                root * target,
                l1_ratio=1.0,
                alphas=[l1],
                tol=1e-12,
                max_iter=20_000,
            )
        start = coefs[:, 0]
    strengths = np.full(n_features, l1)
    for _ in range(2):  # the second time corrects the rounding of the first
        gradient = factor.T @ (factor @ start - target)
        start = newton_target(factor, gradient, start, strengths)
    return start


def _test_errors(problem, test, x_mean, y_mean, coefs):
    total = 0.0
    for rows in np.array_split(test, len(test) // CHUNK_ROWS + 1):
        residuals = (problem.y[rows] - y_mean)[:, None]
        residuals = residuals - (problem.X[rows] - x_mean) @ coefs
        total = total + (residuals**2).sum(axis=0)
    return total / len(test)


# ---- logistic loss ---------------------------------------------------------------


def logistic_errors(problem, fold):
    """Mean log losses of one fold, shape (n_l1_ratios, n_judged)."""
    train, test = problem.splits[fold]
    rows = BenchProblem("fold", problem.loss, problem.X[train], problem.y[train])
    loss, errors = LOSSES["logistic"], []
    for ratio, grid in zip(
        problem.l1_ratios, problem.fold_strengths(fold), strict=True
    ):
        start, own = None, []
        for strength in grid[judged_places(problem)]:
            penalised = replace(
                rows, l1=float(ratio * strength), l2=float((1 - ratio) * strength)
            )
            coef, intercept, _ = solve_reference(penalised, start)
            start = np.vstack([coef, intercept])
            margin = problem.X[test] @ coef + intercept
            own.append(loss.value(problem.y[test], margin).mean())
        errors.append(own)
    return np.array(errors)
