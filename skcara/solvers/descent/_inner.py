r"""The inner loop: many cheap steps of one block on a few weighted rows.

With the atoms :math:`k` of a measure, their weights :math:`w_k` and the coordinates
:math:`c` of the block, a step needs the gradient

.. math:: \hat g_c = \sum_k w_k\, \ell'(z_k)\, x_{kc} + l2_c\, \theta_c,
   \qquad z_k = z_k^{\mathrm{anchor}} + x_k^\top \delta ,

which costs O(atoms x block size), whatever the number of rows and columns of the data.
Nothing is allocated between the first and the last step.
"""

from dataclasses import dataclass

import numpy as np

# Factor by which the (negative) statistic must grow in size to count as decreased.
_DECREASE = 1.0 + 1e-13


@dataclass(frozen=True)
class BlockModel:
    """What is known of a block at the anchor from the full data.

    Attributes
    ----------
    anchor : ndarray of shape (block_size,)
        Coordinates of the block at the anchor.
    gradient : ndarray of shape (block_size,)
        Full gradient of the smooth part, L2 term included.
    control : ndarray of shape (block_size, block_size) or None
        Matrix of the control statistic. None accepts one step and no more.
    l1, l2 : ndarray of shape (block_size,)
        Penalty strengths.
    """

    anchor: np.ndarray
    gradient: np.ndarray
    control: np.ndarray | None
    l1: np.ndarray
    l2: np.ndarray


@dataclass(frozen=True)
class InnerResult:
    """Where the inner loop ended.

    Attributes
    ----------
    params, velocity : ndarray of shape (block_size,)
        Last accepted point and the move that led to it.
    change : float
        Control statistic there, plus the change of the L1 term.
    accepted, attempted : int
        Steps that were kept, and steps that were tried.
    """

    params: np.ndarray
    velocity: np.ndarray
    change: float
    accepted: int
    attempted: int


class ReducedGradient:
    """Gradient of the loss of a block under a measure on few rows.

    Parameters
    ----------
    rows : ndarray of shape (n_atoms, block_size)
        Column of each coordinate of the block.
    outputs : ndarray of shape (block_size,)
        Output that each coordinate contributes to.
    target : ndarray of shape (n_atoms,)
        Targets of the atoms.
    prediction : ndarray of shape (n_atoms, n_outputs)
        Predictions at the anchor.
    weights : ndarray of shape (n_atoms,)
        Weights of the atoms.
    loss : Loss
        Loss of the problem.
    """

    def __init__(self, rows, outputs, target, prediction, weights, loss):
        n_atoms, n_outputs = prediction.shape
        self.n_atoms = n_atoms
        # One line per atom and output, so that one product serves any number of
        # outputs: a coordinate contributes to the lines of its own output only.
        lines = np.zeros((n_atoms, n_outputs, len(outputs)))
        for coord, output in enumerate(outputs):
            lines[:, output, coord] = rows[:, coord]
        self._lines = lines.reshape(n_atoms * n_outputs, -1)
        weights = np.repeat(weights, n_outputs)
        self._weighted = np.ascontiguousarray((self._lines * weights[:, None]).T)
        self._extended_lines = np.column_stack([self._lines, prediction.ravel()])
        self._prediction = np.empty(prediction.size)
        self._derivative = np.empty(prediction.size)
        self._write_derivative = loss.derivative_kernel(target)

    def __call__(self, extended, out):
        """Write the gradient into `out`.

        Parameters
        ----------
        extended : ndarray of shape (block_size + 1,)
            Displacement from the anchor, followed by a one: the prediction at the
            anchor is then one more column, and one product gives the new one.
        out : ndarray of shape (block_size,)
            Result.
        """
        np.dot(self._extended_lines, extended, out=self._prediction)
        self._write_derivative(self._prediction, self._derivative)
        np.dot(self._weighted, self._derivative, out=out)

    def hessian_bound(self, output_bound):
        """Bound of the Hessian under the measure; `output_bound` is the loss's."""
        weighted = self._weighted.T.reshape(self.n_atoms, len(output_bound), -1)
        curved = np.matmul(output_bound, weighted)
        return self._lines.T @ curved.reshape(self._lines.shape)


def run_inner_loop(
    model, steps, *, reduced=None, max_iter=1, momentum=0.0, velocity=None
):
    """Step while the control statistic decreases.

    Parameters
    ----------
    model : BlockModel
        The block at the anchor.
    steps : pair of callables
        ``step(base, gradient, out)``, see :mod:`skcara.solvers.descent._steps`: the
        first step, which the full gradient justifies, and all later ones.
    reduced : ReducedGradient, optional
        Gradient under the reduced measure. Without it the one step that the full
        gradient pays for is taken.
    max_iter : int, default=1
        Most steps that may be accepted.
    momentum : float, default=0.0
        Heavy-ball factor.
    velocity : ndarray of shape (block_size,), optional
        Move that led to the anchor, zero by default.

    Returns
    -------
    result : InnerResult
        The last point that lowered the statistic; the anchor if none did.
    """
    if reduced is None:
        max_iter = min(max_iter, 1)
    velocity = np.zeros_like(model.anchor) if velocity is None else velocity.copy()
    result = _descend(model, steps, reduced, max_iter, momentum, velocity)
    if result.accepted == 0 and momentum and velocity.any():
        # The momentum points uphill: restart it.
        retry = _descend(model, steps, reduced, max_iter, momentum, 0.0 * velocity)
        attempted = result.attempted + retry.attempted
        result = InnerResult(
            retry.params, retry.velocity, retry.change, retry.accepted, attempted
        )
    return result


def _descend(model, steps, reduced, max_iter, momentum, velocity):
    anchor = model.anchor
    has_l1, has_l2 = bool(model.l1.any()), bool(model.l2.any())
    slope = None
    if model.control is not None:
        slope = np.column_stack([0.5 * model.control, model.gradient])
    anchor_l1 = float(model.l1 @ np.abs(anchor))
    point, candidate = anchor.copy(), np.empty_like(anchor)
    gradient, buffer = model.gradient.copy(), np.empty_like(anchor)
    extended = np.append(np.zeros_like(anchor), 1.0)
    displacement = extended[:-1]
    best, accepted, attempted = 0.0, 0, 0
    step, later_step = steps
    while accepted < max_iter:
        if reduced is not None:
            reduced(extended, gradient)
            if has_l2:
                np.multiply(model.l2, point, out=buffer)
                np.add(gradient, buffer, out=gradient)
        if momentum:
            np.multiply(velocity, momentum, out=buffer)
            np.add(point, buffer, out=buffer)
            step(buffer, gradient, candidate)
        else:
            step(point, gradient, candidate)
        attempted += 1
        np.subtract(candidate, anchor, out=displacement)
        if slope is None:
            change = -np.inf if accepted == 0 else np.inf
        else:
            np.dot(slope, extended, out=buffer)
            change = float(np.dot(buffer, displacement))
            if has_l1:
                np.abs(candidate, out=buffer)
                change += float(np.dot(model.l1, buffer)) - anchor_l1
        # A decrease below rounding is none: whether it happens depends on the order of
        # the additions. A NaN compares false and ends the loop as well.
        if not change < best * _DECREASE:
            break
        if momentum:
            np.subtract(candidate, point, out=velocity)
        point, candidate = candidate, point
        best = change
        step = later_step
        accepted += 1
    return InnerResult(point, velocity, best, accepted, attempted)
