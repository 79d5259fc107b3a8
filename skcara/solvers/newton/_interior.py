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
    """The L1 terms of some coordinates, smoothed.

    Parameters
    ----------
    l1 : ndarray of shape (n_coords,)
        Strengths, zero for coordinates without such a term.
    excess : float
        Bound on what the smoothed minimiser exceeds the minimum by.
    """

    def __init__(self, l1, excess: float):
        self.coords = np.flatnonzero(l1)
        self._l1 = l1[self.coords]
        self.mu = excess / (2 * len(self.coords))
        self._multiplier = np.zeros_like(self._l1)

    @property
    def excess(self) -> float:
        return 2 * len(self.coords) * self.mu

    def bounds(self, x):
        """``u``, by which ``|x|`` is bounded."""
        return (self.mu + np.hypot(self.mu, self._l1 * x)) / self._l1

    def value(self, x) -> float:
        bounds = self.bounds(x)
        # u^2 - x^2 = 2 mu u / l1, without the cancellation.
        logs = np.log(bounds * (2 * self.mu / self._l1))
        return float(self._l1 @ bounds - self.mu * logs.sum())

    def slope(self, x):
        return self._l1 * x / self.bounds(x)

    def curvature(self, x):
        l1, multiplier = self._l1, self._multiplier
        return (l1**2 - multiplier**2) / (l1 * self.bounds(x) + multiplier * x)

    def l1_term(self, params) -> float:
        return float(self._l1 @ np.abs(params[self.coords]))

    def smoothed(self, point: ReducedPoint) -> float:
        """The objective with the smoothed terms instead of the others."""
        smooth = point.objective - self.l1_term(point.params)
        return smooth + self.value(point.params[self.coords])

    def follow(self, x, move, share: float) -> None:
        """Let the multipliers take a share of the step that coordinates take."""
        target = self.slope(x) + self.curvature(x) * move
        moved = self._multiplier + share * (target - self._multiplier)
        largest = _MAX_MULTIPLIER * self._l1
        self._multiplier = np.clip(moved, -largest, largest)

    def unclear(self, params):
        """Coordinates that have no clear sign."""
        return self.coords[self._l1 * np.abs(params[self.coords]) < _UNCLEAR * self.mu]


def minimize_interior(
    problem, start: ReducedPoint, *, excess: float = 0.0
) -> InteriorSolution:
    """Minimise a reduced objective up to its last few signs.

    Parameters
    ----------
    problem : ReducedProblem
        Without coordinates that must not be negative.
    start : ReducedPoint
        Its objective at the starting point.
    excess : float
        What the result may exceed the minimum by, at least.

    Returns
    -------
    InteriorSolution
        Never worse than the start.
    """
    l1, l2, _ = problem.penalty.flat(problem.shape[1])
    barrier = _Barrier(l1, _FIRST_EXCESS * start.objective)
    point, evaluations, hessians = start, 0, 0
    for _ in range(_MAX_STEPS):
        step, decrement = _newton_step(problem, barrier, point, l2)
        hessians += 1
        following, n_tried = _line_search(problem, barrier, point, step, decrement)
        evaluations += n_tried
        if following is None:
            break
        share, coords = 0.5 ** (n_tried - 1), barrier.coords
        barrier.follow(point.params[coords], step[coords], share)
        point = following
        least = max(_LEAST_EXCESS * start.objective, excess)
        goal = max(_LAST_EXCESS * barrier.l1_term(point.params), least)
        is_exact = decrement <= _EXACT_DECREMENT * barrier.excess
        if barrier.excess <= goal:
            if is_exact:
                break
        elif is_exact and share == 1:
            barrier.mu *= _EXACT_SHRINKS
        elif is_exact or (share == 1 and decrement <= _DECREMENT * barrier.excess):
            barrier.mu *= _SHRINKS
    params = point.params.copy()
    params[barrier.unclear(params)] = 0.0
    ends = (problem.evaluate(params), point, start)
    best = min(ends, key=lambda end: end.objective)
    return InteriorSolution(best, evaluations + 1, hessians)


def _newton_step(problem, barrier, point, l2):
    """Step to the minimiser of the smoothed objective, and its squared decrement."""
    coords, x = barrier.coords, point.params[barrier.coords]
    matrix, slope = problem.hessian(point.params), point.gradient.copy()
    matrix.flat[:: len(matrix) + 1] += l2
    matrix[coords, coords] += barrier.curvature(x)
    slope[coords] += barrier.slope(x)
    step = -ScaledCholesky(matrix).solve(slope)
    return step, -float(slope @ step)


def _line_search(problem, barrier, point, step, decrement):
    """First of the points at the end, halfway, ... that decreases enough."""
    start = barrier.smoothed(point)
    # Differences below this are rounding: a whole step may end the search, no other.
    noise = 64 * _EPS * abs(start)
    for halving in range(_MAX_HALVINGS):
        share = 0.5**halving
        following = problem.evaluate(point.params + share * step)
        required = SUFFICIENT_DECREASE * share * decrement
        if barrier.smoothed(following) <= start - required + noise:
            return following, halving + 1
        noise = 0.0
    return None, _MAX_HALVINGS
