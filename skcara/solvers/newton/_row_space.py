r"""Fewer rows than columns: solve in the space that the rows span.

A smooth loss of the predictions plus a penalty :math:`\tfrac12 l2 \|c\|^2`, the same
for all columns, has a minimiser among the combinations of the rows: what is orthogonal
to all of them changes no prediction and adds to the penalty. (Without a penalty the
minimiser of least norm is such a combination.) With the orthonormal basis ``Q`` of
these combinations,

.. math:: X = R^\top Q^\top , \qquad c = Q\, b ,

the problem in ``b`` has the rows of :math:`R^\top`, as many columns as there are rows,
and the same penalty. It is handed to any solver; a pass over all columns judges what
it finds.
"""

from dataclasses import replace

import numpy as np
from scipy import linalg

from skcara.data import ArraySource, Coordinates
from skcara.objective import KKTViolation
from skcara.passes import Evaluate, Take, evaluate_first
from skcara.solvers._driver import drive
from skcara.solvers._progress import StallDetector
from skcara.solvers._rounds import Round, Status, unknown_decrease
from skcara.solvers._standardise import standardised

# How well the problem in the basis is solved, relative to the violation on all columns:
# mostly one round is enough for the default tolerance.
_ACCURACY = 1e-4
_MAX_INNER_ROUNDS = 1000
_ENDED = (Status.CONVERGED, Status.STALLED)


def iterate_row_space(problem, params, solve):
    """Yield rounds in the space of the rows.

    Parameters
    ----------
    problem : Problem
        With an L2 penalty that is the same for all columns, or none.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    solve : callable
        ``solve(problem, params)``: a solver of the problem in the basis.

    Yields
    ------
    Request or Round

    Returns
    -------
    params : ndarray of shape (n_params, n_outputs)
        The best point; another way has to go on from there.
    """
    problem, best = yield from evaluate_first(problem, params)
    yield Round(best, predicted=unknown_decrease)
    space = yield from _take_space(problem)
    stall = StallDetector()
    while True:
        params, result = space.minimize(best, solve)
        evaluation = yield Evaluate(problem, params)
        yield Round(
            evaluation,
            reduced_rows=result.passes * space.share * problem.n_rows,
            inner_steps=result.n_rounds,
            # Whoever has not ended cannot tell what is left.
            predicted=None if result.status in _ENDED else unknown_decrease,
        )
        is_stalled = stall.is_stalled_after(best.objective, evaluation.objective)
        if evaluation.objective <= best.objective:
            best = evaluation
        if is_stalled:
            return best.params


def _take_space(problem):
    """Copy the rows and factorise them; a generator of requests."""
    shift = np.zeros(problem.n_features)
    if problem.coordinates.fit_intercept:
        shift = problem.facts.reference_row
    near = Coordinates(shift, np.ones_like(shift), False)
    taken = yield Take(
        problem.with_coordinates(near), np.arange(problem.n_rows), keep_sparse=False
    )
    return _RowSpace(problem, taken, shift)


class _RowSpace:
    """The problem in an orthonormal basis of its rows.

    Parameters
    ----------
    problem : Problem
        On all columns.
    taken : TakenRows
        All rows, without the column of ones.
    shift : ndarray of shape (n_features,)
        What was subtracted from the columns.

    Attributes
    ----------
    share : float
        Columns of the basis, of all columns.
    """

    def __init__(self, problem, taken, shift):
        self._coordinates, self._shift = problem.coordinates, shift
        rows, target, shares = taken.counted()
        weights = shares if problem.facts.has_weights else None
        self._basis, triangle = linalg.qr(rows.T, mode="economic", check_finite=False)
        self.share = self._basis.shape[1] / problem.n_features
        self._source = ArraySource(
            np.ascontiguousarray(triangle.T), target, weights, n_jobs=None
        )
        fit_intercept = problem.coordinates.fit_intercept
        kept = np.arange(problem.n_params) < self._basis.shape[1]
        kept[problem.n_features :] = True
        self._restricted = replace(
            problem,
            facts=self._source.facts,
            user_penalty=problem.user_penalty.restrict(kept),
            criterion=KKTViolation(),
            coordinates=standardised(self._source, fit_intercept),
            column=None,
            column_moments=None,
        )

    def minimize(self, evaluation, solve):
        """Minimise from the point of an evaluation; params, and how it went."""
        coef, intercept = self._coordinates.to_user(evaluation.params)
        own = self._restricted.coordinates
        level = intercept + self._shift @ coef
        [result] = drive(
            [solve(self._restricted, own.from_user(self._basis.T @ coef, level))],
            self._source,
            tol=_ACCURACY * evaluation.optimality,
            max_iter=_MAX_INNER_ROUNDS,
        )
        own_coef, level = own.to_user(result.evaluation.params)
        coef = self._basis @ own_coef
        params = self._coordinates.from_user(coef, level - self._shift @ coef)
        return params, result
