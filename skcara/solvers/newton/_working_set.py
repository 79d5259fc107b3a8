"""L1 penalties with many columns: solve on the columns that matter.

At the optimum most coefficients are zero. A round solves the problem restricted to a
*working set*, the columns with non-zero coefficients and those that violate the
optimality conditions most, and one pass over all columns tells which ones were missing.
The restricted problem is handed to any solver; for an elastic net coordinate descent is
tried first, unless it has many sparse rows for each column. The columns of the working
set are copied, which makes this a method for wide data and not for tall ones.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skcara.objective import KKTViolation
from skcara.passes import Columns, Evaluate, evaluate_first
from skcara.solvers._driver import drive
from skcara.solvers._progress import StallDetector
from skcara.solvers._rounds import Round
from skcara.solvers._strategy import can_descend
from skcara.solvers.newton._coordinate_descent import copy_columns

# Columns of the first working set. Coordinate descent hardly minds more of them, and
# saves rounds.
_FIRST_SIZE, _FIRST_DESCENT_SIZE = 64, 256
# Columns of the first working set, dense and sparse ones, for each that is pushed away
# from zero. Half of 5000 x 1500 dense columns take 0.4 of the time, a fifth of
# 3000 x 3000 of them 0.7, a tenth 1.15.
_PUSHED_SIZE = (1, 2)
# Share of columns that makes a working set as dear as all of them, which leave
# nothing for another round: 11 instead of 17 ms for 1250 of 1500 columns of 3000 rows.
_MANY_PUSHED = 2 / 3
# How well a restricted problem is solved, relative to the violation on all columns.
_ACCURACY = 1e-2
_MAX_INNER_ROUNDS = 50


def iterate_working_sets(problem, params, solve):
    """Yield rounds on growing working sets.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    solve : callable
        ``solve(problem, params)``: a solver of a restricted problem.

    Yields
    ------
    Request or Round
    """
    problem, evaluation = yield from evaluate_first(problem, params)
    stall, is_stalled = StallDetector(), False
    may_descend = True
    yield Round(evaluation)
    while not is_stalled:
        features = _choose_features(problem, evaluation, may_descend=may_descend)
        params, n_rounds, share = None, 1, len(features) / problem.n_features
        if may_descend and can_descend(problem, len(features)):
            tol = _ACCURACY * evaluation.stop_value
            columns = yield from copy_columns(problem, features)
            params = columns.minimize(evaluation.params, tol)
            may_descend = params is not None
        if params is None:
            source = yield Columns(features)
            result = _solve_restricted(problem, source, features, evaluation, solve)
            params, n_rounds = result.params, result.n_rounds
            share *= result.passes
        previous, evaluation = evaluation, (yield Evaluate(problem, params))
        reduced_rows = share * problem.n_rows
        yield Round(evaluation, reduced_rows=reduced_rows, inner_steps=n_rounds)
        is_stalled = stall.is_stalled_after(previous.objective, evaluation.objective)


class _Restricted(NamedTuple):
    """Solution on some columns, zero on the others, and what it took."""

    params: np.ndarray
    n_rounds: int
    passes: float


def _solve_restricted(problem, source, features, evaluation, solve):
    """Hand the problem on some columns to a solver."""
    rows = features
    if problem.coordinates.fit_intercept:
        rows = np.append(features, problem.n_features)
    restricted = _restrict(problem, source.facts, features, rows)
    [result] = drive(
        [solve(restricted, evaluation.params[rows])],
        source,
        tol=_ACCURACY * evaluation.optimality,
        max_iter=_MAX_INNER_ROUNDS,
    )
    params = np.zeros_like(evaluation.params)
    params[rows] = result.evaluation.params
    return _Restricted(params, result.n_rounds, result.passes)


def _choose_features(problem, evaluation, *, may_descend):
    """Columns in use and the worst of the others, twice as many as in use.

    A column that is not in use moves once its slope exceeds the strength of its
    penalty: those that are near to that are the next to move.
    """
    n_features = problem.n_features
    is_used = evaluation.params[:n_features].any(axis=1)
    slope, penalty = evaluation.smooth_gradient[:n_features], problem.penalty
    push = np.where(penalty.positive[:n_features], -slope, np.abs(slope))
    push = (push / penalty.l1[:n_features]).max(axis=1)
    n_used, least = int(is_used.sum()), _FIRST_SIZE
    if may_descend:
        least = _least_descent_size(problem, n_used, int(np.count_nonzero(push > 1)))
    size = min(max(least, 2 * n_used), n_features)
    push[is_used] = np.inf
    return np.sort(np.argpartition(-push, size - 1)[:size])


def _least_descent_size(problem, n_used, n_pushed):
    """Columns that a working set has at least, if coordinate descent may solve it.

    Parameters
    ----------
    problem : Problem
    n_used : int
        Number of columns in use.
    n_pushed : int
        Number of columns that would move, were each of them alone.
    """
    n_features, is_sparse = problem.n_features, problem.facts.is_sparse
    size = 0 if is_sparse else _FIRST_DESCENT_SIZE
    # From zero, those that are pushed tell how many columns will be in use, unless they
    # are many for the rows: then few of them are enough.
    if not n_used and (is_sparse or n_features <= problem.n_rows):
        size = max(size, _PUSHED_SIZE[is_sparse] * n_pushed)
        if size > _MANY_PUSHED * n_features:
            size = n_features
    return size if can_descend(problem, size) else _FIRST_SIZE


def _restrict(problem, facts, features, rows):
    """Return the problem on some columns, in the same coordinates."""
    return replace(
        problem,
        facts=facts,
        user_penalty=problem.user_penalty.restrict(rows),
        units=None if problem.units is None else problem.units.restrict(features),
        criterion=KKTViolation(),
        coordinates=problem.coordinates.restrict(features),
        column_moments=None,
    )
