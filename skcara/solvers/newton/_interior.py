r"""Newton steps through the interior, for L1 terms whose signs are hard to find.

The term :math:`l1\,|x|` is the smallest ``l1 * u`` with ``|x| <= u``. A logarithmic
barrier keeps ``u`` from the bounds:

.. math:: \psi_\mu(x) = \min_u \; l1\, u - \mu \log(u^2 - x^2) , \qquad
          u = \frac{\mu + \sqrt{\mu^2 + l1^2 x^2}}{l1} , \qquad
          \psi_\mu'(x) = \frac{l1\, x}{u} .

It is smooth, and its minimiser exceeds the minimum of the objective by at most
:math:`2 \mu` for each coordinate with an L1 term. While ``mu`` shrinks, Newton steps
follow the minimisers. They use the curvature of the conditions that
:math:`z = \psi_\mu'(x)` is a multiplier of its own, linearised,

.. math:: D = \frac{l1^2 - z^2}{l1\, u + z\, x} , \qquad
          (H + D)\, \delta = -(\nabla f + \psi_\mu'(x)) , \qquad
          z \leftarrow \psi_\mu'(x) + D\, \delta ,

which, unlike :math:`\psi_\mu''`, stays valid while ``mu`` shrinks by a large factor.

No coordinate has to be zero or to keep its sign on the way, so the number of steps
hardly depends on how many of them change it, or on how singular ``H`` is: two dozen
factorisations of all coordinates, where a search from face to face took hundreds. At
the end coordinates without a clear sign become zero, and face steps do the rest.
"""

from typing import NamedTuple

import numpy as np

from skcara.solvers._quadratic import SUFFICIENT_DECREASE, ScaledCholesky
from skcara.solvers.newton._reduced import ReducedPoint

_EPS = np.finfo(np.float64).eps
# Excess of the first smoothed minimum, relative to the objective at the start.
_FIRST_EXCESS = 0.1
# The last one, relative to the L1 term: coordinates have their signs then. Relative to
# the objective at the start nobody asks for more than the second.
_LAST_EXCESS, _LEAST_EXCESS = 1e-6, 1e-11
# Shrinkage of ``mu`` after a step that was exact, and after one that was not, and how
# large the squared Newton decrement then is, relative to the excess.
_EXACT_SHRINKS, _SHRINKS = 0.1, 0.3
_EXACT_DECREMENT, _DECREMENT = 0.5, 5.0
# A multiplier next to its bound would leave no curvature.
_MAX_MULTIPLIER = 1 - 1e-10
# A coordinate with ``l1 * |x|`` up to this many ``mu`` has a multiplier below nine
# tenths of its bound: there is no sign that it would keep.
_UNCLEAR = 10.0
_MAX_STEPS, _MAX_HALVINGS = 80, 30


class InteriorSolution(NamedTuple):
    """Where the steps ended, and how many gradients and Hessians they took."""

    point: ReducedPoint
    evaluations: int
    hessians: int


class _Barrier:
    """The L1 term of the penalised coordinates, smoothed."""

    def __init__(self, l1, mu: float):
        self._l1, self.mu = l1, mu

    def bounds(self, x):
        """``u``, by which ``|x|`` is bounded."""
        return (self.mu + np.hypot(self.mu, self._l1 * x)) / self._l1

    def excess_over_l1(self, x) -> float:
        """By how much the smoothed term exceeds the L1 term, up to a constant."""
        bounds = self.bounds(x)
        # u^2 - x^2 = 2 mu u / l1, without the cancellation.
        logs = np.log(bounds * (2 * self.mu / self._l1))
        return float(self._l1 @ (bounds - np.abs(x)) - self.mu * logs.sum())

    def slope(self, x):
        return self._l1 * x / self.bounds(x)

    def curvature(self, x, multiplier):
        l1 = self._l1
        return (l1**2 - multiplier**2) / (l1 * self.bounds(x) + multiplier * x)


def minimize_interior(problem, start: ReducedPoint) -> InteriorSolution:
    """Minimise a reduced objective up to its last few signs.

    Parameters
    ----------
    problem : ReducedProblem
        Without coordinates that must not be negative.
    start : ReducedPoint
        Its objective at the starting point.

    Returns
    -------
    InteriorSolution
        Never worse than the start.
    """
    l1, l2, _ = problem.penalty.flat(problem.shape[1])
    penalised = np.flatnonzero(l1)
    strengths, n_terms = l1[penalised], 2 * len(penalised)
    barrier = _Barrier(strengths, _FIRST_EXCESS * start.objective / n_terms)
    multiplier = np.zeros_like(strengths)
    point, evaluations, hessians = start, 0, 0
    for _ in range(_MAX_STEPS):
        x = point.params[penalised]
        matrix, slope = problem.hessian(point.params), point.gradient.copy()
        hessians += 1
        curvature = barrier.curvature(x, multiplier)
        matrix.flat[:: len(l1) + 1] += l2
        matrix[penalised, penalised] += curvature
        slope[penalised] += barrier.slope(x)
        step = -ScaledCholesky(matrix).solve(slope)
        decrement = -float(slope @ step)
        following, n_tried = _line_search(problem, barrier, point, step, decrement)
        evaluations += n_tried
        if following is None:
            break
        share = 0.5 ** (n_tried - 1)
        target = barrier.slope(x) + curvature * step[penalised]
        multiplier += share * (target - multiplier)
        largest = _MAX_MULTIPLIER * strengths
        multiplier = np.clip(multiplier, -largest, largest)
        point, excess = following, n_terms * barrier.mu
        is_exact = decrement <= _EXACT_DECREMENT * excess
        l1_term = strengths @ np.abs(point.params[penalised])
        goal = max(_LAST_EXCESS * l1_term, _LEAST_EXCESS * start.objective)
        if is_exact and excess <= goal:
            break
        if is_exact and share == 1:
            barrier.mu *= _EXACT_SHRINKS
        elif is_exact or (share == 1 and decrement <= _DECREMENT * excess):
            barrier.mu *= _SHRINKS
    params = point.params.copy()
    params[np.abs(l1 * params) < _UNCLEAR * barrier.mu * (l1 > 0)] = 0.0
    ends = (problem.evaluate(params), point, start)
    best = min(ends, key=lambda end: end.objective)
    return InteriorSolution(best, evaluations + 1, hessians)


def _line_search(problem, barrier, point, step, decrement):
    """First of the points at the end of the step, halfway, ... that decreases enough."""
    penalised = np.flatnonzero(problem.penalty.flat(problem.shape[1])[0])

    def smoothed(point):
        return point.objective + barrier.excess_over_l1(point.params[penalised])

    start = smoothed(point)
    noise = 64 * _EPS * abs(start)
    for halving in range(_MAX_HALVINGS):
        share = 0.5**halving
        following = problem.evaluate(point.params + share * step)
        required = SUFFICIENT_DECREASE * share * decrement
        if smoothed(following) <= start - required + noise:
            return following, halving + 1
    return None, _MAX_HALVINGS
