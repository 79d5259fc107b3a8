r"""Stopping criteria, all judged on the full data.

A criterion turns an evaluation into one scale-free number that is compared with the
estimator's ``tol``, and into a duality gap where one is known.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from skcara.objective._problem import Evaluation, Problem

_EPS, _TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny


@dataclass(frozen=True)
class ColumnMoments:
    """Weighted mean and variance of the columns of ``X``.

    The variance is ``None`` where nobody will ask for it.
    """

    mean: np.ndarray
    variance: np.ndarray | None

    @classmethod
    def from_sums(cls, sums, squares, reference, total_weight):
        """Build from weighted sums around a ``reference`` row."""
        offset = sums / total_weight
        if squares is None:
            return cls(reference + offset, None)
        variance = np.maximum(squares / total_weight - offset**2, 0.0)
        # What is left of a constant column after the subtraction is rounding.
        noise = 64 * _EPS * squares / total_weight
        return cls(reference + offset, np.where(variance <= noise, 0.0, variance))


class Criterion(Protocol):
    """How an evaluation is compared with ``tol``."""

    #: Whether moments of the columns are needed.
    needs_moments: bool

    def measure(
        self, problem: "Problem", evaluation: "Evaluation"
    ) -> tuple[float, float | None]:
        """Return the number to compare with ``tol`` and the duality gap, if known."""


class KKTViolation:
    """Largest violation of the optimality conditions, in the user's coordinates."""

    needs_moments = False

    def measure(self, problem, evaluation):
        """Return the number to compare with ``tol``; no gap is known."""
        return evaluation.optimality, None


class ResidualCorrelation:
    r"""Largest absolute correlation of the residual with a (centred) column.

    Zero exactly at the least-squares solution and independent of all scales. Under
    positivity, a column at zero counts only if increasing it would help.
    """

    needs_moments = True

    def measure(self, problem, evaluation):
        """Return the largest correlation; no gap is known."""
        residual = _Residual(problem, evaluation)
        if residual.is_rounding:
            return 0.0, None
        spread = np.sqrt(_column_square(problem))
        covariance = residual.covariance
        params = evaluation.params[: len(covariance), 0]
        at_bound = (params == 0) & problem.user_penalty.positive[: len(covariance), 0]
        covariance = np.where(at_bound, np.maximum(covariance, 0.0), covariance)
        # Below this the residual is dominated by the rounding of predictions.
        size = max(np.sqrt(residual.square), np.sqrt(_EPS) * residual.target_size)
        informative = spread > 0
        covariance = np.abs(covariance) + residual.covariance_error
        correlation = covariance[informative] / (spread[informative] * size)
        largest = float(correlation.max(initial=0.0))
        return max(largest, (abs(residual.mean) + residual.mean_error) / size), None


class DualGap:
    r"""Duality gap of the elastic net, relative to the variance of the target.

    With the residual :math:`r`, centred if there is an intercept, and
    :math:`v = X^\top \mu r`, two points of the dual are at hand, and the better one
    bounds the objective from below. For ``l2 > 0`` the residual itself, with

    .. math::

        D_1 = r^\top \mu y - \tfrac12 r^\top \mu r
        - \sum_j (|v_j| - l1)_+^2 / (2\, l2) ,

    and for ``l1 > 0`` the residual of the problem in which the L2 term is written as
    rows :math:`\sqrt{l2}\, I` of the design, shrunk by
    :math:`s = \min(1, l1 / \max_j |v_j - l2\, p_j|)` to be feasible,

    .. math:: D_2 = s\, r^\top \mu y - \tfrac12 s^2 (r^\top \mu r + l2\, p^\top p).

    Without any penalty no point but the exact solution has a finite gap, and the
    correlation of the residual decides instead.
    """

    needs_moments = True

    def measure(self, problem, evaluation):
        """Return the relative gap and the gap."""
        residual = _Residual(problem, evaluation)
        n_features = problem.n_features
        l1 = float(problem.user_penalty.l1[:n_features].max(initial=0.0))
        l2 = float(problem.user_penalty.l2[:n_features].max(initial=0.0))
        if l1 == 0 and l2 == 0:
            stop_value, _ = ResidualCorrelation().measure(problem, evaluation)
            return stop_value, np.nan
        coef, _ = problem.coordinates.to_user(evaluation.params)
        objective = evaluation.objective + evaluation.loss_error
        gap = objective - _dual_value(residual, coef[:, 0], l1, l2, problem)
        # The gap is a difference of numbers of the size of the objective.
        gap = max(gap, 0.0)
        variance = residual.target_variance
        rounding = 8 * _EPS * residual.target_size**2
        return gap / max(variance, rounding, _TINY), gap


def _dual_value(residual, coef, l1, l2, problem):
    """Value of the better dual point, for the worst that the sums may hide."""
    correlation, error = residual.covariance, residual.covariance_error
    positive = problem.user_penalty.positive[: len(coef), 0]
    # theta' mu y with y = r + X coef + intercept and a centred theta.
    product = residual.square + coef @ correlation
    product -= residual.square_error + np.abs(coef) @ error
    largest_square = residual.square + residual.square_error
    values = []
    if l2 > 0:
        reach = np.where(positive, correlation, np.abs(correlation)) + error
        conjugate = np.sum(np.maximum(reach - l1, 0.0) ** 2) / (2 * l2)
        values.append(product - 0.5 * largest_square - conjugate)
    if l1 > 0:
        shrunk = correlation - l2 * coef
        reach = np.where(positive, shrunk, np.abs(shrunk)) + error
        largest = reach.max(initial=0.0)
        shrink = l1 / largest if largest > l1 else 1.0
        square = largest_square + l2 * (coef @ coef)
        values.append(shrink * product - 0.5 * shrink**2 * square)
    return max(values)


def _column_square(problem):
    moments = problem.column_moments
    if problem.coordinates.fit_intercept:
        return moments.variance
    return moments.variance + moments.mean**2


class _Residual:
    """Second moments of the residual, from the loss and its gradient alone.

    Attributes
    ----------
    square, mean : float
        Mean square around the mean, and the mean (0 without an intercept).
    covariance : ndarray of shape (n_features,)
        With the (centred) columns.
    square_error, mean_error, covariance_error : float or ndarray
        Bounds of their errors.
    target_size, target_variance : float
        Root mean square of the target, and what ``tol`` is relative to.
    is_rounding : bool
        Whether the residual is nothing but rounding.
    """

    def __init__(self, problem, evaluation):
        coordinates, target = problem.coordinates, problem.target_moments
        n_features, scale = coordinates.n_features, coordinates.scale
        gradient = evaluation.gradient[:, 0]
        error = np.zeros_like(gradient)
        if evaluation.gradient_error is not None:
            error = evaluation.gradient_error[:, 0]
        self.target_size = np.sqrt(target.mean_square)
        self.square = 2.0 * evaluation.loss
        self.square_error = 2.0 * evaluation.loss_error
        self.covariance = -scale * gradient[:n_features]
        self.covariance_error = scale * error[:n_features]
        self.mean = self.mean_error = 0.0
        self.target_variance = target.mean_square
        if coordinates.fit_intercept:
            self.mean, self.mean_error = -gradient[-1], error[-1]
            self.square = max(self.square - self.mean**2, 0.0)
            self.square_error += (2 * abs(self.mean) + error[-1]) * error[-1]
            offset = problem.column_moments.mean - coordinates.shift
            self.covariance -= offset * self.mean
            self.covariance_error += np.abs(offset) * error[-1]
            self.target_variance = target.variance
        rounding = 64 * _EPS * self.target_size
        self.is_rounding = 2.0 * evaluation.loss <= rounding**2
