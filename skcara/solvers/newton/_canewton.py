r"""Newton steps on reduced measures that carry the full gradient exactly.

Round by round:

1. One pass over all rows gives objective ``F`` and gradient ``g`` at the anchor ``a``.
2. A reduced measure (a few per cent of the rows, positive weights, mass one) is chosen
   such that the gradient of its objective at ``a`` is ``g``, exactly.
3. The reduced objective is minimised to convergence by (proximal) Newton steps on the
   reduced rows; its minimiser is the next anchor.

Because the gradient is exact, a fixed point of the rounds is the optimum of the full
problem, whatever rows are in the measure. With the Hessians ``H`` of the full and
``H_m`` of the reduced objective, the error of the anchor is multiplied by about

.. math:: I - H_m^{-1} H = O(\sqrt{n_{coords} / m})

for ``m`` representative rows: a few passes reach any accuracy. The start is a solve on
the sample alone, whose suboptimality is about ``n_coords / (2 m)``.

Trust is measured on the full data. The next pass tells whether the objective decreased;
if not, the solver returns to the best anchor and enlarges the measure. The first model
of each round predicts the decrease still to come; if that does not shrink fast from
round to round the measure is enlarged as well. When there are no more rows to add, the
steps become Newton steps on all rows (:mod:`skcara.solvers.newton._newton`).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skcara.data import random_generator
from skcara.passes import Evaluate, evaluate_first
from skcara.solvers._progress import OBJECTIVE_NOISE, StallDetector
from skcara.solvers._rounds import Round, unknown_decrease
from skcara.solvers._strategy import Way, choose_column_way, choose_way, fits_matrix
from skcara.solvers.newton._columns import iterate_columns
from skcara.solvers.newton._coordinate_descent import iterate_descent
from skcara.solvers.newton._measures import (
    AllRows,
    CalibratedSample,
    RecombinedGroups,
    Reduction,
)
from skcara.solvers.newton._newton import iterate_newton, predicted_decrease
from skcara.solvers.newton._reduced_steps import ReducedSolution, minimize_reduced
from skcara.solvers.newton._row_space import iterate_row_space
from skcara.solvers.newton._working_set import iterate_working_sets
from skcara.solvers.squared import iterate_on_sample, iterate_statistics

# The predicted decrease must shrink at least this fast from round to round.
_CONTRACTION = 0.25


@dataclass(frozen=True)
class CanewtonOptions:
    """Options of the solver: how measures are reduced, ``None`` meaning not at all."""

    recombination: str | None = "auto"


def iterate_canewton(problem, params, options, seed, *, has_all_columns=True):
    """Yield Newton steps on reduced measures.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
        Starting point; zeros mean that the solver finds its own.
    options : CanewtonOptions
    seed : int or numpy.random.RandomState
        Of random numbers.
    has_all_columns : bool
        Whether the problem is not itself restricted to a working set.

    Yields
    ------
    Request, Way or Round
    """
    method = options.recombination
    way = choose_way(problem, method, has_all_columns=has_all_columns)
    yield way
    # What is left of a problem, few columns or the space of few rows, goes its own way.
    solve = partial(iterate_canewton, options=options, seed=seed, has_all_columns=False)
    if way is Way.ROW_SPACE:
        params = yield from iterate_row_space(problem, params, solve)
        if problem.loss.is_quadratic and not fits_matrix(problem):
            return
        way = choose_column_way(problem, method)
        yield way
    if way is Way.WORKING_SETS:
        yield from iterate_working_sets(problem, params, solve)
    elif way is Way.STATISTICS:
        yield from iterate_statistics(problem, params)
    elif way is Way.COORDINATE_DESCENT:
        params = yield from iterate_descent(problem, params)
        yield Way.STATISTICS
        yield from iterate_statistics(problem, params)
    elif way is Way.SAMPLE_METRIC:
        yield from iterate_on_sample(problem, params, random_generator(seed))
    elif way is Way.SECANT_STEPS:
        rng = random_generator(seed)
        if (yield from iterate_columns(problem, params, rng)):
            yield Way.CALIBRATED_SAMPLE
            yield from _iterate_supply(problem, params, CalibratedSample(problem, rng))
    elif way is Way.NEWTON:
        problem, evaluation = yield from evaluate_first(problem, params)
        yield Round(evaluation, predicted=unknown_decrease)
        yield from iterate_newton(problem, evaluation)
    else:
        supply = {
            Way.ALL_ROWS: lambda: AllRows(problem),
            Way.CALIBRATED_SAMPLE: lambda: CalibratedSample(
                problem, random_generator(seed)
            ),
            Way.RECOMBINED_GROUPS: lambda: RecombinedGroups(
                problem, method, random_generator(seed)
            ),
        }[way]
        # No name for the supply: its rows are freed before the rounds on all rows.
        yield from _iterate_supply(problem, params, supply())


def _iterate_supply(problem, params, supply):
    """Yield rounds on the measures of a supply, then on all rows."""
    rest = yield from _iterate_measures(problem, params, supply)
    del supply
    yield Way.NEWTON
    yield from rest


class _Progress:
    """The best evaluation so far, and whether rounds still improve on it."""

    def __init__(self):
        self.best = None
        self.is_stalled = False
        self._stall = StallDetector()

    def improves(self, evaluation) -> bool:
        """Record an evaluation; false if it is worse than the best one."""
        best = self.best
        if best is None:
            self.best = evaluation
            return True
        noise = OBJECTIVE_NOISE * abs(best.objective)
        decrease = best.objective - evaluation.objective
        is_improvement = decrease > noise or (
            decrease >= -noise and evaluation.stop_value < best.stop_value
        )
        self.is_stalled = self._stall.is_stalled_after(
            best.objective, evaluation.objective
        )
        if is_improvement:
            self.best = evaluation
        return is_improvement


def _iterate_measures(problem, params, supply):
    """Yield rounds on the measures of a supply; return rounds on all rows.

    The latter are for the case that the measures fail.
    """
    progress = _Progress()
    start = yield from supply.start(params)
    params, model = start.params, start.model
    work = {"reduced_rows": start.reduced_rows}
    del start  # matrices of many columns are not small: only the latest model is kept
    measure, steps, expected = None, 0, np.inf
    while True:
        if progress.best is None:
            first = yield from evaluate_first(problem, params, supply.group_rows)
            problem, evaluation = first
        else:
            evaluation = yield Evaluate(problem, params, supply.group_rows)
        predict = unknown_decrease
        if model is not None:
            predict = partial(predicted_decrease, problem, model, evaluation)
        yield Round(
            evaluation, inner_steps=steps, measure=measure, predicted=predict, **work
        )
        work = {}
        is_improved = progress.improves(evaluation)
        if not is_improved:
            model, expected = None, np.inf
        if progress.is_stalled or not (is_improved or (yield from supply.enlarge())):
            break
        step = yield from _step_on_measure(progress.best, supply, model, expected)
        if step is None:
            model = None
            break
        work, model = {"reduced_rows": step.reduced_rows}, step.solution.model
        if not step.is_trusted:
            break
        expected, steps = step.solution.first_decrease, step.solution.steps
        measure = step.reduction.measure
        if measure is not None:
            is_recombined = step.reduction.is_recombined
            work["n_recombinations" if is_recombined else "n_calibrations"] = 1
        params = step.solution.params.reshape(params.shape)
    return iterate_newton(problem, progress.best, model=model, pending=work)


@dataclass(frozen=True)
class _Step:
    """A minimiser of a reduced objective, and whether it deserves a pass."""

    reduction: Reduction
    solution: ReducedSolution
    reduced_rows: float
    is_trusted: bool


def _step_on_measure(anchor, supply, model, expected):
    """Minimise the objective of a measure that is large enough.

    The decrease that the first model predicts is the distance of the anchor from the
    optimum. If the last round did not bring it down far enough below ``expected``, the
    measure was too small.
    """
    reduced_rows = 0.0
    while True:
        reduction = yield from supply.reduce(anchor)
        if reduction is None:
            return None
        reduced = reduction.problem
        solution = minimize_reduced(
            reduced,
            reduced.evaluate(anchor.params.ravel()),
            model=model,
            accuracy=supply.accuracy,
        )
        # One evaluation to calibrate and one to start from, besides those counted.
        reduced_rows += (2 + solution.evaluations + solution.hessians) * reduced.n_rows
        is_trusted = solution.first_decrease <= _CONTRACTION * expected
        if is_trusted or not (yield from supply.enlarge()):
            return _Step(reduction, solution, reduced_rows, is_trusted)
        model, expected = None, np.inf
