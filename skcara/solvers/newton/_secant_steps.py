r"""Steps in a metric that the changes of the gradient improve (L-BFGS).

A metric ``P``, an approximate Hessian, is corrected by the last few pairs (step, change
of the gradient): the inverse of the result is applied to a gradient by two loops over
the pairs around one solve with ``P``, so nothing of the size of a matrix is ever
updated. The first length is one; trials that do not decrease the objective sufficiently
are followed by shorter ones.
"""

from collections import deque
from typing import Protocol

import numpy as np
from scipy.linalg.blas import daxpy, ddot

from skcara.solvers._progress import OBJECTIVE_NOISE
from skcara.solvers._quadratic import SUFFICIENT_DECREASE
from skcara.solvers.newton._reduced import ReducedPoint

# Pairs that are kept. More of them help little: what the metric does not know is spread
# over many directions.
_MEMORY = 10
# A trial is shortened by a factor between these two, and so often before the pairs are
# dropped, or the direction given up.
_SHORTEST, _LONGEST = 0.1, 0.5
_MAX_TRIALS = 6
# Pairs with less curvature than this share of their size say something about rounding.
_MIN_CURVATURE = 1e-12


class Metric(Protocol):
    """An approximate Hessian."""

    def solve(self, gradient: np.ndarray, /) -> np.ndarray:
        """Solve with the matrix; flat coordinates of shape (n_coords,)."""


class SecantDescent:
    """A point, and the next trial of a descent from it.

    Whoever owns the objective evaluates ``trial`` and hands the result to
    :meth:`receive`.

    Parameters
    ----------
    metric : Metric
    point : ReducedPoint
        The objective at the starting point.

    Attributes
    ----------
    point : ReducedPoint
        The best point so far.
    predicted : float
        Decrease that the corrected metric still predicts there.
    has_failed : bool
        Whether no length of the step decreased the objective.
    """

    def __init__(self, metric: Metric, point: ReducedPoint):
        self.metric = metric
        self.point = point
        self.has_failed = False
        self._pairs: deque = deque(maxlen=_MEMORY)
        self._log_stretches: deque = deque(maxlen=_MEMORY)
        self._turn()

    @property
    def trial(self) -> np.ndarray:
        """Parameters to evaluate next, of shape (n_coords,)."""
        return self.point.params + self._length * self._direction

    def receive(self, point: ReducedPoint) -> bool:
        """Take the evaluated trial; whether it was a sufficient decrease."""
        slope, noise = 2 * self.predicted, OBJECTIVE_NOISE * abs(self.point.objective)
        required = SUFFICIENT_DECREASE * self._length * slope
        if point.objective <= self.point.objective - required + noise:
            self._remember(point)
            self.point = point
            self._turn()
            return True
        self._n_trials += 1
        self._shorten(point.objective - self.point.objective)
        if self._n_trials == _MAX_TRIALS:
            if self._pairs:
                self._pairs.clear()
                self._log_stretches.clear()
                self._turn()
            else:
                self.has_failed = True
        return False

    def _shorten(self, increase):
        """Go to the minimiser of the parabola through what is known."""
        slope = 2 * self.predicted * self._length
        share = 0.5 * slope / (increase + slope)
        # Written so that a NaN shortens most.
        self._length *= min(share, _LONGEST) if share > _SHORTEST else _SHORTEST

    def _remember(self, point):
        step = point.params - self.point.params
        change = point.gradient - self.point.gradient
        curvature = step @ change
        if not curvature > _MIN_CURVATURE * np.sqrt((step @ step) * (change @ change)):
            return
        self._pairs.append((step, change, 1.0 / curvature))
        stretch = curvature / (change @ self.metric.solve(change))
        self._log_stretches.append(np.log(stretch))

    @property
    def _stretch(self):
        """Factor of the inverse metric on which the pairs agree.

        The last pair alone speaks for the few directions that were left by then, for
        which the pairs themselves answer.
        """
        return np.exp(np.mean(self._log_stretches)) if self._log_stretches else 1.0

    def _turn(self):
        """Choose a direction at the current point."""
        gradient = self.point.gradient
        direction, shares = -gradient, []
        # In place and by BLAS: for some hundred coordinates NumPy's calls take four
        # times as long as the arithmetic.
        for step, change, inverse in reversed(self._pairs):
            share = inverse * ddot(step, direction)
            direction = daxpy(change, direction, a=-share)
            shares.append(share)
        direction = self._stretch * self.metric.solve(direction)
        for (step, change, inverse), share in zip(
            self._pairs, reversed(shares), strict=True
        ):
            share -= inverse * ddot(change, direction)
            direction = daxpy(step, direction, a=share)
        self._direction, self._length, self._n_trials = direction, 1.0, 0
        self.predicted = max(-0.5 * float(gradient @ direction), 0.0)
