"""L1 penalties with many columns: solve on the columns that matter.

At the optimum most coefficients are zero. A round solves the problem restricted to a
*working set*, the columns with non-zero coefficients and those that violate the
optimality conditions most, and one pass over all columns tells which ones were missing.
The restricted problem is handed to any solver. It copies the columns of the working
set, which makes this a method for wide data and not for tall ones.
"""

import numpy as np

from skcara.data import Design
from skcara.objective import KKTViolation, Problem, SeparablePenalty
from skcara.solvers._rounds import Round, run_rounds

# Columns from which working sets pay, and the size of the first one. With many rows per
# column a copy of columns costs more than the Gram matrix of all, unless that is huge.
_MIN_FEATURES, _HUGE_FEATURES = 200, 1000
_MAX_ROWS_PER_FEATURE = 30
_FIRST_SIZE = 64
# How well a restricted problem is solved, relative to the violation on all columns.
_ACCURACY = 1e-2
_MAX_INNER_ROUNDS = 50
_NOISE, _MAX_STALLED_ROUNDS = 1e-14, 3


def has_many_columns(problem) -> bool:
    """Whether the penalty makes most of the many coefficients zero."""
    n_features = problem.design.n_features
    is_wide = problem.n_rows <= _MAX_ROWS_PER_FEATURE * n_features
    if n_features <= (_MIN_FEATURES if is_wide else _HUGE_FEATURES):
        return False
    return bool(problem.penalty.l1[:n_features].all())


def iterate_working_sets(problem, params, solve):
    """Yield rounds on growing working sets.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    solve : callable
        ``solve(problem, params)``: a generator of rounds for a restricted problem.

    Yields
    ------
    Round
    """
    evaluation, passes, n_stalled = problem.evaluate(params), 1.0, 0
    yield Round(evaluation, passes)
    while n_stalled < _MAX_STALLED_ROUNDS:
        features = _choose_features(problem, evaluation)
        rows = features
        if problem.design.fit_intercept:
            rows = np.append(features, problem.design.n_features)
        restricted = _restrict(problem, features, rows)
        result = run_rounds(
            solve(restricted, evaluation.params[rows]),
            tol=_ACCURACY * evaluation.optimality,
            max_iter=_MAX_INNER_ROUNDS,
        )
        params = np.zeros_like(evaluation.params)
        params[rows] = result.evaluation.params
        previous, evaluation = evaluation, problem.evaluate(params)
        passes += 1.0 + result.passes * len(rows) / problem.n_params
        yield Round(evaluation, passes, inner_steps=result.n_rounds)
        decrease = previous.objective - evaluation.objective
        is_stalled = decrease <= _NOISE * abs(previous.objective)
        n_stalled = n_stalled + 1 if is_stalled else 0


def _choose_features(problem, evaluation):
    """Columns in use and the worst of the others, twice as many as in use."""
    n_features = problem.design.n_features
    is_used = evaluation.params[:n_features].any(axis=1)
    size = min(max(_FIRST_SIZE, 2 * int(is_used.sum())), n_features)
    violation = evaluation.violation[:n_features].max(axis=1)
    violation[is_used] = np.inf
    return np.sort(np.argpartition(-violation, size - 1)[:size])


def _restrict(problem, features, rows):
    """Return the problem on some columns, in the same coordinates."""
    design, penalty = problem.design, problem.user_penalty
    restricted = Design(
        design.X[:, features],
        fit_intercept=design.fit_intercept,
        shift=design.shift[features],
        scale=design.scale[features],
        n_jobs=design.n_jobs,
    )
    return Problem(
        restricted,
        problem.target,
        problem.loss,
        SeparablePenalty(penalty.l1[rows], penalty.l2[rows], penalty.positive[rows]),
        KKTViolation(),
        problem.sample_weight,
    )
