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
steps become Newton steps on all rows (:mod:`skcara.solvers._newton`).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skcara.objective import SquaredLoss
from skcara.solvers._newton import iterate_newton
from skcara.solvers._reduced import ReducedSolution, minimize_reduced
from skcara.solvers._rounds import Round
from skcara.solvers._sources import (
    AllRows,
    CalibratedSample,
    RecombinedGroups,
    Reduction,
)
from skcara.solvers._squared import iterate_squared
from skcara.solvers._working_set import has_many_columns, iterate_working_sets

# Up to this many entries of X a copy costs less than anything else.
_SMALL_ENTRIES = 2**20
# Largest Hessian or Gram matrix.
_MAX_MATRIX_BYTES = 2**32
# Smallest number of rows per coordinate for which a sample is worth its trouble.
_TALL_ROWS_PER_COORD = 500
# The predicted decrease must shrink at least this fast from round to round.
_CONTRACTION = 0.25
# Relative change of the objective that is rounding.
_NOISE = 1e-14
_MAX_STALLED_ROUNDS = 3


@dataclass(frozen=True)
class CanewtonOptions:
    """Options of the solver: how measures are reduced, ``None`` meaning not at all."""

    recombination: str | None = "auto"


def iterate_canewton(problem, params, options, rng):
    """Yield rounds of Newton steps on reduced measures.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
        Starting point; zeros mean that the solver finds its own.
    options : CanewtonOptions
    rng : numpy.random.RandomState

    Yields
    ------
    Round
    """
    solve = partial(_iterate_on_columns, options=options, rng=rng)
    if has_many_columns(problem) and not _is_tall(problem):
        yield from iterate_working_sets(problem, params, solve)
    else:
        yield from solve(problem, params)


def _is_tall(problem):
    return problem.n_rows >= _TALL_ROWS_PER_COORD * problem.n_coords


def _iterate_on_columns(problem, params, options, rng):
    """Yield rounds on all columns: statistics, few rows, all rows, or measures."""
    _check_matrix_size(problem)
    is_squared = isinstance(problem.loss, SquaredLoss)
    is_tall = _is_tall(problem)
    if is_squared and options.recombination in ("auto", None):
        yield from iterate_squared(problem, params, rng, is_tall=is_tall)
    elif problem.n_rows * problem.n_params <= _SMALL_ENTRIES:
        rest = yield from _iterate_measures(problem, params, AllRows(problem))
        yield from rest
    elif options.recombination is None or not is_tall:
        evaluation = problem.evaluate(params)
        yield Round(evaluation, 1.0)
        yield from iterate_newton(problem, evaluation, passes=1.0)
    else:
        # No name for the source: its rows are freed before the rounds on all rows.
        rest = yield from _iterate_measures(
            problem, params, _make_source(problem, options.recombination, rng)
        )
        yield from rest


def _check_matrix_size(problem):
    if 8 * problem.n_coords**2 > _MAX_MATRIX_BYTES:
        raise ValueError(
            f"solver='canewton' would need a matrix of {problem.n_coords} x "
            f"{problem.n_coords} numbers: this problem is too wide for it. Choose "
            "solver='cabcd', a stronger L1 penalty, or an estimator for wide data."
        )


def _make_source(problem, recombination, rng):
    if recombination == "auto":
        return CalibratedSample(problem, rng)
    return RecombinedGroups(problem, recombination, rng)


class _Progress:
    """The best evaluation so far, and whether rounds still improve on it."""

    def __init__(self):
        self.best = None
        self.stalled_rounds = 0

    def improves(self, evaluation) -> bool:
        """Record an evaluation; false if it is worse than the best one."""
        best = self.best
        if best is None:
            self.best = evaluation
            return True
        noise = _NOISE * abs(best.objective)
        decrease = best.objective - evaluation.objective
        is_improvement = decrease > noise or (
            decrease >= -noise and evaluation.stop_value < best.stop_value
        )
        self.stalled_rounds = 0 if decrease > noise else self.stalled_rounds + 1
        if is_improvement:
            self.best = evaluation
        return is_improvement

    @property
    def is_stalled(self) -> bool:
        """Whether only rounding errors have changed for some rounds."""
        return self.stalled_rounds >= _MAX_STALLED_ROUNDS


def _iterate_measures(problem, params, source):
    """Yield rounds on the measures of a source; return rounds on all rows.

    The latter are for the case that the measures fail.
    """
    progress = _Progress()
    start = source.start(params)
    params, passes, model = start.params, start.passes, start.model
    del start  # matrices of many columns are not small: only the latest model is kept
    measure, n_recombinations, steps, expected = None, 0, 0, np.inf
    while True:
        evaluation = problem.evaluate(params, group_rows=source.group_rows)
        passes += 1
        yield Round(evaluation, passes, n_recombinations, steps, measure)
        is_improved = progress.improves(evaluation)
        if not is_improved:
            model, expected = None, np.inf
        if progress.is_stalled or not (is_improved or source.enlarge()):
            break
        step = _step_on_measure(problem, progress.best, source, model, expected)
        if step is None:
            model = None
            break
        passes, model = passes + step.passes, step.solution.model
        if not step.is_trusted:
            break
        expected, steps = step.solution.first_decrease, step.solution.steps
        measure = step.reduction.measure
        n_recombinations += measure is not None
        params = step.solution.params.reshape(params.shape)
    return iterate_newton(
        problem,
        progress.best,
        model=model,
        passes=passes,
        n_recombinations=n_recombinations,
    )


@dataclass(frozen=True)
class _Step:
    """A minimiser of a reduced objective, and whether it deserves a pass."""

    reduction: Reduction
    solution: ReducedSolution
    passes: float
    is_trusted: bool


def _step_on_measure(problem, anchor, source, model, expected):
    """Minimise the objective of a measure that is large enough.

    The decrease that the first model predicts is the distance of the anchor from the
    optimum. If the last round did not bring it down far enough below ``expected``, the
    measure was too small.
    """
    passes = 0.0
    while True:
        reduction = source.reduce(anchor)
        if reduction is None:
            return None
        reduced = reduction.problem
        solution = minimize_reduced(
            reduced,
            reduced.evaluate(anchor.params.ravel()),
            model=model,
            accuracy=source.accuracy,
        )
        # One evaluation to calibrate and one to start from, besides those counted.
        work = 2 + solution.evaluations + solution.hessians
        passes += work * reduced.n_rows / problem.n_rows
        is_trusted = solution.first_decrease <= _CONTRACTION * expected
        if is_trusted or not source.enlarge():
            return _Step(reduction, solution, passes, is_trusted)
        model, expected = None, np.inf
