r"""Newton and secant steps on all rows: the stage that converges on any convex problem.

The Hessian is summed over chunks of rows, so nothing is copied. A step is accepted if
it decreases the full objective sufficiently; otherwise it is halved. Between two
Hessians each step costs one pass, and the exact change of the gradient that it caused
improves the Hessian by a secant update. A Hessian is computed anew only where the
passes that it is expected to save cost more than it does. The first one may come from a
reduced measure: then only the directions in which the measure was wrong have to be
corrected.
"""

import numpy as np

from skcara.data import append_ones
from skcara.solvers._quadratic import QuadraticModel, steps_left
from skcara.solvers._reduced import loss_hessian
from skcara.solvers._rounds import Round

_SUFFICIENT_DECREASE = 1e-4
# An approximate Hessian that needs more than a few halvings is not worth more passes.
_MAX_HALVINGS, _MAX_APPROXIMATE_HALVINGS = 40, 3
# Relative decrease of the objective that is worth no more passes, to estimate how many
# are left; and the one that is rounding.
_GOAL, _NOISE = 1e-11, 1e-14
_MAX_STALLED_STEPS = 3


def iterate_newton(problem, anchor, *, model=None, passes=0.0, n_recombinations=0):
    """Yield rounds of damped proximal Newton and secant steps on the full data.

    Parameters
    ----------
    problem : Problem
    anchor : Evaluation
        The starting point.
    model : QuadraticModel, optional
        Approximate Hessian at the starting point.
    passes : float
        Passes made before.
    n_recombinations : int
        Measures built before.

    Yields
    ------
    Round
    """
    is_exact, previous, n_stalled = False, (), 0
    cost = _hessian_cost(problem)
    while True:
        if model is None:
            model, is_exact, previous = full_model(problem, anchor.params), True, ()
            passes += 1
        flat, gradient = anchor.params.ravel(), anchor.smooth_gradient.ravel()
        candidate = model.minimize(flat, gradient)
        predicted = -0.5 * model.decrease(flat, gradient, candidate)
        goal = _GOAL * abs(anchor.objective)
        if not is_exact and _steps_left(predicted, previous, goal) > cost:
            model = None
            continue
        noise = _NOISE * abs(anchor.objective)
        halvings = _MAX_HALVINGS if is_exact else _MAX_APPROXIMATE_HALVINGS
        for share, trial in _trials(problem, anchor, candidate, halvings):
            passes += 1
            yield Round(trial, passes, n_recombinations, inner_steps=1)
            required = 2 * _SUFFICIENT_DECREASE * share * predicted
            if trial.objective <= anchor.objective - required + noise:
                break
        else:
            if is_exact:
                return
            model = None
            continue
        decrease = anchor.objective - trial.objective
        n_stalled = 0 if decrease > noise else n_stalled + 1
        if n_stalled >= _MAX_STALLED_STEPS and is_exact:
            return
        step = trial.params.ravel() - flat
        change = trial.smooth_gradient.ravel() - gradient
        anchor, previous, is_exact = trial, (*previous[-1:], predicted), False
        # An approximate Hessian may know nothing of a coordinate that still has to
        # move: only the exact one is allowed to end the search.
        is_stalled = n_stalled >= _MAX_STALLED_STEPS
        model = None if is_stalled else model.secant(step, change)


def _steps_left(predicted, previous, goal):
    """Extrapolate the mean contraction of the last two steps: single ones jump."""
    if len(previous) < 2:
        return steps_left(predicted, previous[-1] if previous else np.inf, goal)
    return steps_left(predicted, np.sqrt(predicted * previous[0]), goal)


def _trials(problem, anchor, candidate, max_halvings):
    """Evaluate the candidate, then points ever closer to the anchor."""
    move = candidate.reshape(anchor.params.shape) - anchor.params
    for halvings in range(max_halvings):
        share = 0.5**halvings
        yield share, problem.evaluate(anchor.params + share * move)


def _hessian_cost(problem):
    """Price of a Hessian in passes."""
    design = problem.design
    if design.is_sparse:
        # Products of all pairs of entries of a row, in a format that costs more.
        return 2 + 2 * design.X.nnz / design.n_rows * problem.n_outputs
    return 2 + problem.n_coords / 16


def full_model(problem, params) -> QuadraticModel:
    """Quadratic model with the Hessian of the full objective, in one pass."""

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        rows = append_ones(rows) if problem.design.fit_intercept else rows
        hessian = loss_hessian(
            rows,
            problem.row_weights(part),
            problem.loss,
            problem.target[part],
            rows @ params,
        )
        return [hessian]

    [matrix] = problem.design.map_reduce(visit, explicit=True)
    penalty, n_outputs = problem.penalty, problem.n_outputs
    matrix.flat[:: len(matrix) + 1] += np.repeat(penalty.l2[:, 0], n_outputs)
    return QuadraticModel(
        matrix,
        np.repeat(penalty.l1[:, 0], n_outputs),
        np.repeat(penalty.positive[:, 0], n_outputs),
    )
