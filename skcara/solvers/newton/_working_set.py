"""L1 penalties with many columns: solve on the columns that matter.

At the optimum most coefficients are zero. A round solves the problem restricted to a
*working set*, the columns with non-zero coefficients and those that violate the
optimality conditions most, and one pass over all columns tells which ones were missing.
The restricted problem is handed to any solver. It copies the columns of the working
set, which makes this a method for wide data and not for tall ones.
"""

from dataclasses import replace

import numpy as np

from skcara.objective import KKTViolation
from skcara.passes import Columns, Evaluate, evaluate_first
from skcara.solvers._driver import drive
from skcara.solvers._progress import StallDetector
from skcara.solvers._rounds import Round

# Columns of the first working set.
_FIRST_SIZE = 64
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
    yield Round(evaluation)
    while not is_stalled:
        features = _choose_features(problem, evaluation)
        rows = features
        if problem.coordinates.fit_intercept:
            rows = np.append(features, problem.n_features)
        source = yield Columns(features)
        restricted = _restrict(problem, source.facts, features, rows)
        [result] = drive(
            [solve(restricted, evaluation.params[rows])],
            source,
            tol=_ACCURACY * evaluation.optimality,
            max_iter=_MAX_INNER_ROUNDS,
        )
        params = np.zeros_like(evaluation.params)
        params[rows] = result.evaluation.params
        previous, evaluation = evaluation, (yield Evaluate(problem, params))
        share = len(rows) / problem.n_params
        yield Round(
            evaluation,
            reduced_rows=result.passes * share * problem.n_rows,
            inner_steps=result.n_rounds,
        )
        is_stalled = stall.is_stalled_after(previous.objective, evaluation.objective)


def _choose_features(problem, evaluation):
    """Columns in use and the worst of the others, twice as many as in use."""
    n_features = problem.n_features
    is_used = evaluation.params[:n_features].any(axis=1)
    size = min(max(_FIRST_SIZE, 2 * int(is_used.sum())), n_features)
    violation = evaluation.violation[:n_features].max(axis=1)
    violation[is_used] = np.inf
    return np.sort(np.argpartition(-violation, size - 1)[:size])


def _restrict(problem, facts, features, rows):
    """Return the problem on some columns, in the same coordinates."""
    return replace(
        problem,
        facts=facts,
        user_penalty=problem.user_penalty.restrict(rows),
        criterion=KKTViolation(),
        coordinates=problem.coordinates.restrict(features),
        column_moments=None,
    )
