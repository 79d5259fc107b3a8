"""The losses of one linear prediction: squared and logistic."""

import numpy as np
from scipy.special import expit

from skcara.objective._loss import ClassLoss, Loss

# log(1+e) is summed as the logarithm of products of this many factors: logarithms are
# the slowest operation of a pass. Up to this margin t, the product of so many numbers
# 1 + exp(t) is far from overflow, exp(709).
_LOG_PRODUCT, _MAX_MARGIN = 8, 80.0
# Largest number whose exponential, and its square, are far from overflow.
_MAX_EXPONENT = 350.0


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


class LogisticLoss(ClassLoss):
    r"""Binary logistic loss :math:`\log(1 + e^z) - y z` for targets in {0, 1}.

    With :math:`t = (1 - 2y) z` the loss is
    :math:`\max(t, 0) + \log(1 + e^{-|t|})`, which neither overflows nor cancels, and
    its derivative is :math:`(1 - 2y)\,\sigma(t)`.
    """

    curvature_bound = np.full((1, 1), 0.25)
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
        # Labels are small integers, whose arithmetic costs next to nothing.
        sign = (1 - 2 * target).astype(np.float64)
        margin = prediction[:, 0]
        margin *= sign
        # Written so that a NaN takes the other way.
        if not margin.max(initial=0.0) <= _MAX_MARGIN:
            return self._sum_of_large_margins(margin, sign, weights)
        growth = np.exp(margin, out=margin)
        denominator = growth + 1.0
        if weights is None:
            total = sum_of_logs(denominator)
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
            total += sum_of_logs(denominator)
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
        # In place as far as possible: arrays of this size cost more than arithmetic.
        sign = 1.0 - 2.0 * target
        scores *= sign
        if not scores.max(initial=0.0) <= _MAX_EXPONENT:
            return self._stacked_large(scores, sign)
        np.exp(scores, out=scores)
        denominator = scores + 1.0
        scores /= denominator
        scores *= sign
        return np.log(denominator, out=denominator)[:, 0], scores

    @staticmethod
    def _stacked_large(margins, sign):
        """The same with exponentials of negative numbers only."""
        values = np.maximum(margins[:, 0], 0.0)
        decay = np.exp(-np.abs(margins))
        denominator = decay + 1.0
        values += np.log(denominator)[:, 0]
        decay /= denominator
        np.subtract(0.5, decay, out=decay)
        np.copysign(decay, margins, out=margins)
        margins += 0.5
        margins *= sign
        return values, margins

    def stacked_derivatives(self, target, scores):
        """Derivatives of several predictions of the same rows, in their precision."""
        if scores.dtype != np.float32:
            # In double precision the exponential is three times as fast as tanh. One
            # that overflows belongs to a probability of zero.
            np.negative(scores, out=scores)
            with np.errstate(over="ignore"):
                np.exp(scores, out=scores)
            scores += 1.0
            np.reciprocal(scores, out=scores)
            scores -= target
            return scores
        # sigma(z) - y = tanh(z/2) / 2 + 1/2 - y
        half = np.float32(0.5)
        scores *= half
        np.tanh(scores, out=scores)
        scores *= half
        scores += half - target.astype(np.float32)
        return scores

    def derivative_kernel(self, target):
        """Probabilities minus labels."""
        target = target.astype(np.float64)

        def write(prediction, out):
            expit(prediction, out=out)
            np.subtract(out, target, out=out)

        return write


def _sigmoid(prediction):
    decay = np.exp(-np.abs(prediction))
    return np.where(prediction >= 0, 1.0, decay) / (1.0 + decay)


def sum_of_logs(factors):
    """Sum of the logarithms of numbers between 1 and about ``exp(_MAX_MARGIN)``."""
    n_columns = len(factors) // _LOG_PRODUCT
    head = factors[: n_columns * _LOG_PRODUCT].reshape(_LOG_PRODUCT, n_columns)
    products = np.multiply.reduce(head, axis=0)
    rest = factors[n_columns * _LOG_PRODUCT :]
    return float(np.log(products).sum() + np.log(rest).sum())
