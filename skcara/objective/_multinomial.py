"""The loss of several classes."""

from itertools import combinations

import numpy as np
from scipy import sparse

from skcara.data import gram, scaled_rows
from skcara.objective._loss import ClassLoss
from skcara.objective._losses import sum_of_logs

# Up to this many classes a Gram matrix for each pair of them costs least.
_FEW_OUTPUTS = 8


class MultinomialLoss(ClassLoss):
    r"""Cross entropy :math:`\log \sum_k e^{z_k} - z_y` of class codes 0, 1, ..."""

    is_invariant = True

    def __init__(self, n_classes: int):
        self.n_outputs = n_classes
        # Probabilities and labels of a row add up to one, so derivatives to zero.
        self.n_free_outputs = n_classes - 1
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
        gain = flat[chosen]
        np.exp(scores, out=scores)
        normaliser = scores.sum(axis=0)
        if weights is None:
            total = sum_of_logs(normaliser) - float(gain.sum())
        else:
            total = float(weights @ (np.log(normaliser) - gain))
        # Multiplications take half of the time of divisions.
        scores *= np.reciprocal(normaliser, out=normaliser)
        flat[chosen] -= 1.0
        if weights is not None:
            scores *= weights
        return total, scores.T

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


def _softmax(prediction):
    """Probabilities, outputs one after the other in memory."""
    # NumPy is slow at reductions over a short last axis.
    exponential = np.array(prediction.T, order="C")
    exponential -= exponential.max(axis=0)
    np.exp(exponential, out=exponential)
    exponential /= exponential.sum(axis=0)
    return exponential.T


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
    factors = probability * np.sqrt(weights)[:, None]
    hessian = np.zeros((n_params * n_outputs, n_params * n_outputs))
    # No more memory for copies of rows than for the matrix.
    for first in range(0, n_rows, len(hessian)):
        part = slice(first, first + len(hessian))
        outer = rows[part, :, None] * factors[part, None, :]
        outer = outer.reshape(-1, len(hessian))
        hessian -= outer.T @ outer
    blocks = hessian.reshape(n_params, n_outputs, n_params, n_outputs)
    diagonal = np.arange(n_outputs)
    # Not diag(p) - p^2, which cancels where a class is certain.
    blocks[:, diagonal, :, diagonal] = 0.0
    blocks[:, diagonal, :, diagonal] = -blocks.sum(axis=3).transpose(1, 0, 2)
    return hessian
