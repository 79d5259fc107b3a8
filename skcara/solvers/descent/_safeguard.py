r"""Synchronisation of blocks that moved independently of each other.

Each block's statistic ignores the cross terms :math:`\delta_B^\top H \delta_{B'}`, so
the joint move may raise the objective although every single one lowers it. The next
pass measures the full objective; if it rose, the joint move is shortened, and as a
last resort only the most promising block moves.
"""

from dataclasses import dataclass

import numpy as np

from skcara.passes import Evaluate

# By at least a half each: what is left then is a step of less than one part in 256.
_MAX_SHORTENINGS = 8
# Rounding of an objective: differences below this share of it carry no information.
_OBJECTIVE_ROUNDING = 8 * np.finfo(np.float64).eps
# Limits of one shortening: the interpolation may be wrong by rounding or because the
# objective is not quadratic.
_SHORTEST, _LONGEST = 0.1, 0.5
# Growth of the damping factor after a round that needed no shortening.
_RECOVERY = 1.5


@dataclass(frozen=True)
class Move:
    """Displacement of the parameters proposed by some blocks.

    Attributes
    ----------
    displacement : ndarray of shape (n_params, n_outputs)
        Joint move of all blocks.
    best : ndarray of shape (n_params, n_outputs)
        Move of the block with the largest predicted decrease alone.
    """

    displacement: np.ndarray
    best: np.ndarray


class Synchroniser:
    """Accepts moves only if the full objective does not rise.

    Parameters
    ----------
    problem : Problem
    group_rows : int or None
        Rows of the groups whose gradients are asked for.

    Attributes
    ----------
    damping : float
        Factor by which the next joint move is shortened from the start: blocks that
        were in each other's way once will be so again.
    """

    def __init__(self, problem, group_rows):
        self._problem = problem
        self._group_rows = group_rows
        self.damping = 1.0

    def advance(self, evaluation, move):
        """Move as far as the objective allows; a generator of requests.

        Parameters
        ----------
        evaluation : Evaluation
            At the anchor.
        move : Move
            Proposed by the blocks.

        Returns
        -------
        evaluation : Evaluation or None
            At the new point; the given one if there is nothing to move, None if every
            attempt raised the objective.
        was_shortened : bool
            Whether the blocks' move was not taken as proposed.
        """
        if not move.displacement.any():
            return evaluation, False
        target = evaluation.params + move.displacement
        factor = self.damping
        for attempt in range(_MAX_SHORTENINGS):
            params = _along(evaluation.params, target, factor)
            trial = yield self._request(params)
            if _is_no_worse(trial, evaluation):
                growth = _RECOVERY if attempt == 0 else 1.0
                self.damping = min(1.0, growth * factor)
                return trial, factor < 1.0
            factor *= _shortening(evaluation, trial)
        self.damping = 1.0
        alone = evaluation.params + move.best
        for _ in range(_MAX_SHORTENINGS):
            trial = yield self._request(alone)
            if _is_no_worse(trial, evaluation):
                return trial, True
            alone = 0.5 * (alone + evaluation.params)
        return None, True

    def _request(self, params):
        return Evaluate(self._problem, params, self._group_rows)


def _along(anchor, target, factor):
    """Point between `anchor` and `target`; what lands on zero stays there.

    A coordinate that its block sets to zero is set to zero however short the move is:
    otherwise damped rounds would approach zero and never reach it.
    """
    if factor == 1.0:
        return target
    return np.where(target == 0, 0.0, anchor + factor * (target - anchor))


def _is_no_worse(trial, evaluation):
    slack = _OBJECTIVE_ROUNDING * abs(evaluation.objective)
    return trial.objective <= evaluation.objective + slack


def _shortening(evaluation, trial):
    """Factor to the minimum of the parabola through both values and the slope."""
    step = trial.params - evaluation.params
    slope = float(np.sum(evaluation.smooth_gradient * step))
    rise = trial.objective - evaluation.objective
    excess = rise - slope
    if not (np.isfinite(excess) and slope < 0 < excess):
        return _LONGEST
    return float(np.clip(-0.5 * slope / excess, _SHORTEST, _LONGEST))
