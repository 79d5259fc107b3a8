"""The search of CaLogisticRegressionCV, from the rows to scores of all penalties.

A search is a generator: it asks for what it wants to be read and is sent the answers,
see :mod:`skcara.solvers`. The driver reads, counts and tells observers.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skcara.data import Coordinates
from skcara.estimators._classifier import linear_attributes
from skcara.estimators._held_out import score_held_out
from skcara.estimators._logistic_data import SearchData
from skcara.estimators._logistic_grid import LogisticGrid
from skcara.objective import ColumnMoments
from skcara.passes import AtomMasses, FoldMoments
from skcara.solvers.paths import (
    Column,
    FoldProblems,
    FullFit,
    FullFits,
    SearchRound,
    search_folds,
)


@dataclass(frozen=True, eq=False)
class Found:
    """What a search has found.

    Attributes
    ----------
    columns : list of Column
        Ordered by fold, then by penalty.
    paths : ndarray of shape (n_folds, n_penalties, n_outputs, n_features [+ 1])
    scores : ndarray of shape (n_folds, n_penalties)
    units : Coordinates
        In which features are penalised in a fit of all rows.
    coordinates : Coordinates
        Those of the solver.
    full_fit : FullFit or None
        Of the penalty with the least losses, on all rows.
    is_stopped : bool
        Whether somebody asked to stop.
    folds_without_class : list of int
        Folds that do not train on all classes.
    """

    columns: list[Column]
    paths: np.ndarray
    scores: np.ndarray
    units: Coordinates
    coordinates: Coordinates
    full_fit: FullFit | None
    is_stopped: bool
    folds_without_class: list[int]


def search_logistic(
    data: SearchData,
    grid: LogisticGrid,
    *,
    standardize: bool,
    refit: bool,
    tol: float,
    max_iter: int,
    rng,
) -> Generator[Any, Any, Found]:
    """Solve all folds and penalties, and score them.

    Yields
    ------
    item : request or Report
        Of :func:`skcara.solvers.paths.search_folds`, and requests for scores.

    Returns
    -------
    found : Found

    Raises
    ------
    ValueError
        If features shall be centred and there is no intercept.
    """
    if standardize and not grid.fit_intercept:
        raise ValueError(
            "standardize=True centres the features, which takes an intercept: use "
            "fit_intercept=True, or a scaler with with_mean=False in a pipeline."
        )
    moments, masses = yield from _first_read(data, standardize)
    units = [_units(one, grid.fit_intercept) for one in moments]
    problems = grid.fold_problems(
        data.source,
        (data.sets, data.labels),
        data.set_weights(masses),
        units[:-1],
        test_factors=data.inverse_factors if data.uses_losses else None,
    )
    full_fits = None
    if refit and data.uses_losses:
        full_fits = _full_fits(data, grid, problems.coordinates, units[-1], tol)
    last = yield from solve_columns(
        problems, tol=tol, max_iter=max_iter, rng=rng, full_fits=full_fits
    )
    params = np.array([column.base for column in last.columns])
    params = params.reshape(data.sets.n_folds, -1, *params.shape[1:])
    paths = _paths(problems, params)
    if data.uses_losses:
        scores = score_losses(last)
    else:
        scores = yield from score_held_out(data, problems.coordinates, params)
    return Found(
        last.columns,
        paths,
        scores,
        units[-1],
        problems.coordinates,
        None if full_fits is None else full_fits.current,
        last.is_stopped,
        data.folds_without_class(masses),
    )


def _full_fits(data: SearchData, grid: LogisticGrid, coordinates, units, tol):
    """Fits on all rows that go along with the search."""

    def problem_of(number):
        problem = grid.full_problem(data.source, number, units)
        return problem.with_coordinates(coordinates)

    def best_of(losses):
        [number] = best_numbers(-losses, grid.shape, True)
        return number

    return FullFits(problem_of, best_of, tol)


def solve_columns(
    problems: FoldProblems, **options
) -> Generator[Any, Any, SearchRound]:
    """Solve all columns, as :func:`skcara.solvers.paths.search_folds`.

    Raises
    ------
    FloatingPointError
        If a gradient on the full data is not finite.
    """
    last = yield from search_folds(problems, **options)
    anchors = (column.anchor for column in last.columns)
    if not all(one is not None and np.isfinite(one.optimality) for one in anchors):
        raise FloatingPointError(
            "Gradients are not finite: X contains values that are too large. Scale "
            "them."
        )
    return last


def score_losses(current: SearchRound) -> np.ndarray:
    """Negative losses on the held-out rows, of shape (n_folds, n_penalties)."""
    losses = np.array([column.score_loss for column in current.columns])
    return -losses.reshape(current.problems.sets.n_folds, -1)


def _first_read(data: SearchData, standardize: bool):
    """Moments of features, and weights of atoms; reads only if it must.

    Returns
    -------
    moments : list of ColumnMoments
        Of each training set, and of all rows; zero and one without a scaler.
    masses : list of ndarray
        See :class:`SearchData`.
    """
    facts, n_folds = data.source.facts, data.sets.n_folds
    n_features = facts.n_features
    requests: list = []
    if data.masses is None:
        requests.append(AtomMasses(data.sets.n_atoms, len(data.classes)))
    if standardize:
        # Class weights are for fits, not for the scaler.
        sets = data.sets.with_all_rows()
        requests.append(FoldMoments(facts, sets, data.inverse_factors))
    answers = yield requests
    moments = [ColumnMoments(np.zeros(n_features), np.ones(n_features))] * (n_folds + 1)
    if standardize:
        moments = answers[-1]
    return moments, answers[0] if data.masses is None else data.masses


def _units(moments: ColumnMoments, fit_intercept: bool) -> Coordinates:
    """Coordinates in which columns have these moments taken out."""
    spread = np.sqrt(moments.variance)
    scale = np.where(spread > 0, spread, 1.0)
    return Coordinates(moments.mean, scale, fit_intercept)


def _paths(problems: FoldProblems, params):
    """Coefficients of all folds and penalties, intercepts behind them if any."""
    paths = [
        stacked_coef(problems.coordinates, one)
        for one in params.reshape(-1, *params.shape[2:])
    ]
    return np.array(paths).reshape(*params.shape[:2], *paths[0].shape)


def stacked_coef(coordinates, params) -> np.ndarray:
    """Coefficients of a point for users, with the intercept behind them if any.

    Shape (n_classes or 1, n_features [+ 1]).
    """
    linear = linear_attributes(*coordinates.to_user(params))
    if not coordinates.fit_intercept:
        return linear["coef_"]
    return np.hstack([linear["coef_"], linear["intercept_"][:, None]])


def best_numbers(scores, shape, is_common) -> list[int]:
    """Number of the best penalty, of all folds together or of each.

    Of equal scores the one with the smaller C wins, then the one with the ratio that
    comes first, as in scikit-learn.
    """
    n_ratios, n_cs = shape
    scores = scores.reshape(-1, n_ratios, n_cs).transpose(0, 2, 1)
    scores = scores.reshape(len(scores), -1)
    scores = scores.sum(axis=0, keepdims=True) if is_common else scores
    # A fold that nobody has scored is no reason to choose its penalty.
    scores = np.where(np.isnan(scores), -np.inf, scores)
    numbers = []
    for best in scores.argmax(axis=1):
        position, ratio = divmod(int(best), n_ratios)
        numbers.append(ratio * n_cs + position)
    return numbers


def chosen_penalty(grid: LogisticGrid, numbers) -> dict:
    """Attributes that say which penalty was chosen: the mean of some of the grid."""
    ratios, positions = np.divmod(numbers, len(grid.Cs))
    return {
        "C_": float(np.mean(grid.Cs[positions])),
        "l1_ratio_": float(np.mean(grid.ratios[ratios])),
    }
