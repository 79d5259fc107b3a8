r"""Minimise a small dense quadratic plus the separable penalty.

The model of a Newton step is

.. math::

    q(p) = \tfrac12 (p - a)^\top H (p - a) + g^\top (p - a) + \sum_c l1_c |p_c| ,

with some coordinates required to be non-negative. Without L1 term and constraints the
minimiser is one triangular solve. Otherwise two steps alternate until the optimality
conditions hold to rounding:

* a *sweep* of coordinate descent over the coordinates that violate them, which always
  decreases ``q`` and finds out which are zero and which signs the others have;
* a *face step*: with these zeros and signs ``q`` is a smooth quadratic, whose exact
  minimiser costs one Cholesky factorisation. Coordinates that would change sign on the
  way become zero.

Once the sweeps have found the right zeros and signs the face step is exact, so the
result has full accuracy however ill-conditioned ``H`` is for coordinate descent.

Where ``H`` is nearly singular a small L1 term sends the minimiser on a face far away,
and the signs that change first would stop the useful directions as well. Constants that
may be added to all classes of a multinomial model are minimised over on their own
(:mod:`skcara.solvers._output_shifts`). For other directions there is, to rounding, no
way but sign by sign. With limited effort face steps are *damped* instead, as by
Levenberg and Marquardt: a ridge grows until they pass, and shrinks again.
"""

import math
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack

from skcara.objective import violation
from skcara.solvers._output_shifts import OutputShifts

_EPS = np.finfo(np.float64).eps
#: Share of the predicted decrease that a step must achieve.
SUFFICIENT_DECREASE = 1e-4
# Relative ridge with which a singular matrix is factorised; it grows until it works.
_FIRST_RIDGE = 1e-13
# Shrinkage of a ridge that has let a face step pass, and the largest one: with it
# coordinate descent would do as well.
_RIDGE_SHRINKS, _MAX_RIDGE = 1e2, 1e-2
# Relative error of a slope with which a model counts as minimised.
_MAX_ERROR = 10 * _FIRST_RIDGE
_MAX_SWEEPS = 200
# Steps along which the observed curvature is smaller than this share of the expected
# one say more about rounding than about curvature.
_MIN_SECANT = 1e-6


class QuadraticModel:
    """A positive semi-definite matrix, factorised once and used for many models.

    Parameters
    ----------
    matrix : ndarray of shape (n_coords, n_coords)
        Symmetric positive semi-definite up to rounding.
    l1 : ndarray of shape (n_coords,)
        Strengths of the L1 term.
    positive : ndarray of bool of shape (n_coords,)
        Coordinates that must not be negative.
    n_outputs : int
        So many coordinates, one after the other, belong to the same column.
    flat_columns : sequence of int
        Columns that may get any number added to all their outputs: neither loss nor
        penalty changes. Steps do not, so that rounding does not add up along it.

    Attributes
    ----------
    effort : float
        Factorisations so far, as shares of one of all coordinates.
    """

    def __init__(self, matrix, l1, positive, n_outputs: int = 1, flat_columns=()):
        self.matrix, self._n_outputs = matrix, n_outputs
        self._flat_columns = flat_columns
        self.l1 = l1
        self.positive = positive
        curvature = matrix.diagonal()
        is_penalised = l1 > 0
        # What is left of a column of zeros is rounding; such coordinates do not move.
        # In standardised coordinates only an L2 term makes a curvature large.
        self._moves = curvature > (len(l1) * _EPS) ** 2 * min(curvature.max(), 1.0)
        self._is_held = is_penalised & ~self._moves
        self._is_bounded = is_penalised | positive
        self._is_unbounded = self._moves & ~self._is_bounded
        self.is_smooth = not np.count_nonzero(self._is_bounded)
        self.effort = 0.0
        self._face_key: tuple[bytes, float] | None = None
        self._face_factor: ScaledCholesky | None = None

    def minimize(self, anchor, gradient, *, max_sweeps=None):
        """Return the minimiser of the model with this gradient at ``anchor``.

        Parameters
        ----------
        anchor, gradient : ndarray of shape (n_coords,)
            Expansion point, and gradient of the smooth part there.
        max_sweeps : int, optional
            Bound on the effort for a nonsmooth model: so many sweeps with one damped
            face step each. The result is never worse than the anchor. Default: to
            rounding.
        """
        if self.is_smooth:
            params, free = anchor.copy(), np.flatnonzero(self._moves)
            params[free] -= self._solve_face(free, gradient[free])
        else:
            params = self._minimize_nonsmooth(anchor, gradient, max_sweeps)
        return anchor + self._without_drift(params - anchor)

    def decrease(self, anchor, gradient, candidate):
        """First-order change of smooth part plus L1 term, negative if useful."""
        change = gradient @ (candidate - anchor)
        return float(change + self.l1 @ (np.abs(candidate) - np.abs(anchor)))

    def secant(self, step, gradient_change) -> "QuadraticModel":
        r"""Return the model that maps ``step`` to the change of the gradient it caused.

        The BFGS update of the matrix, :math:`H - Hss^\top H / s^\top Hs
        + yy^\top / s^\top y`, keeps it positive definite and changes it least.
        """
        gradient_change = self._without_drift(gradient_change)
        image = self.matrix @ step
        curvature, observed = step @ image, step @ gradient_change
        # Along a direction without curvature both of them are rounding.
        size = np.abs(step) @ np.sqrt(np.maximum(np.diagonal(self.matrix), 0.0))
        is_flat = not curvature > len(step) * _EPS * size**2
        if is_flat or not observed > _MIN_SECANT * curvature:
            return self
        matrix = self.matrix.copy()
        # Rank-one updates in place; the transpose has the order that BLAS wants.
        for scale, vector in ((observed, gradient_change), (-curvature, image)):
            blas.dger(1 / scale, vector, vector, a=matrix.T, overwrite_a=True)
        shared = self.l1, self.positive, self._n_outputs, self._flat_columns
        return QuadraticModel(matrix, *shared)

    def response(self, slope, is_free) -> np.ndarray:
        r"""Where the minimiser of the model moves if its slope changes.

        That is :math:`H^{-1} v` for the slope :math:`v`, for steps along some
        coordinates. The root of its product with :math:`v` is the largest change of
        the linear function :math:`v` within a unit ball of the model.

        Parameters
        ----------
        slope : ndarray of shape (n_coords,)
        is_free : ndarray of bool of shape (n_coords,)
            Coordinates that move, if they have a curvature.
        """
        free = np.flatnonzero((is_free | self._is_unbounded) & self._moves)
        response = np.zeros_like(slope)
        response[free] = self._solve_face(free, slope[free])
        return response

    def _without_drift(self, move):
        """The same move, but for what all outputs of a flat column have in common."""
        if not len(self._flat_columns):
            return move
        rows = move.copy().reshape(-1, self._n_outputs)
        rows[self._flat_columns] -= rows[self._flat_columns].mean(axis=1)[:, None]
        return rows.ravel()

    # ---- nonsmooth -------------------------------------------------------------

    def _minimize_nonsmooth(self, anchor, gradient, max_sweeps):
        params, slope = anchor.copy(), gradient
        is_outside = self._is_held | (self.positive & (anchor < 0))
        if np.count_nonzero(is_outside):
            params[is_outside] = 0.0
            slope = gradient + self.matrix @ (params - anchor)
        start, first_slope = params, slope
        params, slope = self._shift_outputs(params, slope)
        descend = self._descend_faces if max_sweeps is None else self._damped_face_step
        ridge = _FIRST_RIDGE
        # Newton models start near their solution: try its face before any sweep, which
        # looks for errors that are large next to the parameters only.
        if np.count_nonzero(params):
            params, slope, ridge = descend(params, slope, ridge)
        for _ in range(_MAX_SWEEPS if max_sweeps is None else max_sweeps):
            wrong = violation(params, slope, self.l1, self.positive)
            is_wrong = self._moves & (wrong > self._noise(params, gradient))
            violating = is_wrong.nonzero()[0]
            if not violating.size or self._is_uphill(start, first_slope, params):
                break
            params, slope = self._sweep(params, slope, violating)
            params, slope = self._shift_outputs(params, slope)
            params, slope, ridge = descend(params, slope, ridge)
        return start if self._is_uphill(start, first_slope, params) else params

    def _is_uphill(self, start, slope, params):
        """Whether the way to a point goes uphill from the beginning.

        A convex function is larger there, and all steps decrease it. Where the only
        curvature of a direction is rounding, it may be negative.
        """
        terms = (np.abs(slope) + self.l1) @ np.abs(params - start)
        # Written so that a NaN is worse.
        return not self.decrease(start, slope, params) <= 64 * _EPS * terms

    def _descend_faces(self, params, slope, ridge):
        """Face steps until no coordinate becomes zero any more."""
        n_before, n_nonzero = len(params) + 1, int(np.count_nonzero(params))
        while n_nonzero < n_before:
            params, slope, _ = self._face_step(params, slope, ridge)
            n_before, n_nonzero = n_nonzero, int(np.count_nonzero(params))
        return params, slope, ridge

    def _damped_face_step(self, params, slope, ridge):
        """Face step whose ridge grows until signs let it pass, and shrinks again."""
        params, slope, share = self._face_step(params, slope, ridge)
        # A step along a direction without curvature is inverse to the ridge.
        factor = 1 / max(share, _FIRST_RIDGE) if share < 1 else 1 / _RIDGE_SHRINKS
        return params, slope, min(max(factor * ridge, _FIRST_RIDGE), _MAX_RIDGE)

    def _noise(self, params, gradient):
        """Error of the slope that no step can avoid.

        The slope is a sum of products that may be larger than the result: to go on
        below their rounding would follow directions whose only curvature is rounding.
        Nor is a face step more accurate than its ridge.
        """
        curvature, sizes = np.maximum(self.matrix.diagonal(), 0.0), np.abs(params)
        roots, constant = np.sqrt(curvature), np.abs(gradient) + self.l1
        rounding = 64 * _EPS * (constant + roots * (roots @ sizes))
        noise = np.maximum(rounding, _MAX_ERROR * (constant + curvature * sizes))
        return np.maximum(noise, noise.max() * _EPS)

    def _sweep(self, params, slope, coords):
        """Minimise over one coordinate after the other; returns params and slope."""
        params, slope = params.copy(), slope.copy()
        for c, curvature, l1, positive in zip(
            coords.tolist(),
            self.matrix[coords, coords].tolist(),
            self.l1[coords].tolist(),
            self.positive[coords].tolist(),
            strict=True,
        ):
            old = params.item(c)
            pull = old * curvature - slope.item(c)
            if pull > l1:
                new = (pull - l1) / curvature
            elif pull < -l1 and not positive:
                new = (pull + l1) / curvature
            else:
                new = 0.0
            if new != old:
                params[c] = new
                slope += (new - old) * self.matrix[c]
        return params, slope

    @cached_property
    def _shifts(self):
        is_shifted = self._moves & (self.l1 > 0) & ~self.positive
        return OutputShifts(self.matrix, self.l1, is_shifted, self._n_outputs)

    def _shift_outputs(self, params, slope):
        """Minimise over numbers that are added to all outputs of a column."""
        if self._n_outputs == 1:
            return params, slope
        moved = self._shifts.minimize(params, slope)
        if not self.decrease(params, slope, moved) < 0:
            return params, slope
        return moved, slope + self.matrix @ (moved - params)

    def _face_step(self, params, slope, ridge):
        """Minimise over the face given by zeros and signs, if that decreases ``q``.

        Returns parameters, slope and the share of the way that was possible.
        """
        signs = np.sign(params)
        free = ((self._moves & (signs != 0)) | self._is_unbounded).nonzero()[0]
        if not free.size:
            return params, slope, 1.0
        # No sign changes on the way, so that the L1 term is linear.
        target, tilted = params.copy(), slope + self.l1 * signs
        target[free] -= self._solve_face(free, tilted[free], ridge)
        flipped = (self._is_bounded & (target * signs < 0)).nonzero()[0]
        for share, candidate in self._on_the_way(params, target, flipped):
            move = candidate - params
            change_of_slope = self.matrix @ move
            if move @ (tilted + 0.5 * change_of_slope) < 0:
                return candidate, slope + change_of_slope, share
        return params, slope, 0.0

    @staticmethod
    def _on_the_way(params, target, flipped):
        """Yield shares of the way to ``target``, and points without changed signs."""
        point = target.copy()
        point[flipped] = 0.0
        yield 1.0, point
        if not flipped.size:
            return
        start, end = params[flipped], target[flipped]
        first_flip = float((start / (start - end)).min())
        # Only the way to the first flip is sure to decrease, but sign by sign is a
        # long way: shares in between are worth a trial.
        for share in (first_flip**0.25, first_flip**0.5, first_flip):
            point = params + share * (target - params)
            reached = point[flipped]
            is_gone = reached * np.sign(start) <= _EPS * np.abs(start)
            point[flipped] = np.where(is_gone, 0.0, reached)
            yield share, point

    def _solve_face(self, free, right_side, ridge=_FIRST_RIDGE):
        if not free.size:
            return right_side
        key = free.tobytes(), ridge
        if self._face_factor is None or key != self._face_key:
            is_all = len(free) == len(self.matrix)
            block = self.matrix if is_all else self.matrix[free[:, None], free]
            self._face_factor = ScaledCholesky(block, ridge)
            self._face_key = key
            self.effort += (len(free) / len(self.matrix)) ** 3
        return self._face_factor.solve(right_side)


def penalised_model(matrix, penalty, n_outputs: int = 1) -> QuadraticModel:
    """Quadratic model of a loss and a penalty.

    Parameters
    ----------
    matrix : ndarray of shape (n_coords, n_coords)
        Hessian of the loss; the L2 term is added in place.
    penalty : SeparablePenalty
    n_outputs : int
        If there are several, they are classes, whose loss does not change with a number
        that is added to all of them.
    """
    l1, l2, positive = penalty.flat(n_outputs)
    matrix.flat[:: len(matrix) + 1] += l2
    is_free = ~(l1 + l2 + positive).reshape(-1, n_outputs).any(axis=1)
    flat_columns = np.flatnonzero(is_free) if n_outputs > 1 else ()
    return QuadraticModel(matrix, l1, positive, n_outputs, flat_columns)


class ScaledCholesky:
    """Cholesky factor of a matrix scaled to unit diagonal, ridged where singular."""

    def __init__(self, matrix, ridge=_FIRST_RIDGE):
        diagonal = matrix.diagonal()
        self._scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = matrix * self._scale
        scaled *= self._scale[:, None]
        self._factor = ridged_cholesky(scaled, ridge)

    def solve(self, right_side):
        """Solution of the linear system."""
        scaled = right_side * self._scale
        solution, _ = lapack.dpotrs(self._factor, scaled, lower=1)
        return solution * self._scale

    def half_solve(self, right_side):
        """A factor of the inverse times the columns of a matrix.

        Independent columns of unit variance become columns whose covariance is the
        inverse.
        """
        solution, _ = lapack.dtrtrs(self._factor, right_side, lower=1, trans=1)
        return solution * self._scale[:, None]


def ridged_cholesky(scaled, ridge=_FIRST_RIDGE):
    """Lower Cholesky factor of a matrix of unit diagonal, ridged where singular."""
    # The sum is a quick test; that of huge numbers may overflow.
    if not math.isfinite(scaled.sum()) and not np.isfinite(scaled).all():
        raise np.linalg.LinAlgError("The matrix of a linear system is not finite.")
    while True:
        scaled.flat[:: len(scaled) + 1] = 1.0 + ridge
        factor, info = lapack.dpotrf(scaled, lower=1)
        if info == 0:
            return factor
        # Where a diagonal is nothing but rounding, other entries may be larger, which
        # in a semi-definite matrix they are not. With entries of at most one, a ridge
        # larger than the order makes any matrix definite.
        np.clip(scaled, -1.0, 1.0, out=scaled)
        ridge *= 100


def steps_left(predicted, previous, goal):
    """Number of steps until the predicted decrease falls to ``goal``.

    Extrapolated from the predicted decreases of the current and the previous step; a
    previous one of ``inf`` means that nothing is known yet, and 0 that it failed. A
    contraction never reaches a goal of zero, that of a loss without anything left.
    """
    if previous == np.inf or predicted <= goal:
        return 0.0
    rate = predicted / previous if previous > 0 else 1.0
    if rate >= 1 or goal <= 0:
        return np.inf
    return np.log(predicted / goal) / -np.log(rate)
