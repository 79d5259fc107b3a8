r"""Minimise the objectives of all folds on one sample, for one penalty.

The objectives are

.. math:: \hat F_f(p) = \sum_k w_{fk}\, \ell(y_k, x_k^\top p) + \mathrm{penalty}_f(p)
    + s_f^\top p + \tfrac12 d\, (p - a_f)^2 ,

with a *tilt* :math:`s_f` that makes the gradient at the anchor :math:`a_f` that of all
the rows. Training sets overlap, so their solutions are close to each other: the
Hessians of all folds are taken at the mean of the points. Each fold improves its own
by secant updates; new ones are computed where that costs less than the steps that they
are expected to save.
"""

from dataclasses import dataclass, replace

import numpy as np

from skcara.objective import SeparablePenalty
from skcara.solvers._quadratic import (
    SUFFICIENT_DECREASE,
    penalised_model,
    steps_left,
)
from skcara.solvers.paths._fold_sample import FoldSample

# Far more steps, halvings and sweeps than were ever needed: what is not minimised then
# is left to the next read, which judges it.
_MAX_STEPS, _MAX_HALVINGS, _MAX_SWEEPS = 50, 30, 10
# A Hessian costs as much as one gradient for each so many coordinates, at least two.
_COORDS_PER_GRADIENT = 16
# Folds share their Hessians so many times; then their points are too far from each
# other, and those that are slow get Hessians of their own.
_MAX_SHARED = 3
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class FoldPoints:
    """One point for each of some folds.

    Attributes
    ----------
    folds : ndarray of int of shape (n_points,)
    params : ndarray of shape (n_points, n_params, n_outputs)
    models : list of QuadraticModel or None
        Hessians near the points, penalty included.
    """

    folds: np.ndarray
    params: np.ndarray
    models: list | None = None


@dataclass(frozen=True)
class Tilt:
    """A linear term for each point, and how firmly the anchor holds flat directions.

    Attributes
    ----------
    anchors, slopes : ndarray of shape (n_points, n_params, n_outputs)
    damping : ndarray of shape (n_params, 1)
    """

    anchors: np.ndarray
    slopes: np.ndarray
    damping: np.ndarray


def minimize_folds(
    sample: FoldSample, penalties, points: FoldPoints, tilt: Tilt, *, accuracy: float
) -> FoldPoints:
    """Damped proximal Newton steps for all points together.

    Parameters
    ----------
    sample : FoldSample
    penalties : list of SeparablePenalty
        One for each point.
    points : FoldPoints
        Where to start; its Hessians are used if there are any.
    tilt : Tilt
    accuracy : float
        Stop when the predicted decrease is this share of the first one.
    """
    objective = _Objective(sample, penalties, points.folds, tilt)
    params, active = points.params.copy(), np.arange(len(points.params))
    n_shared, models, is_fresh = _MAX_SHARED, points.models, points.models is None
    if models is None:
        n_shared, models = n_shared - 1, objective.models(params)
    models = list(models)
    values, gradients = objective.evaluate(params, active)
    first, previous = np.zeros(len(params)), np.full(len(params), np.inf)
    for step in range(_MAX_STEPS):
        moves, predicted = _propose(models, params, gradients, active)
        if step == 0:
            first[:] = predicted
            active = active[predicted > 0]
        else:
            # The last step is so short that it needs no check.
            is_last = ~(predicted[active] > accuracy * first[active])
            params[active[is_last]] += moves[active[is_last]]
            active = active[~is_last]
        if not active.size:
            break
        if not is_fresh:
            n_left = _steps_left(predicted, previous, accuracy * first, active)
            is_slow = n_left > objective.hessian_cost
            if n_shared and n_left.sum() > objective.hessian_cost:
                n_shared, models = n_shared - 1, objective.models(params)
                is_fresh = True
            elif not n_shared and is_slow.any():
                for point in active[is_slow]:
                    models[point] = objective.own_model(params[point], point)
                is_fresh = True
            if is_fresh:
                previous[:] = np.inf
                continue
        before = params.copy(), gradients.copy()
        active = _search_lines(
            objective, active, params, values, gradients, moves, predicted
        )
        for point in active:
            models[point] = models[point].secant(
                *(
                    (new - old)[point].ravel()
                    for new, old in zip((params, gradients), before, strict=True)
                )
            )
        previous, is_fresh = predicted, False
    return replace(points, params=params, models=models)


def _steps_left(predicted, previous, goal, active):
    """Steps that each active point still needs, extrapolated from the last two."""
    return np.array(
        [steps_left(predicted[point], previous[point], goal[point]) for point in active]
    )


def _propose(models, params, gradients, active):
    """Moves to the minimisers of the models, and the decreases they predict."""
    moves, predicted = np.zeros_like(params), np.zeros(len(params))
    for point in active:
        flat, slope = params[point].ravel(), gradients[point].ravel()
        candidate = models[point].minimize(flat, slope, max_sweeps=_MAX_SWEEPS)
        predicted[point] = -0.5 * models[point].decrease(flat, slope, candidate)
        moves[point] = (candidate - flat).reshape(params.shape[1:])
    return moves, predicted


def _search_lines(objective, active, params, values, gradients, moves, predicted):
    """Move the active points by the first share of their move that decreases enough.

    Updates points, values and gradients; returns the points that have moved.
    """
    waiting, share = active, 1.0
    for _ in range(_MAX_HALVINGS):
        trials = params[waiting] + share * moves[waiting]
        trial_values, trial_gradients = objective.evaluate(trials, waiting)
        required = 2 * SUFFICIENT_DECREASE * share * predicted[waiting]
        noise = 4 * _EPS * np.abs(values[waiting])
        is_good = trial_values <= values[waiting] - required + noise
        good = waiting[is_good]
        params[good], values[good] = trials[is_good], trial_values[is_good]
        gradients[good] = trial_gradients[is_good]
        waiting, share = waiting[~is_good], 0.5 * share
        if not waiting.size:
            break
    return np.setdiff1d(active, waiting)


class _Objective:
    """The tilted objectives of some folds on a sample."""

    def __init__(self, sample, penalties, folds, tilt):
        self._sample, self._folds, self._tilt = sample, folds, tilt
        self._penalties = [
            SeparablePenalty(one.l1, one.l2 + tilt.damping, one.positive)
            for one in penalties
        ]
        self._linear = tilt.slopes - tilt.damping * tilt.anchors
        #: Price of a Hessian in gradients of one fold.
        self.hessian_cost = 2 + tilt.slopes[0].size / _COORDS_PER_GRADIENT

    def evaluate(self, params, points):
        """Values and smooth gradients of some of the folds."""
        values, gradients = self._sample.evaluate(params, self._folds[points])
        for position, point in enumerate(points):
            penalty, own = self._penalties[point], params[position]
            values[position] += penalty.value(own) + np.sum(self._linear[point] * own)
            gradients[position] += penalty.l2 * own + self._linear[point]
        return values, gradients

    def models(self, params):
        """Quadratic models of all folds with Hessians at the mean of the points."""
        hessians = self._sample.hessians(params.mean(axis=0))
        return [
            penalised_model(hessians[fold].copy(), penalty, params.shape[2])
            for fold, penalty in zip(self._folds, self._penalties, strict=True)
        ]

    def own_model(self, params, point):
        """Quadratic model of one fold at its own point."""
        hessian = self._sample.hessian(params, self._folds[point])
        return penalised_model(hessian, self._penalties[point], params.shape[1])
