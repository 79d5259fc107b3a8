r"""Control statistics: how far a reduced measure is trusted.

At a displacement :math:`\delta` of the block from the anchor, where the full data give
the gradient :math:`g`, the statistic

.. math:: \Delta(\delta) = g^\top \delta + \tfrac12 \delta^\top \mathcal{H} \delta

predicts the change of the *full* smooth objective. Steps on the reduced measure go on
while it decreases. The statistics differ in :math:`\mathcal{H}`:

=================  ==========================================  =====================
control            :math:`\mathcal{H}`                         guarantee
=================  ==========================================  =====================
``lipschitz``      :math:`c D`, the smallest c with            upper bound
                   :math:`H_B \preceq c D`
``block-hessian``  :math:`H_B`                                 upper bound, exact for
                                                               the squared loss
``secant``         :math:`\Delta g\, (1 / \Delta\theta)^\top`  none (the article's)
``secant-bb``      :math:`\kappa D`, :math:`\kappa =           none, but positive
                   \Delta g^\top \Delta\theta /
                   \Delta\theta^\top D \Delta\theta`
=================  ==========================================  =====================

:math:`H_B` bounds the Hessian of the block, :math:`D` is the metric of the step (the
identity, or the curvatures of the coordinates when the step is chosen automatically),
and :math:`\Delta g`, :math:`\Delta\theta` are the differences between the last two
anchors: of the block for ``secant``, of all coordinates for ``secant-bb``.
"""

from dataclasses import dataclass

import numpy as np

from skcara.solvers.descent._steps import relative_lipschitz

CONTROLS = ("lipschitz", "block-hessian", "secant", "secant-bb")
# The controls whose statistic is an upper bound of the change of the objective.
GUARANTEED = frozenset({"lipschitz", "block-hessian"})
# Smallest positive curvature a secant may claim, relative to the bound if there is one.
_SMALLEST_CURVATURE = 1e-8
# Moves smaller than this, relative to the largest one, are rounding errors.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Secant:
    """Difference of two anchors and of the full gradients there."""

    params: np.ndarray
    gradient: np.ndarray

    @classmethod
    def between(cls, first, second):
        """Differences from one evaluation to the next, flat."""
        moved = (second.params - first.params).ravel()
        # What rounding moved says nothing about the curvature.
        moved[np.abs(moved) <= _ROUNDING * np.abs(moved).max()] = 0.0
        return cls(moved, (second.smooth_gradient - first.smooth_gradient).ravel())

    def restrict(self, block):
        """Differences of the coordinates `block` only."""
        return Secant(self.params[block], self.gradient[block])


def resolve_control(control, loss):
    """Replace ``"auto"`` by the exact statistic if the loss has one.

    Parameters
    ----------
    control : str
        The estimator's parameter.
    loss : Loss
        Loss of the problem.

    Returns
    -------
    control : str
        A name in ``CONTROLS``.
    """
    if control != "auto":
        return control
    return "block-hessian" if loss.is_quadratic else "secant-bb"


def control_matrix(
    control, *, metric, hessian=None, bound=None, secant=None, curvature=None
):
    r"""Matrix :math:`\mathcal{H}` of a control statistic.

    Parameters
    ----------
    control : str
        A name in ``CONTROLS``.
    metric : ndarray of shape (block_size,)
        Diagonal of D.
    hessian : ndarray of shape (block_size, block_size), optional
        Bound of the block's Hessian; the guaranteed controls need it.
    bound : float, optional
        Largest curvature of that matrix relative to the metric, if it is known.
    secant : Secant, optional
        Differences of the block between the last two anchors; the secant controls
        need it.
    curvature : float, optional
        Curvature :math:`\kappa` of the joint move between the last two anchors, see
        :func:`secant_curvature`; comes with `secant`.

    Returns
    -------
    matrix : ndarray of shape (block_size, block_size) or None
        None if nothing is known about the curvature: no anchor came before, and
        there is no bound to fall back on.
    """
    if control == "block-hessian":
        return hessian
    if bound is None and hessian is not None:
        bound = relative_lipschitz(hessian, metric)
    if control == "lipschitz":
        return bound * np.diag(metric)
    if secant is None:
        return None if bound is None else bound * np.diag(metric)
    if bound is not None:
        curvature = min(max(curvature, _SMALLEST_CURVATURE * bound), bound)
    if control == "secant-bb":
        return curvature * np.diag(metric)
    return rank_one_secant(secant, curvature * metric)


def secant_curvature(secant, metric):
    r"""Curvature :math:`\kappa` along the last displacement, in the metric D.

    Blocks that move together use the curvature of their joint move: it contains the
    cross terms between them, which no block sees on its own. Measured relative to D,
    it also says how far the curvature has fallen below the bound in blocks that did
    not move.

    Parameters
    ----------
    secant : Secant
        Differences of all coordinates.
    metric : ndarray of shape (n_coords,)
        Diagonal of D.

    Returns
    -------
    curvature : float or None
        Positive; noise can make the quotient negative. None if the displacement is so
        small that its square is zero.
    """
    moved = secant.params @ (metric * secant.params)
    if not moved > 0:
        return None
    curvature = (secant.gradient @ secant.params) / moved
    scale = np.linalg.norm(secant.gradient) / np.sqrt(moved)
    return max(curvature, _SMALLEST_CURVATURE * scale)


def rank_one_secant(secant, unmoved_curvature):
    r"""Matrix :math:`\Delta g (1 / \Delta\theta)^\top` of the article.

    Parameters
    ----------
    secant : Secant
        Differences of the block.
    unmoved_curvature : ndarray of shape (block_size,)
        Diagonal entries for the coordinates that did not move, for which the
        article's formula divides by zero.

    Returns
    -------
    matrix : ndarray of shape (block_size, block_size)
        Not symmetric; only its quadratic form matters.
    """
    moved = secant.params != 0
    reciprocal = np.zeros_like(secant.params)
    np.divide(1.0, secant.params, out=reciprocal, where=moved)
    matrix = np.outer(np.where(moved, secant.gradient, 0.0), reciprocal)
    return matrix + np.diag(np.where(moved, 0.0, unmoved_curvature))
