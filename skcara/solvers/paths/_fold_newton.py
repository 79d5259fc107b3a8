r"""Minimise the objectives of all folds on one sample, for one penalty.

The objectives are

.. math:: \hat F_f(p) = \sum_k w_{fk}\, \ell(y_k, x_k^\top p) + \mathrm{penalty}_f(p)
    + s_f^\top p + \tfrac12 d\, p^2 ,

with weights :math:`w_{fk}` and a *tilt* :math:`s_f` that make the gradient at an anchor
that of all the rows. Training sets overlap, so their solutions are close to each other:
their Hessians are taken at one point, unless that changes predictions too much. Each
fold improves its own by secant updates; new ones are computed where that costs less
than the steps that they are expected to save.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from skcara.objective import SeparablePenalty
from skcara.solvers._quadratic import (
    SUFFICIENT_DECREASE,
    penalised_model,
    steps_left,
)
from skcara.solvers.paths._fold_sample import largest_changes
from skcara.solvers.paths._near_hessians import MODEL_REACH, NearHessians

# Far more steps, halvings and sweeps than were ever needed: what is not minimised then
# is left to the next read, which judges it.
_MAX_STEPS, _MAX_HALVINGS, _MAX_SWEEPS = 50, 30, 10
# A Hessian costs as much as one gradient for each so many coordinates, at least two; of
# sparse rows, whose entries are multiplied in pairs, so many for each entry of a row.
_COORDS_PER_GRADIENT, _GRADIENTS_PER_ENTRY = 16, 3
# Folds share their Hessians so many times; then their points are too far from each
# other, and those that are slow get Hessians of their own.
_MAX_SHARED = 3
# Largest change of predictions by a step, and how it grows. Where few rows carry a
# direction and are predicted with near certainty, there is next to no curvature, and a
# step of a model may go anywhere.
_FIRST_REACH, _GROWTH = 4.0, 4.0
_EPS = np.finfo(np.float64).eps
# Ratio of the curvatures of a model and of the loss, along a coordinate, up to which a
# step is as wrong as it is long, but not more.
_MAX_RATIO = 2.0
# Of an objective that is a sum over many rows, relative to it.
_ROUNDING = 4 * _EPS


@dataclass(frozen=True)
class FoldPoints:
    """One point for each of some folds.

    Attributes
    ----------
    folds : ndarray of int of shape (n_points,)
    params : ndarray of shape (n_points, n_params, n_outputs)
    weights : ndarray of shape (n_points, n_rows)
    models : list of QuadraticModel or None
        Hessians near the points, penalty included.
    """

    folds: np.ndarray
    params: np.ndarray
    weights: np.ndarray
    models: list | None = None


@dataclass(frozen=True)
class Tilt:
    """A linear term for each point, and what holds flat directions near zero.

    Attributes
    ----------
    slopes : ndarray of shape (n_points, n_params, n_outputs)
    damping : ndarray of shape (n_params, 1)
    """

    slopes: np.ndarray
    damping: np.ndarray


def minimize_folds(
    hessians: NearHessians,
    penalties,
    points: FoldPoints,
    tilt: Tilt,
    *,
    accuracy: float,
    enough: float = 0.0,
) -> FoldPoints:
    """Damped proximal Newton steps for all points together.

    Parameters
    ----------
    hessians : NearHessians
        Of the sample.
    penalties : list of SeparablePenalty
        One for each point.
    points : FoldPoints
        Where to start; its Hessians are used if there are any.
    tilt : Tilt
    accuracy : float
        Stop when the predicted decrease is this share of what was achieved.
    enough : float
        Or this share of the objective.
    """
    objective = _Objective(hessians, penalties, points, tilt)
    params, active = points.params.copy(), np.arange(len(points.params))
    predictions = hessians.sample.predictions(params)
    models = _Models(objective, points, predictions)
    values, gradients = objective.evaluate(params, predictions, active)
    start = values.copy()
    for _ in range(_MAX_STEPS):
        moves, predicted = _propose(models.current, params, gradients, active)
        changes = np.zeros_like(predictions)
        changes[active] = hessians.sample.predictions(moves[active])
        reach = objective.reach(changes, slice(None))
        # What a model promises may be far too much, what was achieved is not.
        goals = accuracy * (start - values) + max(_ROUNDING, enough) * np.abs(values)
        # The last step is so short that it needs no check, unless its model does.
        is_last = models.are_valid(predictions, active, predicted <= goals, reach)
        params[active[is_last]] += moves[active[is_last]]
        active = active[~is_last]
        if not active.size:
            break
        if models.renew(params, predictions, active, reach, predicted, goals):
            continue
        before = params.copy(), gradients.copy()
        state = params, predictions, values, gradients
        lines = moves, changes, predicted, models.shares(reach)
        active = _search_lines(objective, active, state, lines)
        models.learn(active, params - before[0], gradients - before[1], predicted)
    return replace(points, params=params, models=models.current)


class _Models:
    """Quadratic models of all points, and when to pay for new ones.

    Attributes
    ----------
    current : list of QuadraticModel
    """

    def __init__(self, objective, points, predictions):
        self._objective = objective
        self._n_shared = _MAX_SHARED - (points.models is None)
        # Predictions where the Hessians were taken.
        self._origins = predictions.copy()
        self.current = list(points.models or self._shared(points.params, predictions))
        self._is_own = np.zeros(len(self.current), dtype=bool)
        self._limits = np.full(len(self.current), _FIRST_REACH)
        # Nothing is known of a model that is new.
        self._previous = np.full(len(self.current), np.inf)

    def are_valid(self, predictions, active, is_short, reach):
        """Which of the active points may end with a step that nobody checks.

        Parameters
        ----------
        predictions : ndarray of shape (n_points, n_outputs, n_rows)
        active : ndarray of int
        is_short : ndarray of bool of shape (n_points,)
            Whether the model expects next to nothing of the step.
        reach : ndarray of shape (n_points,)
            How far the step changes predictions.
        """
        is_valid = is_short & (self._is_own | (reach <= MODEL_REACH))
        # Of a sample no more is asked: the next read judges it.
        doubtful = active[(is_valid & ~self._is_own & self._objective.is_exact)[active]]
        if doubtful.size:
            changes = predictions[doubtful] - self._origins[doubtful]
            moved = self._objective.reach(changes, doubtful)
            doubtful = doubtful[moved > MODEL_REACH]
        if doubtful.size:
            is_valid[doubtful] = self._are_right(predictions, doubtful)
        return is_valid[active]

    def _are_right(self, predictions, points):
        """Whether models have the curvature of their points, up to a factor of two.

        A class that is rare in one fold alone has far less curvature there than where
        the folds meet: the step should be far longer, which neither the step nor the
        decrease that it promises would tell.
        """
        own = self._objective.curvatures(predictions, points)
        models = [self.current[point].matrix.diagonal() for point in points]
        ratios = np.divide(own, models, out=np.ones_like(own), where=own > 0)
        return (np.abs(np.log(ratios)) <= np.log(_MAX_RATIO)).all(axis=1)

    def _shared(self, params, predictions):
        """Models of all points from a place between them."""
        self._origins[:] = predictions.mean(axis=0)
        return self._objective.models(params)

    def shares(self, reach):
        """Shares of steps that change predictions so much that are tried.

        The next step may be longer.
        """
        limits = self._limits.copy()
        self._limits = np.where(reach > limits, _GROWTH * limits, limits)
        return limits / np.maximum(reach, limits)

    def renew(self, params, predictions, active, reach, predicted, goals) -> bool:
        """Replace models that propose too long a step, or too many; false if none do.

        So are models that propose nothing any more, but do not fit their points.

        Parameters
        ----------
        params : ndarray of shape (n_points, n_params, n_outputs)
        predictions : ndarray of shape (n_points, n_outputs, n_rows)
        active : ndarray of int
        reach, predicted, goals : ndarray of shape (n_points,)
            How far the proposed step changes predictions, the decrease that it
            promises, and the one that is small enough.
        """
        objective, is_own = self._objective, self._is_own[active]
        n_left = _steps_left(predicted, self._previous, goals, active)
        is_wrong = (predicted <= goals) & (reach <= MODEL_REACH)
        is_new = ((reach > self._limits) | is_wrong)[active] & ~is_own
        if not is_new.any() and self._n_shared:
            if n_left.sum() <= objective.hessian_cost:
                return False
            self._n_shared -= 1
            self.current = self._shared(params, predictions)
            self._previous[:] = np.inf
            return True
        if not is_new.any():
            is_new = (n_left > objective.hessian_cost) & ~is_own
        chosen = active[is_new]
        models = objective.own_models(params[chosen], chosen)
        for point, model in zip(chosen, models, strict=True):
            self.current[point] = model
        self._is_own[chosen] = True
        self._previous[chosen], self._origins[chosen] = np.inf, predictions[chosen]
        return bool(chosen.size)

    def learn(self, active, steps, changes, predicted):
        """Take in how steps have changed the gradients of the active points."""
        for point in active:
            self.current[point] = self.current[point].secant(
                steps[point].ravel(), changes[point].ravel()
            )
        self._is_own[active] = False
        self._previous = predicted


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


def _search_lines(objective, active, state, lines):
    """Move the active points by the first share of their move that decreases enough.

    Parameters
    ----------
    objective : _Objective
    active : ndarray of int
    state : tuple of ndarray
        Points, predictions, values and gradients, all of which are updated.
    lines : tuple of ndarray
        Moves, how they change predictions, decreases that are predicted, and the
        shares that are tried first.

    Returns
    -------
    active : ndarray of int
        Those that have moved.
    """
    params, predictions, values, _ = state
    moves, changes, predicted, shares = lines
    waiting = active
    for _ in range(_MAX_HALVINGS):
        share = shares[waiting]
        trials = (
            params[waiting] + share[:, None, None] * moves[waiting],
            predictions[waiting] + share[:, None, None] * changes[waiting],
        )
        trials += objective.evaluate(*trials, waiting)
        required = 2 * SUFFICIENT_DECREASE * share * predicted[waiting]
        noise = _ROUNDING * np.abs(values[waiting])
        is_good = trials[2] <= values[waiting] - required + noise
        for current, trial in zip(state, trials, strict=True):
            current[waiting[is_good]] = trial[is_good]
        waiting = waiting[~is_good]
        shares[waiting] *= 0.5
        if not waiting.size:
            break
    return np.setdiff1d(active, waiting)


class _Objective:
    """The tilted objectives of some folds on a sample."""

    def __init__(self, hessians, penalties, points, tilt):
        self._hessians, self._sample = hessians, hessians.sample
        self._folds, self._tilt = points.folds, tilt
        self._weights = points.weights
        self._penalties = [
            SeparablePenalty(one.l1, one.l2 + tilt.damping, one.positive)
            for one in penalties
        ]
        self._linear = tilt.slopes
        #: Price of a Hessian in gradients of one fold.
        self.hessian_cost = 2 + _hessian_cost(self._sample)

    def evaluate(self, params, predictions, points):
        """Values and smooth gradients of some of the folds."""
        weights = self._weights[points]
        values, gradients = self._sample.evaluate_at(predictions, weights)
        for position, point in enumerate(points):
            penalty, own = self._penalties[point], params[position]
            values[position] += penalty.value(own) + np.sum(self._linear[point] * own)
            gradients[position] += penalty.l2 * own + self._linear[point]
        return values, gradients

    def reach(self, changes, points):
        """Largest of these changes of predictions, for some of the folds."""
        differing = self._sample.loss.without_constants(changes, axis=1)
        return largest_changes(differing, self._weights[points])

    @property
    def is_exact(self) -> bool:
        """Whether the objectives are those of all rows."""
        return self._sample.is_everything

    def curvatures(self, predictions, points):
        """Second derivatives of some of the folds, (n_points, n_coords)."""
        curvatures = self._sample.curvatures(predictions[points], self._weights[points])
        l2 = np.array([self._penalties[point].l2 for point in points])
        return (curvatures + l2).reshape(len(points), -1)

    def models(self, params):
        """Quadratic models of all folds."""
        hessians = self._hessians.near(params, self._folds)
        return [
            penalised_model(hessian, penalty, params.shape[2])
            for hessian, penalty in zip(hessians, self._penalties, strict=True)
        ]

    def own_models(self, params, points):
        """Quadratic models of some of the folds, each at its own point."""
        if not points.size:
            return []
        predictions = self._sample.predictions(params)
        hessians = self._sample.own_hessians(predictions, self._weights[points])
        return [
            penalised_model(hessian, self._penalties[point], params.shape[2])
            for hessian, point in zip(hessians, points, strict=True)
        ]


def _hessian_cost(sample):
    """Price of a Hessian in gradients of one fold."""
    if sparse.issparse(sample.rows) and sample.loss.n_outputs == 1:
        return _GRADIENTS_PER_ENTRY * sample.rows.nnz / sample.n_rows
    return sample.n_params * sample.loss.n_outputs / _COORDS_PER_GRADIENT


def next_change(changes):
    """Extrapolate the last three changes along a path, or repeat the last of fewer.

    On a geometric grid a coefficient goes on by equal steps where the penalty holds it,
    and by steps that shrink with the penalty where the rows do: no step is expected to
    be longer than the one before.
    """
    if len(changes) < 3:
        return changes[-1] if changes else 0.0
    before, step = np.diff(list(changes), axis=0)
    ratio = np.divide(step, before, out=np.zeros_like(step), where=before != 0)
    return changes[-1] + step * np.clip(ratio, 0.0, 1.0)
