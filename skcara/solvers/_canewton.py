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

import numpy as np

from skcara.objective import SquaredLoss
from skcara.solvers._newton import iterate_newton
from skcara.solvers._reduced import minimize_reduced
from skcara.solvers._rounds import Round
from skcara.solvers._sources import AllRows, CalibratedSample, RecombinedGroups
from skcara.solvers._statistics import has_cheap_statistics, iterate_statistics

# Up to this many entries of X a copy costs less than anything else.
_SMALL_ENTRIES = 2**20
# Smallest number of rows per coordinate for which a sample is worth its trouble.
_TALL_ROWS_PER_COORD = 500
# The predicted decrease must shrink at least this fast from round to round.
_CONTRACTION = 0.25
# How well a reduced problem is solved, relative to the distance from its optimum.
_REDUCED_ACCURACY = 1e-2
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
    is_free = options.recombination in ("auto", None)
    is_squared = isinstance(problem.loss, SquaredLoss)
    if is_squared and is_free and has_cheap_statistics(problem):
        yield from iterate_statistics(problem, params)
        return
    source = _make_source(problem, options, rng)
    if source is not None:
        yield from _iterate_measures(problem, params, source)
        return
    evaluation = problem.evaluate(params)
    yield Round(evaluation, 1.0)
    yield from iterate_newton(problem, evaluation, passes=1.0)


def _make_source(problem, options, rng):
    if problem.n_rows * problem.n_params <= _SMALL_ENTRIES:
        return AllRows(problem)
    is_tall = problem.n_rows >= _TALL_ROWS_PER_COORD * problem.n_coords
    if options.recombination is None or not is_tall:
        return None
    if options.recombination == "auto":
        return CalibratedSample(problem, rng)
    return RecombinedGroups(problem, options.recombination, rng)


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
    progress = _Progress()
    start = source.start(params)
    params, passes, model = start.params, start.passes, start.model
    measure, n_recombinations, steps, expected = None, 0, 0, np.inf
    while not progress.is_stalled:
        evaluation = problem.evaluate(params, group_rows=source.group_rows)
        passes += 1
        yield Round(evaluation, passes, n_recombinations, steps, measure)
        if not progress.improves(evaluation):
            model, expected = None, 0.0
        best = progress.best
        while True:
            reduction = source.reduce(best) if expected else None
            if reduction is not None:
                solution = _minimize(reduction.problem, best.params, model)
                passes += _share(problem, reduction, solution)
                if solution.first_decrease <= _CONTRACTION * expected:
                    break
            if not source.enlarge():
                model = None if reduction is None else solution.model
                yield from iterate_newton(
                    problem,
                    best,
                    model=model,
                    passes=passes,
                    n_recombinations=n_recombinations,
                )
                return
            model, expected = None, np.inf
        expected, model = solution.first_decrease, solution.model
        measure, steps = reduction.measure, solution.steps
        n_recombinations += measure is not None
        params = solution.params.reshape(params.shape)


def _minimize(reduced, params, model):
    start = reduced.evaluate(params.ravel())
    return minimize_reduced(reduced, start, model=model, accuracy=_REDUCED_ACCURACY)


def _share(problem, reduction, solution):
    """Work of a reduced solve in passes over the full data."""
    work = 2 + solution.evaluations + solution.hessians
    return work * reduction.problem.n_rows / problem.n_rows
