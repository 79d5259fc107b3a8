r"""Newton steps on all rows: the fallback that converges on any convex problem.

The Hessian is summed over chunks of rows, so nothing is copied. A step is accepted if it
decreases the full objective sufficiently; otherwise it is halved. A Hessian is kept as
long as the predicted decrease shrinks fast.
"""

import numpy as np
from scipy import sparse

from skcara.solvers._quadratic import QuadraticModel
from skcara.solvers._reduced import loss_hessian
from skcara.solvers._rounds import Round

_SUFFICIENT_DECREASE = 1e-4
_CHORD_CONTRACTION = 0.02
_MAX_HALVINGS = 40
_NOISE = 1e-14


def iterate_newton(problem, params, passes=0.0, n_recombinations=0):
    """Yield rounds of damped proximal Newton steps on the full data.

    Parameters
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    passes : float
        Passes made before.
    n_recombinations : int
        Measures built before.

    Yields
    ------
    Round
    """
    anchor = problem.evaluate(params)
    passes += 1
    yield Round(anchor, passes, n_recombinations)
    model, is_fresh, previous = None, False, np.inf
    while True:
        if model is None:
            model, is_fresh = full_model(problem, anchor.params), True
            passes += 1
        flat, gradient = anchor.params.ravel(), anchor.smooth_gradient.ravel()
        candidate = model.minimize(flat, gradient)
        predicted = -0.5 * model.decrease(flat, gradient, candidate)
        if predicted > _CHORD_CONTRACTION * previous and not is_fresh:
            model = None
            continue
        share = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = problem.evaluate(
                (flat + share * (candidate - flat)).reshape(params.shape)
            )
            passes += 1
            yield Round(trial, passes, n_recombinations, inner_steps=1)
            required = 2 * _SUFFICIENT_DECREASE * share * predicted
            noise = _NOISE * abs(anchor.objective)
            if trial.objective <= anchor.objective - required + noise:
                break
            share *= 0.5
        else:
            return
        is_rounding = anchor.objective - trial.objective <= noise
        if is_rounding and trial.stop_value >= 0.5 * anchor.stop_value and is_fresh:
            return
        previous = predicted if share == 1.0 else 0.0
        anchor, is_fresh = trial, False


def full_model(problem, params) -> QuadraticModel:
    """Quadratic model with the Hessian of the full objective, in one pass."""
    weights = problem.weights

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        rows = _with_intercept(rows, problem.design.fit_intercept)
        hessian = loss_hessian(
            rows, weights[part], problem.loss, problem.target[part], rows @ params
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


def _with_intercept(rows, fit_intercept):
    if not fit_intercept:
        return rows
    ones = np.ones((rows.shape[0], 1))
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.hstack([rows, ones], format="csr"))
    return np.hstack([rows, ones])
