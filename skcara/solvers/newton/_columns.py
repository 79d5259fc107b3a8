r"""Smooth losses with many columns: secant steps in a metric that costs little.

A Hessian of many columns costs more than many passes. Here every step is taken with
exact gradients of all rows, in the metric of :mod:`skcara.solvers.newton._metric`,
which knows the curvature of the columns and, where a sample can tell, their
correlations; the changes of the gradient tell the rest
(:mod:`skcara.solvers.newton._secant_steps`). Where steps contract so slowly that the
Hessian of all rows would pay, it becomes the metric.
"""

from functools import partial

import numpy as np

from skcara.passes import Draw, Evaluate, EvaluateCurvature, Hessian, Take
from skcara.solvers._progress import StallDetector
from skcara.solvers._quadratic import ScaledCholesky, steps_left
from skcara.solvers._rounds import Round
from skcara.solvers._sample_size import start_rows
from skcara.solvers._strategy import Way, has_small_hessian, may_be_measured
from skcara.solvers.newton._column_sample import (
    sheared_metric,
    start_on_sample,
    take_correlations,
)
from skcara.solvers.newton._concentration import is_concentrated
from skcara.solvers.newton._measures import reduced_problem
from skcara.solvers.newton._metric import Curvature, DifferenceMetric
from skcara.solvers.newton._newton import hessian_cost, iterate_newton
from skcara.solvers.newton._reduced import ReducedPoint
from skcara.solvers.newton._secant_steps import SecantDescent

# Relative decrease that is worth no more passes, unless a fit goes on below it: then
# two more digits are the goal. Their number is estimated from the mean contraction over
# so many steps, because single ones jump. It is believed up to a multiple of the steps
# that were taken: where rows can be told apart the predicted decrease grows at first,
# and a Hessian that costs more than all steps (300 rows of 200 columns in 20 classes:
# 3.5 s instead of 0.07 s) must not be asked for on the evidence of a few of them.
_GOAL, _GOAL_SHARE = 1e-8, 1e-2
_OBSERVED_STEPS = 8
_FORESEEN_STEPS = 4
# Effective number of rows behind the curvature of a column: an error of ten per cent in
# a metric costs next to nothing.
_MIN_EFFECTIVE_ROWS = 100
# Likewise, where the sample says next to nothing about a coordinate.
_HANDFUL = 5


def iterate_columns(problem, params, rng):
    """Yield secant steps on all rows.

    Parameters
    ----------
    problem : Problem
        Without L1 term and constraints.
    params : ndarray of shape (n_params, n_outputs)
        Starting point; zeros mean that the solver finds its own.
    rng : numpy.random.RandomState

    Yields
    ------
    Request, Way or Round

    Returns
    -------
    is_uneven : bool
        Whether nothing was done, because measures are better at such rows.
    """
    started = yield from _start(problem, params, rng)
    if started is None:
        return True
    metric, anchor, work = started
    descent, is_exact = _descent(problem, metric, anchor), False
    yield Round(anchor, predicted=partial(float, descent.predicted), **work)
    stall = StallDetector()
    predicted: list[float] = []  # after each step in the current metric
    can_improve = has_small_hessian(problem)
    while True:
        before = descent.point.objective
        trial = yield Evaluate(problem, descent.trial.reshape(anchor.params.shape))
        is_step = descent.receive(_point(trial))
        if is_step:
            anchor = trial
        left = descent.predicted if is_step else np.inf
        yield Round(trial, inner_steps=1, predicted=partial(float, left))
        has_ended = descent.has_failed
        if is_step:
            predicted.append(descent.predicted)
            has_ended = stall.is_stalled_after(before, trial.objective)
        if has_ended and (is_exact or not can_improve):
            break
        if has_ended or (can_improve and _is_slow(problem, predicted, before)):
            matrix = yield Hessian(problem, anchor.params)
            _, l2, _ = problem.penalty.flat(problem.n_outputs)
            matrix.flat[:: len(matrix) + 1] += l2
            descent = _descent(problem, ScaledCholesky(matrix), anchor)
            is_exact = True
            predicted.clear()
    if can_improve:
        yield Way.NEWTON
        yield from iterate_newton(problem, anchor)
    return False


def _start(problem, params, rng):
    """Find a starting point and a metric; return it with the first evaluation.

    None if coordinates of few columns hang on few rows: their curvature changes so fast
    that the metric of one point says little about the next.
    """
    indices, weights = yield Draw(start_rows(problem), rng)
    weights = weights / weights.sum()
    taken = yield Take(problem, indices)
    sample = reduced_problem(problem, taken, weights)
    start = start_on_sample(sample, problem, params)
    if may_be_measured(problem) and is_concentrated(
        sample, start.params, least=_HANDFUL
    ):
        return None
    correlations, n_correlated = yield from take_correlations(
        problem, sample, start, rng
    )
    # Columns of which a sample has too few rows need the curvature of all of them.
    is_sparse = problem.facts.is_sparse
    has_second = is_sparse or is_concentrated(
        sample, start.params, least=_MIN_EFFECTIVE_ROWS
    )
    del sample
    params = problem.loss.without_constants(start.params, axis=1)
    evaluation, sums = yield EvaluateCurvature(problem, params, has_second)
    variance = None if has_second else start.curvature.variance
    curvature = Curvature.from_sums(sums, problem.coordinates.fit_intercept, variance)
    metric = sheared_metric(problem, curvature, correlations=correlations)
    return metric, evaluation, {"reduced_rows": start.reduced_rows + n_correlated}


def _descent(problem, metric, anchor) -> SecantDescent:
    """Steps in a metric, in the directions that the loss knows."""
    if problem.loss.is_invariant:
        metric = DifferenceMetric(metric, problem.loss)
    return SecantDescent(metric, _point(anchor))


def _point(evaluation) -> ReducedPoint:
    return ReducedPoint(
        evaluation.params.ravel(),
        evaluation.objective,
        evaluation.smooth_gradient.ravel(),
    )


def _is_slow(problem, predicted, objective):
    """Whether the Hessian costs less than the steps that are left without it."""
    if len(predicted) < _OBSERVED_STEPS:
        return False
    rate = (predicted[-1] / predicted[-_OBSERVED_STEPS]) ** (1 / (_OBSERVED_STEPS - 1))
    goal = min(_GOAL * abs(objective), _GOAL_SHARE * predicted[-1])
    left = steps_left(predicted[-1], predicted[-1] / rate, goal)
    return min(left, _FORESEEN_STEPS * len(predicted)) > hessian_cost(problem)
