"""Newton steps on the objective of a reduced measure.

They use the true reduced loss, not only its quadratic model, and compute a Hessian only
where that pays: the steps between two Hessians cost one gradient each, and their
changes of the gradient improve the Hessian by secant updates.

With an L1 term each model is minimised from face to face. On few rows with many
coordinates that may be a long way: steps that are still not enough go through the
interior instead (:mod:`skcara.solvers.newton._interior`).
"""

from dataclasses import dataclass

import numpy as np

from skcara.solvers._quadratic import SUFFICIENT_DECREASE, QuadraticModel, steps_left
from skcara.solvers.newton._interior import minimize_interior

_EPS = np.finfo(np.float64).eps
# A step that is useful at all is so long before.
_MAX_HALVINGS = 30
# A step with a Hessian of its own squares the distance to the optimum, up to a factor
# that is seldom larger than the inverse square of this one (a thousand).
_NEWTON_SHARE = 0.03
# Factorisations of a model, as shares of one of all coordinates, after which an L1 term
# is too hard for faces: two dozen steps through the interior take one each. Of 20 to
# 150 columns in 5 to 30 classes most are solved with fewer; others take hundreds.
_MAX_EFFORT = 16
# What they may leave of the accuracy that was asked for. Where they left all of it,
# most of these problems took another round, some of them twice the time.
_INTERIOR_SHARE = 0.1


@dataclass(frozen=True)
class ReducedSolution:
    """Result of :func:`minimize_reduced`.

    Attributes
    ----------
    params : ndarray of shape (n_coords,)
    first_decrease : float
        Decrease that the first model predicted: half the squared Newton decrement,
        a scale-free distance from the starting point to the optimum.
    steps, evaluations, hessians : int
        Accepted steps, gradients and Hessians on the reduced rows.
    model : QuadraticModel or None
        The last Hessian, for reuse; None if the steps were not enough.
    """

    params: np.ndarray
    first_decrease: float
    steps: int
    evaluations: int
    hessians: int
    model: QuadraticModel | None


def minimize_reduced(problem, start, *, model=None, accuracy=1e-4, max_steps=50):
    """Minimise a reduced objective by damped proximal Newton and secant steps.

    Parameters
    ----------
    problem : ReducedProblem
    start : ReducedPoint
        The reduced objective at the starting point.
    model : QuadraticModel, optional
        A Hessian from a nearby point or measure.
    accuracy : float
        Stop when the predicted decrease is this share of the first one, or will be
        after a step with a Hessian of its own. The measure itself is only that good,
        and the next full gradient corrects both.
    max_steps : int
        Bound on the number of steps.

    Returns
    -------
    ReducedSolution
    """
    newton_accuracy = max(accuracy, _NEWTON_SHARE * accuracy**0.5)
    point, previous, is_fresh = start, np.inf, False
    first: float | None = None
    steps, evaluations, hessians, effort = 0, 0, 0, 0.0
    for _ in range(max_steps):
        if effort > _MAX_EFFORT and problem.has_hard_signs:
            excess = _INTERIOR_SHARE * accuracy * first
            inside = minimize_interior(problem, point, excess=excess)
            point, model, effort = inside.point, None, -np.inf
            evaluations += inside.evaluations
            hessians += inside.hessians
        if model is None:
            model, is_fresh, previous = problem.model(point.params), True, np.inf
            hessians += 1
        effort -= model.effort
        candidate = model.minimize(
            point.params, point.gradient, max_sweeps=problem.max_sweeps
        )
        effort += model.effort
        predicted = -0.5 * model.decrease(point.params, point.gradient, candidate)
        first = predicted if first is None else first
        is_last = not predicted > (newton_accuracy if is_fresh else accuracy) * first
        n_left = steps_left(predicted, previous, accuracy * first)
        if not is_last and not is_fresh and n_left > problem.hessian_steps:
            model = None
            continue
        following, tried = _line_search(problem, point, candidate, predicted)
        evaluations += tried
        if following is None:
            if is_fresh or is_last:
                break
            previous = 0.0
            continue
        steps += 1
        if problem.hessian_steps < 1 and not is_last:
            model = None
        else:
            change = following.gradient - point.gradient
            model = model.secant(following.params - point.params, change)
        point, previous, is_fresh = following, predicted, False
        if is_last:
            break
    decrease = 0.0 if first is None else first
    return ReducedSolution(point.params, decrease, steps, evaluations, hessians, model)


def _line_search(problem, point, candidate, predicted):
    """First of the points ``candidate``, halfway, ... that decreases enough."""
    # Differences of the objective below this are rounding.
    noise = 4 * _EPS * abs(point.objective)
    share = 1.0
    for halving in range(_MAX_HALVINGS):
        params = point.params + share * (candidate - point.params)
        following = problem.evaluate(params)
        required = 2 * SUFFICIENT_DECREASE * share * predicted
        if following.objective <= point.objective - required + noise:
            return following, halving + 1
        share *= 0.5
    return None, _MAX_HALVINGS
