r"""Newton and secant steps on all rows: the stage that converges on any convex problem.

The Hessian is summed over chunks of rows, so nothing is copied. A step is accepted if
it decreases the full objective sufficiently; otherwise it is halved. Between two
Hessians each step costs one pass, and the exact change of the gradient that it caused
improves the Hessian by a secant update. A Hessian is computed anew only where the
passes that it is expected to save cost more than it does. The first one may come from a
reduced measure: then only the directions in which the measure was wrong have to be
corrected.

:func:`~skcara.solvers.newton._reduced_steps.minimize_reduced` takes the same steps on a
reduced measure. The two share their models, their line search condition and the
extrapolation of steps, not their loops: there an evaluation is free and the goal is a
share of the first decrease, here every trial is a round that the user may stop at.
"""

from functools import partial

import numpy as np

from skcara.passes import Evaluate, Hessian, evaluate_first
from skcara.solvers._progress import OBJECTIVE_NOISE, StallDetector
from skcara.solvers._quadratic import SUFFICIENT_DECREASE, penalised_model, steps_left
from skcara.solvers._rounds import Round
from skcara.solvers.newton._reduced import MAX_SWEEPS

# An approximate Hessian that needs more than a few halvings is not worth more passes.
_MAX_HALVINGS, _MAX_APPROXIMATE_HALVINGS = 40, 3
# Operations of a factorisation in the time in which a pass handles one entry for one
# output, of dense and of sparse rows: it counts where coordinates are as many as rows.
# With 500 rows, 30 columns and 40 classes a Hessian and its factor take the time of 200
# passes, of which these constants see 144.
_DENSE_OPERATIONS, _SPARSE_OPERATIONS = 16, 64
# Relative decrease of the objective that is worth no more passes, to estimate how many
# are left.
_GOAL = 1e-11


def iterate_newton(problem, anchor, *, model=None, pending=None):
    """Yield damped proximal Newton and secant steps on the full data.

    Parameters
    ----------
    problem : Problem
    anchor : Evaluation
        The starting point.
    model : QuadraticModel, optional
        Approximate Hessian at the starting point.
    pending : dict, optional
        What the first round has to report of work that was done before.

    Yields
    ------
    Request or Round
    """
    is_exact, stall = False, StallDetector()
    previous: tuple[float, ...] = ()
    cost, pending = hessian_cost(problem), pending or {}
    while True:
        if model is None:
            matrix = yield Hessian(problem, anchor.params)
            model = penalised_model(matrix, problem.penalty, problem.n_outputs)
            is_exact, previous = True, ()
        flat, gradient = anchor.params.ravel(), anchor.smooth_gradient.ravel()
        candidate = model.minimize(flat, gradient)
        predicted = -0.5 * model.decrease(flat, gradient, candidate)
        goal = _GOAL * abs(anchor.objective)
        if not is_exact and _steps_left(predicted, previous, goal) > cost:
            model = None
            continue
        noise = OBJECTIVE_NOISE * abs(anchor.objective)
        move = candidate.reshape(anchor.params.shape) - anchor.params
        for halving in range(_MAX_HALVINGS if is_exact else _MAX_APPROXIMATE_HALVINGS):
            share = 0.5**halving
            trial = yield Evaluate(problem, anchor.params + share * move)
            predict = partial(predicted_decrease, problem, model, trial)
            yield Round(trial, inner_steps=1, predicted=predict, **pending)
            pending = {}
            required = 2 * SUFFICIENT_DECREASE * share * predicted
            if trial.objective <= anchor.objective - required + noise:
                break
        else:
            if is_exact:
                return
            model = None
            continue
        is_stalled = stall.is_stalled_after(anchor.objective, trial.objective)
        if is_stalled and is_exact:
            return
        step = trial.params.ravel() - flat
        change = trial.smooth_gradient.ravel() - gradient
        anchor, previous, is_exact = trial, (*previous[-1:], predicted), False
        # An approximate Hessian may know nothing of a coordinate that still has to
        # move: only the exact one is allowed to end the search.
        model = None if is_stalled else model.secant(step, change)


def iterate_from_model(problem, params, model):
    """Yield steps on all rows from a point where a Hessian is known, more or less.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    model : QuadraticModel

    Yields
    ------
    Request or Round
    """
    problem, anchor = yield from evaluate_first(problem, params)
    predict = partial(predicted_decrease, problem, model, anchor)
    yield Round(anchor, predicted=predict)
    yield from iterate_newton(problem, anchor, model=model)


def predicted_decrease(problem, model, evaluation) -> float:
    """Decrease that a model predicts at a point other than its own.

    Where the loss is quadratic the stopping criterion knows better.
    """
    if problem.loss.is_quadratic:
        return 0.0
    flat, gradient = evaluation.params.ravel(), evaluation.smooth_gradient.ravel()
    candidate = model.minimize(flat, gradient, max_sweeps=MAX_SWEEPS)
    return -0.5 * model.decrease(flat, gradient, candidate)


def _steps_left(predicted, previous, goal):
    """Extrapolate the mean contraction of the last two steps: single ones jump."""
    if len(previous) < 2:
        return steps_left(predicted, previous[-1] if previous else np.inf, goal)
    return steps_left(predicted, np.sqrt(predicted * previous[0]), goal)


def hessian_cost(problem):
    """Price of a Hessian and of its factorisation in passes."""
    facts, n_outputs = problem.facts, problem.n_outputs
    factor = problem.n_coords**3 / 3 / max(facts.n_entries * n_outputs, 1)
    if facts.is_sparse:
        # Products of all pairs of entries of a row, in a format that costs more.
        products = 2 * facts.n_entries / problem.n_rows * n_outputs
        return 2 + products + factor / _SPARSE_OPERATIONS
    return 2 + problem.n_coords / 16 + factor / _DENSE_OPERATIONS
