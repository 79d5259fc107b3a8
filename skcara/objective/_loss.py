"""What a loss is: a function of the linear prediction of a row.

A loss answers for itself: everything that a solver has to know about it is asked of the
class below, and what a loss does not have is ``None`` or has a general implementation.
It knows nothing of penalties, of the data or of who reads them.

Conventions: predictions are float64 arrays of shape (n_rows, n_outputs); ``target`` is
what the source of the data holds, of shape (n_rows,).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy import sparse

from skcara.data import gram, scaled_rows


class Loss(ABC):
    """What a solver may ask of a loss.

    A subclass needs ``value``, ``derivative`` and ``second_derivative``; the other
    methods are overridden where there is something faster.
    """

    #: Number of linear predictions per row.
    n_outputs: int = 1
    #: Number of outputs, the first ones, whose derivatives determine those of all.
    n_free_outputs: int = 1
    #: Matrix (n_outputs, n_outputs) that bounds ``second_derivative`` at every
    #: prediction, or None where there is no bound.
    curvature_bound: np.ndarray | None = None
    #: Whether the second derivative is the same everywhere, and equal to its bound.
    is_quadratic: bool = False
    #: Whether the loss of all rows together may have no minimiser; ``count_wrong`` is
    #: then asked whether that is so.
    can_separate: bool = False
    #: Whether a number added to all predictions of a row changes nothing.
    is_invariant: bool = False
    #: Loss of every row for predictions of zero, or None if it depends on the target.
    value_at_zero: float | None = None

    @abstractmethod
    def value(self, target, prediction) -> np.ndarray:
        """Loss of each row, shape (n_rows,)."""

    @abstractmethod
    def derivative(self, target, prediction) -> np.ndarray:
        """Derivative of each row's loss, shape (n_rows, n_outputs)."""

    @abstractmethod
    def second_derivative(self, target, prediction) -> np.ndarray:
        """Second derivative, shape (n_rows,) or (n_rows, n_outputs, n_outputs)."""

    def weighted_sum(self, target, prediction, weights) -> tuple[float, np.ndarray]:
        """Weighted sum of the losses and the weighted derivatives: a pass needs both.

        ``prediction`` may be overwritten. ``weights=None`` means one for every row.
        """
        value = self.value(target, prediction)
        derivative = self.derivative(target, prediction)
        if weights is None:
            return float(value.sum()), derivative
        return float(weights @ value), derivative * weights[:, None]

    def stacked(self, target, scores) -> tuple[np.ndarray, np.ndarray]:
        """Losses and derivatives of several predictions of the same rows.

        Parameters
        ----------
        target : ndarray of shape (n_rows,)
        scores : ndarray of shape (n_stacked, n_outputs, n_rows)
            May be overwritten.

        Returns
        -------
        values : ndarray of shape (n_stacked, n_rows)
        derivatives : ndarray of the shape of ``scores``
        """
        values = np.array([self.value(target, one.T) for one in scores])
        return values, self.stacked_derivatives(target, scores)

    def stacked_derivatives(self, target, scores) -> np.ndarray:
        """Derivatives of several predictions of the same rows, in their precision.

        Parameters
        ----------
        target : ndarray of shape (n_rows,)
        scores : ndarray of shape (n_stacked, n_outputs, n_rows)
            May be overwritten.

        Returns
        -------
        derivatives : ndarray of the shape of ``scores``
        """
        return np.array([self.derivative(target, one.T).T for one in scores])

    def without_constants(self, values, axis) -> np.ndarray:
        """Take out what outputs have in common, if no loss depends on it.

        Derivatives of such a loss sum to zero over the outputs: what is taken out of
        them is rounding. Changes of predictions are as large as they differ.

        Parameters
        ----------
        values : ndarray
            Derivatives, sums of them, predictions or parameters.
        axis : int
            That of the outputs.
        """
        if not self.is_invariant:
            return values
        return values - values.mean(axis=axis, keepdims=True)

    def curvature(self, target, prediction) -> np.ndarray:
        """Diagonal of each row's second derivative, shape (n_rows, n_outputs)."""
        second = self.second_derivative(target, prediction)
        if second.ndim == 1:
            return second[:, None]
        return np.einsum("ikk->ik", second).copy()

    def hessian(self, rows, weights, target, prediction) -> np.ndarray:
        r"""Hessian :math:`\sum_i w_i\, \ell''_i \otimes x_i x_i^\top` of some rows.

        Returns
        -------
        hessian : ndarray of shape (n_coords, n_coords)
            In flat coordinates ``param * n_outputs + output``.
        """
        second = self.second_derivative(target, prediction)
        if self.n_outputs == 1:
            return gram(scaled_rows(rows, np.sqrt(weights * second.reshape(-1))))
        n_params, n_outputs = rows.shape[1], self.n_outputs
        blocks = np.empty((n_params, n_outputs, n_params, n_outputs))
        for first in range(n_outputs):
            for other in range(n_outputs):
                curved = scaled_rows(rows, weights * second[:, first, other])
                product = curved.T @ rows
                is_sparse = sparse.issparse(product)
                blocks[:, first, :, other] = product.toarray() if is_sparse else product
        return blocks.reshape(n_params * n_outputs, -1)

    def count_wrong(self, derivative, weights) -> int:
        """Rows that are in the way of a loss that decreases for ever.

        Parameters
        ----------
        derivative : ndarray of shape (n_rows, n_outputs)
            Weighted, as :meth:`weighted_sum` returns it.
        weights : ndarray of shape (n_rows,) or None
        """
        raise NotImplementedError(f"{type(self).__name__} has no minimiser at infinity")

    def derivative_kernel(self, target) -> Callable[[np.ndarray, np.ndarray], None]:
        """Derivative as a function ``write(prediction, out)`` of flat buffers.

        The inner loop of block descent calls it ten thousand times on a handful of
        rows: overridden methods allocate nothing.
        """
        shape = (len(target), self.n_outputs)

        def write(prediction, out):
            out[:] = self.derivative(target, prediction.reshape(shape)).ravel()

        return write


class ClassLoss(Loss):
    """Loss of a class: it has no minimiser if hyperplanes separate the classes.

    Its derivative with respect to the score of the true class is the probability of
    that class minus one, and no other derivative of the row is larger.
    """

    can_separate = True

    def count_wrong(self, derivative, weights):
        """Rows whose class has a probability of one half or less."""
        largest = np.abs(derivative).max(axis=1)
        limit = 0.5 if weights is None else 0.5 * weights
        return int(np.count_nonzero((largest >= limit) & (largest > 0)))
