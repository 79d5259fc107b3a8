r"""One judge for all solvers: objective, violation and duality gap on the full data.

The judge shares no code with any solver. It reads the data by chunks of rows, keeps a
few vectors of ``n_rows`` numbers, uses overflow-free formulas and adds the chunks with
``math.fsum``, so that relative differences of :math:`10^{-12}` mean something.

With :math:`P(\beta, b) = \frac1N \sum_i f_i(x_i \beta + b) + \Omega(\beta)` and any
:math:`r` with :math:`\sum_i r_i = 0` (the intercept is free), Fenchel duality gives the
lower bound

.. math:: D(r) = -\frac1N \sum_i f_i^*(r_i) - \Omega^*(-X^T r / N) \le \min P .

The natural candidate is :math:`r_i = f_i'(x_i\beta + b^*)`, where :math:`b^*` minimises
the loss over the intercept alone; for a pure L1 penalty it is scaled into the box
:math:`|X^T r| / N \le l_1`. Without penalty the dual is a linear system that a
candidate cannot satisfy exactly: the gap is then NaN and the violation judges alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax, softmax, xlogy

CHUNK_ROWS = 16_384


@dataclass(frozen=True)
class Verdict:
    """What the full data say about one solution.

    Attributes
    ----------
    objective : float
        Mean loss plus penalty.
    violation : float
        Largest distance of minus the smooth gradient to the subdifferential of the
        L1 term, over coefficients and intercept.
    dual_gap : float
        Objective minus a lower bound of the minimum; NaN without penalty.
    """

    objective: float
    violation: float
    dual_gap: float


class _SquaredLoss:
    """f(z) = (z - y)^2 / 2."""

    @staticmethod
    def value(y, margin):
        return 0.5 * (margin[:, 0] - y) ** 2

    @staticmethod
    def derivative(y, margin):
        return margin - y[:, None]

    @staticmethod
    def curvature(y, margin):
        return np.ones((len(y), 1, 1))

    @staticmethod
    def conjugate(y, dual):
        return 0.5 * dual[:, 0] ** 2 + dual[:, 0] * y


class _LogisticLoss:
    """f(z) = log(1 + exp(z)) - y z, y in {0, 1}."""

    @staticmethod
    def value(y, margin):
        signed = np.where(y > 0, -margin[:, 0], margin[:, 0])
        return np.logaddexp(0.0, signed)

    @staticmethod
    def derivative(y, margin):
        # expit(z) - 1 cancels for large z; minus expit(-z) does not.
        positive = (y > 0)[:, None]
        return np.where(positive, -expit(-margin), expit(margin))

    @staticmethod
    def curvature(y, margin):
        return (expit(margin) * expit(-margin))[:, :, None]

    @staticmethod
    def conjugate(y, dual):
        share = np.clip(np.where(y > 0, -dual[:, 0], dual[:, 0]), 0.0, 1.0)
        return xlogy(share, share) + xlogy(1.0 - share, 1.0 - share)


class _MultinomialLoss:
    """f(z) = logsumexp(z) - z_y, y in {0, 1, ...}."""

    @staticmethod
    def value(y, margin):
        return -log_softmax(margin, axis=1)[np.arange(len(y)), y.astype(int)]

    @staticmethod
    def derivative(y, margin):
        probability = softmax(margin, axis=1)
        probability[np.arange(len(y)), y.astype(int)] -= 1.0
        return probability

    @staticmethod
    def curvature(y, margin):
        probability = softmax(margin, axis=1)
        outer = -probability[:, :, None] * probability[:, None, :]
        diagonal = np.arange(margin.shape[1])
        outer[:, diagonal, diagonal] += probability
        return outer

    @staticmethod
    def conjugate(y, dual):
        share = dual.copy()
        share[np.arange(len(y)), y.astype(int)] += 1.0
        share = np.clip(share, 0.0, 1.0)
        return xlogy(share, share).sum(axis=1)


LOSSES = {
    "squared": _SquaredLoss,
    "logistic": _LogisticLoss,
    "multinomial": _MultinomialLoss,
}


class Judge:
    """Evaluate solutions of one :class:`problems.BenchProblem`.

    Coefficients have shape (n_features, n_outputs), the intercept (n_outputs,).
    """

    def __init__(self, problem):
        self.problem = problem
        self.loss = LOSSES[problem.loss]

    def chunks(self):
        """Slices of consecutive rows that cover the data."""
        for start in range(0, self.problem.n_rows, CHUNK_ROWS):
            yield slice(start, min(start + CHUNK_ROWS, self.problem.n_rows))

    def margins(self, coef, intercept):
        """Linear predictor of all rows, shape (n_rows, n_outputs)."""
        margin = np.empty((self.problem.n_rows, coef.shape[1]))
        for rows in self.chunks():
            margin[rows] = self.problem.X[rows] @ coef + intercept
        return margin

    def mean_loss(self, margin):
        """Mean loss of all rows."""
        y = self.problem.y
        total = math.fsum(
            self.loss.value(y[rows], margin[rows]).sum() for rows in self.chunks()
        )
        return total / self.problem.n_rows

    def penalty(self, coef):
        """L1 and L2 terms; the intercept is free."""
        l1, l2 = self.problem.l1, self.problem.l2
        return l1 * np.abs(coef).sum() + 0.5 * l2 * (coef**2).sum()

    def objective(self, coef, intercept):
        """Mean loss plus penalty."""
        return self.mean_loss(self.margins(coef, intercept)) + self.penalty(coef)

    def loss_gradient(self, margin):
        """Gradient of the mean loss for coefficients and intercept."""
        problem = self.problem
        coef_part = np.zeros((problem.n_features, margin.shape[1]))
        intercept_part = np.zeros(margin.shape[1])
        for rows in self.chunks():
            slope = self.loss.derivative(problem.y[rows], margin[rows])
            coef_part += problem.X[rows].T @ slope
            intercept_part += slope.sum(axis=0)
        return coef_part / problem.n_rows, intercept_part / problem.n_rows

    def violation(self, coef, gradient):
        """Largest KKT violation, given the (coef, intercept) gradient of the loss."""
        coef_part, intercept_part = gradient
        smooth = coef_part + self.problem.l2 * coef
        at_zero = np.maximum(np.abs(smooth) - self.problem.l1, 0.0)
        moving = np.abs(smooth + self.problem.l1 * np.sign(coef))
        distance = np.where(coef == 0.0, at_zero, moving)
        return float(max(distance.max(), np.abs(intercept_part).max()))

    def evaluate(self, coef, intercept):
        """Verdict on one solution."""
        margin = self.margins(coef, intercept)
        objective = self.mean_loss(margin) + self.penalty(coef)
        violation = self.violation(coef, self.loss_gradient(margin))
        gap = math.nan
        if self.problem.l1 or self.problem.l2:
            gap = objective - self.dual_value(margin)
        return Verdict(objective, violation, gap)

    def dual_value(self, margin):
        """Lower bound of the minimum from the margins of a candidate solution."""
        problem = self.problem
        margin = margin + self.best_shift(margin)
        correlation, _ = self.loss_gradient(margin)
        size = np.abs(correlation)
        if problem.l2:
            scale = 1.0
            conjugate = (np.maximum(size - problem.l1, 0.0) ** 2).sum() / problem.l2 / 2
        else:
            scale, conjugate = min(1.0, problem.l1 / size.max()), 0.0
        total = math.fsum(
            self.loss.conjugate(
                problem.y[rows],
                scale * self.loss.derivative(problem.y[rows], margin[rows]),
            ).sum()
            for rows in self.chunks()
        )
        return -total / problem.n_rows - conjugate

    def best_shift(self, margin, max_iter=50):
        """Intercept change that makes the mean derivative zero (Newton)."""
        shift = np.zeros(margin.shape[1])
        for _ in range(max_iter):
            slope = np.zeros(margin.shape[1])
            curvature = np.zeros((margin.shape[1], margin.shape[1]))
            for rows in self.chunks():
                shifted = margin[rows] + shift
                slope += self.loss.derivative(self.problem.y[rows], shifted).sum(axis=0)
                curvature += self.loss.curvature(self.problem.y[rows], shifted).sum(0)
            step = np.linalg.lstsq(curvature, slope, rcond=None)[0]
            shift -= step
            if np.abs(step).max() <= 1e-14 * (1.0 + np.abs(shift).max()):
                break
        return shift
