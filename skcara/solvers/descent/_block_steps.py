"""Which steps a block takes, from the direction and the step size that users choose."""

from dataclasses import dataclass

import numpy as np

from skcara.solvers.descent._steps import (
    DiagonalStep,
    NewtonStep,
    coordinate_metric,
    relative_lipschitz,
)


@dataclass(frozen=True)
class BlockSteps:
    """Steps of one block in one round.

    Attributes
    ----------
    first : DiagonalStep or NewtonStep
        Step along the full gradient.
    later_factor : float or None
        Factor of the later steps; None asks for the longest safe ones.
    metric : ndarray of shape (block_size,)
        Diagonal matrix in which the step measures lengths.
    lipschitz : float or None
        Largest curvature relative to the metric, where a step needed it.
    """

    first: DiagonalStep | NewtonStep
    later_factor: float | None
    metric: np.ndarray
    lipschitz: float | None = None

    def safe(self, reduced_hessian):
        """Longest step that does not overshoot on a reduced measure.

        The Hessian of a reduced measure is not bounded by that of the full data: with
        few atoms it can be several times larger, and the full step would diverge.

        Parameters
        ----------
        reduced_hessian : ndarray of shape (block_size, block_size)
            Bound of the Hessian under the measure, L2 term included.
        """
        overshoot = self.first.overshoot(reduced_hessian)
        return self.first if overshoot <= 1.0 else self.first.scaled(1.0 / overshoot)


def make_steps(policy, hessian, l1, positive):
    """Steps of a block.

    A number as step size is the rate of the gradient direction, as in gradient
    descent. With ``"Lb"`` and ``"Hb"``, whose first step has a length of its own, it
    multiplies the later ones (the article takes 0.01); ``"auto"`` makes them as long
    as the reduced measure allows.

    Parameters
    ----------
    policy : DescentPolicy
        Direction and step size.
    hessian : ndarray of shape (block_size, block_size) or None
        Bound of the block's Hessian, L2 term included; None if it is not needed.
    l1, positive : ndarray of shape (block_size,)
        Penalty of the block.

    Returns
    -------
    steps : BlockSteps
        For :func:`skcara.solvers.descent._inner.run_inner_loop`.
    """
    later_factor = None if policy.step_size == "auto" else policy.step_size
    metric, lipschitz = np.ones(len(l1)), None
    if policy.direction == "Hb":
        return BlockSteps(NewtonStep(hessian, l1, positive), later_factor, metric)
    if policy.direction == "gradient" and policy.step_size != "auto":
        rates, later_factor = np.full(len(l1), policy.step_size), 1.0
    else:
        if policy.direction == "auto":
            metric = coordinate_metric(hessian)
        lipschitz = relative_lipschitz(hessian, metric)
        # Without any curvature there is no gradient either; any rate will do.
        rates = 1.0 / (metric * (lipschitz if lipschitz > 0 else 1.0))
    first = DiagonalStep(rates, l1, positive)
    return BlockSteps(first, later_factor, metric, lipschitz)
