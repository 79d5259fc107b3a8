"""Loss of a row as a function of its linear prediction.

A loss knows targets and predictions only; sums, weights and penalties are not its
business, with one exception: :meth:`Loss.weighted_sum` is the kernel of a pass and
returns the weighted sum over a chunk together with the derivatives, because the two
share the expensive exponentials.

Conventions: predictions are float64 arrays of shape (n_rows, n_outputs); ``target`` is
what :class:`Problem` was given, of shape (n_rows,).
"""

from typing import Protocol

import numpy as np

# log(1+e) is summed as the logarithm of products of this many factors in [1, 2]:
# 2**128 is far from overflow, and logarithms are the slowest operation of a pass.
_LOG_PRODUCT = 128


class Loss(Protocol):
    """What a solver may ask of a loss."""

    n_outputs: int
    #: Largest eigenvalue that ``second_derivative`` can have at any prediction.
    curvature_bound: float
    #: Whether the loss of all rows together may have no minimiser.
    can_separate: bool

    def value(self, target, prediction) -> np.ndarray:
        """Loss of each row, shape (n_rows,)."""

    def derivative(self, target, prediction) -> np.ndarray:
        """Derivative of each row's loss, shape (n_rows, n_outputs)."""

    def second_derivative(self, target, prediction) -> np.ndarray:
        """Second derivative, shape (n_rows,) or (n_rows, n_outputs, n_outputs)."""

    def weighted_sum(self, target, prediction, weights) -> tuple[float, np.ndarray]:
        """Weighted sum of the losses and the weighted derivatives.

        ``prediction`` may be overwritten. ``weights=None`` means one for every row.
        """


class SquaredLoss:
    r"""Half the squared error, :math:`\tfrac12 (\mathrm{prediction} - y)^2`."""

    n_outputs = 1
    curvature_bound = 1.0
    can_separate = False

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


class LogisticLoss:
    r"""Binary logistic loss :math:`\log(1 + e^z) - y z` for targets in {0, 1}.

    With :math:`t = (1 - 2y) z` the loss is
    :math:`\max(t, 0) + \log(1 + e^{-|t|})`, which neither overflows nor cancels, and
    its derivative is :math:`(1 - 2y)\,\sigma(t)`.
    """

    n_outputs = 1
    curvature_bound = 0.25
    can_separate = True

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


class MultinomialLoss:
    r"""Cross entropy :math:`\log \sum_k e^{z_k} - z_y` of class codes 0, 1, ..."""

    # The covariance of a one-hot vector has eigenvalues of at most one half.
    curvature_bound = 0.5
    can_separate = True

    def __init__(self, n_classes: int):
        self.n_outputs = n_classes

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


def _sigmoid(prediction):
    decay = np.exp(-np.abs(prediction))
    return np.where(prediction >= 0, 1.0, decay) / (1.0 + decay)


def _softmax(prediction):
    exponential = np.exp(prediction - prediction.max(axis=1, keepdims=True))
    exponential /= exponential.sum(axis=1, keepdims=True)
    return exponential


def _sum_of_logs(factors):
    """Sum of the logarithms of numbers between 1 and 2."""
    n_columns = len(factors) // _LOG_PRODUCT
    head = factors[: n_columns * _LOG_PRODUCT].reshape(_LOG_PRODUCT, n_columns)
    products = np.multiply.reduce(head, axis=0)
    rest = factors[n_columns * _LOG_PRODUCT :]
    return float(np.log(products).sum() + np.log(rest).sum())
