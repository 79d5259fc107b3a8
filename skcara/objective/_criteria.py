r"""Stopping criteria, all judged on the full data.

A criterion turns an evaluation into one scale-free number that is compared with the
estimator's ``tol``, and into a duality gap where one is known.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from skcara.objective._penalty import violation
from skcara.objective._rounding import PassRounding, gamma

if TYPE_CHECKING:
    from skcara.objective._problem import Evaluation, Problem

_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
# Operations on the terms of the sums over columns in an objective or a dual value.
_SMALL_SUMS = 16


@dataclass(frozen=True)
class ColumnMoments:
    """Weighted mean and variance of the columns of ``X``."""

    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def from_sums(cls, sums, squares, reference, total_weight):
        """Build from weighted sums around a ``reference`` row."""
        offset = sums / total_weight
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
    positivity, a column at zero counts only if increasing it would help. Correlations
    that are nothing but rounding count as zero.
    """

    needs_moments = True

    def measure(self, problem, evaluation):
        """Return the largest correlation; no gap is known."""
        return _Residual(problem, evaluation).largest_correlation(), None


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

    Each of the sums is taken to be as wrong as rounding can make it
    (:mod:`skcara.objective._rounding`), so that the gap is a bound in spite of it.

    Where a penalty is smaller than the rounding of :math:`v`, nothing is feasible for
    sure and the gap is about the objective; without any penalty there is none. A point
    that satisfies the optimality conditions to rounding has converged all the same:
    no arithmetic could tell it from a better one.
    """

    needs_moments = True

    def measure(self, problem, evaluation):
        """Return the relative gap and the gap."""
        residual = _Residual(problem, evaluation)
        # That of all columns; the intercept behind them has none.
        l1, l2 = problem.user_penalty.l1.item(0), problem.user_penalty.l2.item(0)
        if l1 == 0 and l2 == 0:
            return residual.largest_correlation(), np.nan
        objective, dual = evaluation.objective, _dual_value(residual, l1, l2)
        gap = objective + 0.5 * residual.square_error - dual
        # Roundings of the objective and of the dual value themselves.
        gap += gamma(problem.n_params + _SMALL_SUMS) * (objective + abs(dual))
        if residual.is_optimal:
            return 0.0, gap
        rounding = 8 * _EPS * residual.target_size * residual.target_size
        return gap / max(residual.target_variance, rounding, _TINY), gap


def _dual_value(residual, l1, l2):
    """Value of the better dual point, for the worst that the sums may hide."""
    coef, sizes, correlation = residual.coef, residual.coef_sizes, residual.covariance
    error = residual.covariance_error
    # theta' mu y with y = r + X coef + intercept and a centred theta.
    product = residual.square + coef @ correlation
    product -= residual.square_error + sizes @ error
    largest_square = residual.square + residual.square_error
    values = []
    if l2 > 0:
        reach = _reach(correlation, residual.is_positive) + error
        excess = np.maximum(reach - l1, 0.0)
        conjugate = excess @ excess / (2 * l2)
        values.append(product - 0.5 * largest_square - conjugate)
    if l1 > 0:
        shrunk = correlation - l2 * coef
        reach = _reach(shrunk, residual.is_positive) + error
        reach += 4 * _EPS * l2 * sizes
        largest = reach.max(initial=0.0)
        shrink = l1 / largest if largest > l1 else 1.0
        square = largest_square + l2 * (coef @ coef)
        values.append(shrink * product - 0.5 * shrink**2 * square)
    return max(values)


def _reach(correlation, is_positive):
    """How much of the penalty each column uses up."""
    size = np.abs(correlation)
    if np.count_nonzero(is_positive):
        return np.where(is_positive, correlation, size)
    return size


class _Residual:
    """Second moments of the residual, from the loss and its gradient alone.

    Attributes
    ----------
    coef, coef_sizes : ndarray of shape (n_features,)
        Coefficients of the user, and their absolute values.
    is_positive : ndarray of bool of shape (n_features,)
        Which of them must not be negative.
    square, mean : float
        Mean square around the mean, and the mean (0 without an intercept).
    covariance : ndarray of shape (n_features,)
        With the (centred) columns.
    square_error, mean_error, covariance_error : float or ndarray
        Bounds of their errors.
    spread : ndarray of shape (n_features,)
        Root mean squares of the (centred) columns.
    target_size, target_variance : float
        Root mean square of the target, and what ``tol`` is relative to.
    """

    def __init__(self, problem, evaluation):
        coordinates, target = problem.coordinates, problem.target_moments
        moments, n_features = problem.column_moments, coordinates.n_features
        penalty = problem.user_penalty
        self._l1, self._l2 = penalty.l1[:n_features, 0], penalty.l2[:n_features, 0]
        self._rounding = PassRounding(problem, evaluation.params, evaluation.loss)
        # Sums that are not those of a pass come with bounds of their own.
        self._is_from_pass = evaluation.gradient_error is None
        if self._is_from_pass:
            error, square_error = self._rounding.gradient, self._rounding.square
        else:
            error = evaluation.gradient_error[:, 0]
            square_error = 2.0 * evaluation.loss_error
        gradient, scale = evaluation.gradient[:, 0], coordinates.scale
        self.coef, self.coef_sizes = self._rounding.coef, self._rounding.coef_sizes
        self.is_positive = penalty.positive[:n_features, 0]
        self.square, self.square_error = 2.0 * evaluation.loss, square_error
        self.covariance = -scale * gradient[:n_features]
        self.covariance_error = scale * error[:n_features]
        self.mean = self.mean_error = 0.0
        self.spread = self._rounding.columns
        self.target_size = math.sqrt(target.mean_square)
        self.target_variance = target.mean_square
        if coordinates.fit_intercept:
            self.mean, self.mean_error = -float(gradient[-1]), float(error[-1])
            # Products become infinite where powers of Python raise.
            self.square = max(self.square - self.mean * self.mean, 0.0)
            moved = self.mean_error
            self.square_error += (2 * abs(self.mean) + moved) * moved
            if not self._is_from_pass:
                # The intercept of the user is rounded, which moves all residuals.
                moved = self._rounding.residual
                self.square_error += (2 * abs(self.mean) + moved) * moved
            offset = moments.mean - coordinates.shift
            self.covariance -= offset * self.mean
            self.covariance_error += np.abs(offset) * self.mean_error
            self.covariance_error += abs(self.mean) * self._rounding.means
            self.spread = np.sqrt(moments.variance)
            self.target_variance = target.variance

    @property
    def is_optimal(self) -> bool:
        """Whether the optimality conditions hold up to rounding."""
        slope, mean = self._l2 * self.coef - self.covariance, abs(self.mean)
        wrong = violation(self.coef, slope, self._l1, self.is_positive)
        if not self._is_from_pass:
            wrong, mean = wrong + self.covariance_error, mean + self.mean_error
        expected = self._rounding.expected
        size = math.hypot(math.sqrt(self.square), self.mean)
        size = max(size, self._rounding.residual)
        rounding = expected * self.spread + 32 * _EPS * self._rounding.columns * size
        rounding += 4 * _EPS * (self._l1 + self._l2 * self.coef_sizes)
        is_small = wrong <= rounding
        return bool(mean <= expected) and np.count_nonzero(is_small) == is_small.size

    def largest_correlation(self) -> float:
        """Largest correlation with a column, zero if it is rounding."""
        if self.is_optimal:
            return 0.0
        at_bound = (self.coef == 0) & self.is_positive
        covariance = np.abs(self.covariance)
        covariance[at_bound] = np.maximum(self.covariance[at_bound], 0.0)
        mean = abs(self.mean)
        if not self._is_from_pass:
            covariance, mean = (
                covariance + self.covariance_error,
                mean + self.mean_error,
            )
        # A residual is not known better than this.
        size = max(math.sqrt(self.square), self._rounding.residual)
        informative = self.spread > 0
        correlation = covariance[informative] / (self.spread[informative] * size)
        return max(float(correlation.max(initial=0.0)), mean / size)
