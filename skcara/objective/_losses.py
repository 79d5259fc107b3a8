"""Loss of a row as a function of its linear prediction.

A loss answers for itself: everything that a solver has to know about it is asked of the
class below, and what a loss does not have is ``None`` or has a general implementation.
It knows nothing of penalties, of the data or of who reads them.

Conventions: predictions are float64 arrays of shape (n_rows, n_outputs); ``target`` is
what the source of the data holds, of shape (n_rows,).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy import sparse
from scipy.special import expit

from skcara.data import gram, scaled_rows

# log(1+e) is summed as the logarithm of products of this many factors: logarithms are
# the slowest operation of a pass. Up to this margin t, the product of so many numbers
# 1 + exp(t) is far from overflow, exp(709).
_LOG_PRODUCT, _MAX_MARGIN = 8, 80.0
# Up to this many classes a Gram matrix for each pair of them costs least.
_FEW_OUTPUTS = 8


class Loss(ABC):
    """What a solver may ask of a loss.

    A subclass needs ``value``, ``derivative`` and ``second_derivative``; the other
    methods are overridden where there is something faster.
    """

    #: Number of linear predictions per row.
    n_outputs: int = 1
    #: Matrix (n_outputs, n_outputs) that bounds ``second_derivative`` at every
    #: prediction, or None where there is no bound.
    curvature_bound: np.ndarray | None = None
    #: Whether the second derivative is the same everywhere, and equal to its bound.
    is_quadratic: bool = False
    #: Whether the loss of all rows together may have no minimiser.
    can_separate: bool = False
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

    def derivative_kernel(self, target) -> Callable[[np.ndarray, np.ndarray], None]:
        """Derivative as a function ``write(prediction, out)`` of flat buffers.

        The inner loop of block descent calls it ten thousand times on a handful of
        rows: overridden methods allocate nothing.
        """
        shape = (len(target), self.n_outputs)

        def write(prediction, out):
            out[:] = self.derivative(target, prediction.reshape(shape)).ravel()

        return write


class SquaredLoss(Loss):
    r"""Half the squared error, :math:`\tfrac12 (\mathrm{prediction} - y)^2`."""

    curvature_bound = np.ones((1, 1))
    is_quadratic = True

    def value(self, target, prediction):
        """Loss of each row, shape (n_rows,)."""
        return 0.5 * (prediction[:, 0] - target) ** 2

    def derivative(self, target, prediction):
        """Derivative of each row's loss, shape (n_rows, 1)."""
        return prediction - target[:, None]

    def second_derivative(self, target, prediction):
        """One for every row."""
        return np.ones(len(prediction))

    def weighted_sum(self, target, prediction, weights):
        """Weighted sum of the losses and the weighted derivatives."""
        residual = prediction
        residual -= target[:, None]
        flat = residual[:, 0]
        if weights is None:
            return 0.5 * float(flat @ flat), residual
        weighted = flat * weights
        return 0.5 * float(weighted @ flat), weighted[:, None]

    def derivative_kernel(self, target):
        """Residuals."""

        def write(prediction, out):
            np.subtract(prediction, target, out=out)

        return write


class LogisticLoss(Loss):
    r"""Binary logistic loss :math:`\log(1 + e^z) - y z` for targets in {0, 1}.

    With :math:`t = (1 - 2y) z` the loss is
    :math:`\max(t, 0) + \log(1 + e^{-|t|})`, which neither overflows nor cancels, and
    its derivative is :math:`(1 - 2y)\,\sigma(t)`.
    """

    curvature_bound = np.full((1, 1), 0.25)
    can_separate = True
    value_at_zero = float(np.log(2.0))

    def value(self, target, prediction):
        """Loss of each row, shape (n_rows,)."""
        return np.logaddexp(0.0, (1.0 - 2.0 * target) * prediction[:, 0])

    def derivative(self, target, prediction):
        """Derivative of each row's loss, shape (n_rows, 1)."""
        return _sigmoid(prediction) - target[:, None]

    def second_derivative(self, target, prediction):
        """Variance of the predicted label, shape (n_rows,)."""
        probability = _sigmoid(prediction[:, 0])
        # sigma(z) sigma(-z), because 1 - sigma(z) has no digits left for large z.
        return probability * _sigmoid(-prediction[:, 0])

    def weighted_sum(self, target, prediction, weights):
        """Weighted sum of the losses and the weighted derivatives."""
        sign = 1.0 - 2.0 * target
        margin = prediction[:, 0]
        margin *= sign
        # Written so that a NaN takes the other way.
        if not margin.max(initial=0.0) <= _MAX_MARGIN:
            return self._sum_of_large_margins(margin, sign, weights)
        growth = np.exp(margin, out=margin)
        denominator = growth + 1.0
        if weights is None:
            total = _sum_of_logs(denominator)
        else:
            total = float(weights @ np.log(denominator))
            sign *= weights
        growth /= denominator
        growth *= sign
        return total, growth[:, None]

    @staticmethod
    def _sum_of_large_margins(margin, sign, weights):
        """The same with exponentials of negative numbers only."""
        magnitude = np.abs(margin)
        decay = np.exp(-magnitude)
        denominator = decay + 1.0
        if weights is None:
            # max(t, 0) = (t + |t|) / 2
            total = 0.5 * float(margin.sum() + magnitude.sum())
            total += _sum_of_logs(denominator)
        else:
            np.maximum(margin, 0.0, out=magnitude)
            magnitude += np.log(denominator)
            total = float(weights @ magnitude)
            sign *= weights
        # sigma(t) = 1/2 + sign(t) (1/2 - sigma(-|t|)): unlike a selection by the sign
        # of t, which no processor can predict, this runs at full speed.
        decay /= denominator
        np.subtract(0.5, decay, out=decay)
        np.copysign(decay, margin, out=decay)
        decay += 0.5
        decay *= sign
        return total, decay[:, None]

    def stacked(self, target, scores):
        """Losses and derivatives of several predictions of the same rows."""
        values = scores[:, 0] * (1.0 - 2.0 * target)
        np.maximum(values, 0.0, out=values)
        decay = np.exp(-np.abs(scores))
        denominator = decay + 1.0
        self._derivatives(target, scores, decay, denominator)
        values += np.log(denominator, out=denominator)[:, 0]
        return values, scores

    def stacked_derivatives(self, target, scores):
        """Derivatives of several predictions of the same rows, in their precision."""
        if scores.dtype != np.float32:
            # In double precision the exponential is three times as fast as tanh.
            decay = np.exp(-np.abs(scores))
            return self._derivatives(target, scores, decay, decay + 1.0)
        # sigma(z) - y = tanh(z/2) / 2 + 1/2 - y
        half = np.float32(0.5)
        scores *= half
        np.tanh(scores, out=scores)
        scores *= half
        scores += half - target.astype(np.float32)
        return scores

    @staticmethod
    def _derivatives(target, scores, decay, denominator):
        """Write the derivatives over the scores."""
        decay /= denominator
        np.subtract(0.5, decay, out=decay)
        np.copysign(decay, scores, out=scores)
        scores += 0.5 - target
        return scores

    def derivative_kernel(self, target):
        """Probabilities minus labels."""
        target = target.astype(np.float64)

        def write(prediction, out):
            expit(prediction, out=out)
            np.subtract(out, target, out=out)

        return write


class MultinomialLoss(Loss):
    r"""Cross entropy :math:`\log \sum_k e^{z_k} - z_y` of class codes 0, 1, ..."""

    can_separate = True

    def __init__(self, n_classes: int):
        self.n_outputs = n_classes
        self.value_at_zero = float(np.log(n_classes))
        # The covariance of a one-hot vector has eigenvalues of at most one half, and
        # zero in the direction of ones.
        self.curvature_bound = 0.5 * (np.eye(n_classes) - 1.0 / n_classes)

    def value(self, target, prediction):
        """Loss of each row, shape (n_rows,)."""
        chosen = np.take_along_axis(prediction, target[:, None], axis=1)[:, 0]
        largest = prediction.max(axis=1)
        total = np.exp(prediction - largest[:, None]).sum(axis=1)
        return np.log(total) + (largest - chosen)

    def derivative(self, target, prediction):
        """Derivative of each row's loss, shape (n_rows, n_outputs)."""
        difference = _softmax(prediction)
        difference[np.arange(len(target)), target] -= 1.0
        return difference

    def second_derivative(self, target, prediction):
        """Covariance of the predicted label, shape (n_rows, n_outputs, n_outputs)."""
        probability = _softmax(prediction)
        covariance = -probability[:, :, None] * probability[:, None, :]
        diagonal = np.arange(self.n_outputs)
        covariance[:, diagonal, diagonal] += probability
        return covariance

    def curvature(self, target, prediction):
        """Variance of each predicted label, shape (n_rows, n_outputs)."""
        probability = _softmax(prediction)
        return probability * (1.0 - probability)

    def weighted_sum(self, target, prediction, weights):
        """Weighted sum of the losses and the weighted derivatives."""
        # One class after the other: NumPy is slow at reductions over a short last axis,
        # and at indexing with more than one array.
        scores = np.ascontiguousarray(prediction.T)
        flat, n_rows = scores.reshape(-1), len(target)
        chosen = np.multiply(target, n_rows, dtype=np.intp)
        chosen += np.arange(n_rows)
        scores -= scores.max(axis=0)
        loss = -flat[chosen]
        np.exp(scores, out=scores)
        normaliser = scores.sum(axis=0)
        loss += np.log(normaliser)
        scores /= normaliser
        flat[chosen] -= 1.0
        if weights is None:
            return float(loss.sum()), scores.T
        scores *= weights
        return float(weights @ loss), scores.T

    def stacked(self, target, scores):
        """Losses and derivatives of several predictions of the same rows."""
        rows = np.arange(len(target))
        scores -= scores.max(axis=1, keepdims=True)
        values = -scores[:, target, rows]
        np.exp(scores, out=scores)
        normaliser = scores.sum(axis=1)
        values += np.log(normaliser)
        scores /= normaliser[:, None]
        scores[:, target, rows] -= 1.0
        return values, scores

    def stacked_derivatives(self, target, scores):
        """Derivatives of several predictions of the same rows."""
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[:, target, np.arange(len(target))] -= 1.0
        return scores

    def hessian(self, rows, weights, target, prediction):
        """Hessian of some rows, from the class probabilities."""
        rows = rows.toarray() if sparse.issparse(rows) else rows
        probability = _softmax(prediction)
        if self.n_outputs <= _FEW_OUTPUTS:
            return _hessian_by_pairs(rows, weights, probability)
        return _hessian_by_product(rows, weights, probability)

    def derivative_kernel(self, target):
        """Probabilities minus labels, outputs of a row one after the other."""
        shape = (len(target), self.n_outputs)
        labels = np.zeros(shape)
        labels[np.arange(len(target)), target] = 1.0
        row_value = np.empty((len(target), 1))

        def write(prediction, out):
            prediction, out = prediction.reshape(shape), out.reshape(shape)
            np.maximum.reduce(prediction, axis=1, keepdims=True, out=row_value)
            np.subtract(prediction, row_value, out=out)
            np.exp(out, out=out)
            np.add.reduce(out, axis=1, keepdims=True, out=row_value)
            np.divide(out, row_value, out=out)
            np.subtract(out, labels, out=out)

        return write


def _sigmoid(prediction):
    decay = np.exp(-np.abs(prediction))
    return np.where(prediction >= 0, 1.0, decay) / (1.0 + decay)


def _softmax(prediction):
    exponential = np.exp(prediction - prediction.max(axis=1, keepdims=True))
    exponential /= exponential.sum(axis=1, keepdims=True)
    return exponential


def _hessian_by_pairs(rows, weights, probability):
    """Hessian for class probabilities, from one Gram matrix for each pair of classes.

    The rows of ``diag(p) - p p'`` sum to zero, so the diagonal is a sum of the others.
    """
    n_params, n_outputs = rows.shape[1], probability.shape[1]
    # Contiguous blocks: writing each of them with strides would cost as much as the
    # products of a few hundred rows.
    blocks = np.zeros((n_outputs, n_outputs, n_params, n_params))
    for first, second in combinations(range(n_outputs), 2):
        curvature = weights * probability[:, first] * probability[:, second]
        matrix = gram(scaled_rows(rows, np.sqrt(curvature)))
        blocks[first, first] += matrix
        blocks[second, second] += matrix
        np.negative(matrix, out=blocks[first, second])
        blocks[second, first] = blocks[first, second]
    return blocks.transpose(2, 0, 3, 1).reshape(n_params * n_outputs, -1)


def _hessian_by_product(rows, weights, probability):
    """Hessian for class probabilities from one large product."""
    (n_rows, n_params), n_outputs = rows.shape, probability.shape[1]
    outer = probability * np.sqrt(weights)[:, None]
    outer = (rows[:, :, None] * outer[:, None, :]).reshape(n_rows, -1)
    hessian = -(outer.T @ outer)
    blocks = hessian.reshape(n_params, n_outputs, n_params, n_outputs)
    diagonal = np.arange(n_outputs)
    # Not diag(p) - p^2, which cancels where a class is certain.
    blocks[:, diagonal, :, diagonal] = 0.0
    blocks[:, diagonal, :, diagonal] = -blocks.sum(axis=3).transpose(1, 0, 2)
    return hessian


def _sum_of_logs(factors):
    """Sum of the logarithms of numbers between 1 and ``1 + exp(_MAX_MARGIN)``."""
    n_columns = len(factors) // _LOG_PRODUCT
    head = factors[: n_columns * _LOG_PRODUCT].reshape(_LOG_PRODUCT, n_columns)
    products = np.multiply.reduce(head, axis=0)
    rest = factors[n_columns * _LOG_PRODUCT :]
    return float(np.log(products).sum() + np.log(rest).sum())
