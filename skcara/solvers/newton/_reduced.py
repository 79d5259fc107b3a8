r"""The objective of a reduced measure, with its gradients and Hessians.

A reduced measure is a set of rows with positive weights ``w``. Its objective

.. math:: \hat F(p) = \sum_k w_k\, \ell(y_k, x_k^\top p) + \mathrm{penalty}(p)

has a few thousand terms, so gradients cost little and a Hessian is affordable.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skcara.data import predictions, row_range, stays_in_cache, weighted_sums
from skcara.objective import Loss, SeparablePenalty
from skcara.solvers._quadratic import QuadraticModel, penalised_model

# Predictions and entries of rows that are worked on at a time, and entries that have to
# be copied for it (scaled ones for a Hessian, strided ones of sparse data): they stay
# in the cache, and small against the data.
_PART_PREDICTIONS, _PART_ENTRIES = 2**14, 2**19
_COPIED_ENTRIES = 2**17
#: Sweeps over the coordinates of a model. Far from the optimum its exact minimiser is
#: worth little, and near it a few of them are enough: even fewer where a factorisation
#: of the model, one for each sweep, costs more than the gradient of another step.
MAX_SWEEPS, _FEW_SWEEPS = 10, 3
# A Hessian costs as much as one gradient for each so many coordinates, at least two.
_COORDS_PER_GRADIENT = 16
# What a step and a Hessian cost whatever the number of rows, in entries that a gradient
# could read: a tenth of a millisecond of calls for a step, a third of that for each
# pair of outputs of a Hessian. On few rows every step deserves a Hessian of its own.
_STEP_ENTRIES, _HESSIAN_ENTRIES = 100_000, 30_000
# A factorisation takes a third of the cube of the coordinates, at the speed of BLAS
# twenty operations for each entry that a gradient could read.
_FLOPS_PER_ENTRY = 60


@dataclass(frozen=True)
class ReducedPoint:
    """The reduced objective at one point (flat coordinates)."""

    params: np.ndarray
    objective: float
    gradient: np.ndarray


class ReducedProblem:
    """Weighted rows with the loss and the penalty of the full problem.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    target, weights : ndarray of shape (n_rows,)
    loss : Loss
    penalty : SeparablePenalty
    linear : ndarray of shape (n_params, n_outputs), optional
        Slope of a linear term added to the objective.
    """

    def __init__(
        self, rows, target, weights, loss: Loss, penalty: SeparablePenalty, linear=None
    ):
        self.rows = rows
        self.target = target
        self.weights = weights
        self.loss = loss
        self.penalty = penalty
        self.linear = linear
        self.n_rows, self.n_params = rows.shape
        self.shape = (self.n_params, loss.n_outputs)
        self._is_sparse = sparse.issparse(rows)
        n_entries = rows.nnz if self._is_sparse else rows.size
        self._is_cached = stays_in_cache(n_entries)
        self._row_entries = max(n_entries / self.n_rows, 1.0)
        #: Price of a Hessian in gradients.
        self.hessian_cost = 2 + self.n_params * loss.n_outputs / _COORDS_PER_GRADIENT
        entries = n_entries * loss.n_outputs
        hessian = _HESSIAN_ENTRIES * loss.n_outputs**2 + self.hessian_cost * entries
        factor = (self.n_params * loss.n_outputs) ** 3 / _FLOPS_PER_ENTRY
        #: Sweeps over the coordinates of a model.
        self.max_sweeps = _FEW_SWEEPS if factor > entries else MAX_SWEEPS
        has_signs = penalty.l1.any() and not penalty.positive.any()
        #: Whether a search for signs may take long, and steps through the interior
        #: are an alternative.
        self.has_hard_signs = bool(factor > entries and has_signs)
        n_factors = 1 + (_FEW_SWEEPS if penalty.l1.any() else 0)
        #: Price of a Hessian in steps, which take more than a gradient.
        self.hessian_steps = hessian / (_STEP_ENTRIES + entries + n_factors * factor)

    def reweighted(self, weights) -> "ReducedProblem":
        """Return the same rows with other weights."""
        return ReducedProblem(self.rows, self.target, weights, self.loss, self.penalty)

    def tilted(self, anchor, slope, damping) -> "ReducedProblem":
        r"""Add :math:`\mathrm{slope}^\top p + \tfrac12 d\,(p - a)^2`.

        Parameters
        ----------
        anchor, slope : ndarray of shape (n_params, n_outputs)
        damping : ndarray of shape (n_params, 1)
            ``d``; the anchor does not feel it, but a direction in which the rows have
            no curvature is kept from running away along the slope.
        """
        penalty = self.penalty
        return ReducedProblem(
            self.rows,
            self.target,
            self.weights,
            self.loss,
            SeparablePenalty(penalty.l1, penalty.l2 + damping, penalty.positive),
            slope - damping * anchor,
        )

    def evaluate(self, params) -> ReducedPoint:
        """Objective and smooth gradient at flat ``params``."""
        shaped = params.reshape(self.shape)
        gradient = self.penalty.l2 * shaped
        objective = self.penalty.value(shaped)
        for part, rows in self.parts():
            loss, derivative = self.loss.weighted_sum(
                self.target[part], self._predict(rows, shaped), self.weights[part]
            )
            gradient += weighted_sums(rows, derivative)
            objective += loss
        if self.linear is not None:
            gradient += self.linear
            objective += float(np.sum(self.linear * shaped))
        return ReducedPoint(params, objective, gradient.ravel())

    def _predict(self, rows, params):
        return predictions(rows, params, is_cached=self._is_cached)

    def slopes(self, params):
        """Weighted derivatives of the losses, of shape (n_rows, n_outputs)."""
        slopes = np.empty((*self.shape[1:], self.n_rows)).T
        for part, rows in self.parts():
            prediction = self._predict(rows, params.reshape(self.shape))
            _, slopes[part] = self.loss.weighted_sum(
                self.target[part], prediction, self.weights[part]
            )
        return slopes

    def model(self, params) -> QuadraticModel:
        """Quadratic model with the Hessian at flat ``params``, L2 included."""
        return penalised_model(self.hessian(params), self.penalty, self.shape[1])

    def hessian(self, params):
        """Hessian of the loss in flat coordinates."""
        n_coords = self.n_params * self.shape[1]
        matrix = np.zeros((n_coords, n_coords))
        is_scaled_sparse = self._is_sparse and self.shape[1] == 1
        scaled_entries = self._row_entries if is_scaled_sparse else self.n_params
        # Each part adds a matrix, which costs as much as the products of few rows.
        part_rows = max(int(_COPIED_ENTRIES / scaled_entries), 256)
        for part, rows in self.parts(part_rows=part_rows):
            matrix += self.loss.hessian(
                rows,
                self.weights[part],
                self.target[part],
                self._predict(rows, params.reshape(self.shape)),
            )
        return matrix

    def parts(self, stride: int = 1, part_rows: int | None = None):
        """Yield slices of every ``stride``-th row, with these rows.

        Parameters
        ----------
        stride : int
        part_rows : int, optional
            Rows of a part; default what stays in the cache.
        """
        if part_rows is None:
            part_rows = max(_PART_PREDICTIONS // (1 + self.shape[1]), 1024)
            n_entries = _COPIED_ENTRIES if self._is_sparse else _PART_ENTRIES
            part_rows = min(part_rows, max(int(n_entries / self._row_entries), 256))
        for start in range(0, self.n_rows, part_rows * stride):
            part = slice(start, min(start + part_rows * stride, self.n_rows))
            rows = row_range(self.rows, part.start, part.stop)
            if stride > 1:
                part, rows = slice(part.start, part.stop, stride), rows[::stride]
            yield part, rows
