r"""Steps of a block: from a point and a gradient to the next point.

A step minimises, over the coordinates :math:`u` of the block,

.. math::

    g^\top (u - b) + \tfrac12 (u - b)^\top \Gamma^{-1} (u - b)
    + \sum_c l1_c |u_c| \qquad (u_c \ge 0 \text{ where asked for})

around a base point :math:`b`. The directions of the article differ in
:math:`\Gamma`: a number times the identity (``"gradient"``, ``"Lb"``) or the inverse
of the block's Hessian bound (``"Hb"``). ``"auto"`` takes a diagonal: the inverse
curvatures of the coordinates, shrunk so that the step never overshoots, which makes it
as good as ``"Lb"`` on columns of equal scale and much better on others.
"""

import numpy as np

# Directions whose curvature, relative to that of the coordinates, is below this are
# treated as flat: they are combinations of (nearly) duplicated columns.
_FLAT_DIRECTION = 1e-10
# A sweep of coordinate descent that changes the point by less than this, relative to
# its size, ends the proximal Newton problem.
_NEWTON_TOL = 1e-14
_NEWTON_MAX_SWEEPS = 200


class DiagonalStep:
    """Proximal gradient step with one rate for each coordinate.

    Parameters
    ----------
    rates : ndarray of shape (block_size,)
        Diagonal of Gamma.
    l1 : ndarray of shape (block_size,)
        L1 strengths.
    positive : ndarray of bool of shape (block_size,)
        Coordinates that must not be negative.
    """

    def __init__(self, rates, l1, positive):
        self.rates = rates
        self._l1, self._positive = l1, positive
        self._upper = rates * l1
        # soft(u) = u - clip(u, -t, t); without the lower end the same formula is
        # the projection max(u - t, 0).
        self._lower = np.where(positive, -np.inf, -self._upper)
        self._is_smooth = not (l1.any() or positive.any())
        self._clipped = np.empty_like(self._upper)

    def __call__(self, base, gradient, out):
        """Write the next point into `out`."""
        np.multiply(self.rates, gradient, out=out)
        np.subtract(base, out, out=out)
        if self._is_smooth:
            return
        np.minimum(out, self._upper, out=self._clipped)
        np.maximum(self._clipped, self._lower, out=self._clipped)
        np.subtract(out, self._clipped, out=out)

    def scaled(self, factor):
        """Return the step with Gamma multiplied by `factor`."""
        return DiagonalStep(factor * self.rates, self._l1, self._positive)

    def overshoot(self, hessian):
        """Largest eigenvalue of Gamma times `hessian`; stable up to 2."""
        root = np.sqrt(self.rates)
        return float(np.linalg.eigvalsh(root[:, None] * hessian * root)[-1])


class NewtonStep:
    """Proximal Newton step: Gamma is the inverse of a Hessian.

    Parameters
    ----------
    hessian : ndarray of shape (block_size, block_size)
        Positive semi-definite bound of the block's Hessian.
    l1, positive : ndarray of shape (block_size,)
        As in :class:`DiagonalStep`.
    """

    def __init__(self, hessian, l1, positive):
        self.hessian = hessian
        self._l1, self._positive = l1, positive
        self._is_smooth = not (l1.any() or positive.any())
        self._inverse = scaled_pseudo_inverse(hessian)

    def __call__(self, base, gradient, out):
        """Write the next point into `out`."""
        np.dot(self._inverse, gradient, out=out)
        np.subtract(base, out, out=out)
        if not self._is_smooth:
            self._solve_composite(base, gradient, out)

    def scaled(self, factor):
        """Return the step with Gamma multiplied by `factor`."""
        return NewtonStep(self.hessian / factor, self._l1, self._positive)

    def overshoot(self, hessian):
        """Largest eigenvalue of Gamma times `hessian`; stable up to 2."""
        return float(np.linalg.eigvals(self._inverse @ hessian).real.max())

    def _solve_composite(self, base, gradient, point):
        """Coordinate descent on the composite model, from the Newton point."""
        lower = np.where(self._positive, 0.0, -np.inf)
        np.maximum(point, lower, out=point)
        slope = gradient + self.hessian @ (point - base)
        for _ in range(_NEWTON_MAX_SWEEPS):
            largest_change = 0.0
            for coord, curvature in enumerate(self.hessian.diagonal()):
                old = point[coord]
                new = self._minimise_coordinate(old, slope[coord], coord, curvature)
                if new != old:
                    slope += self.hessian[:, coord] * (new - old)
                    point[coord] = new
                    largest_change = max(largest_change, abs(new - old))
            if largest_change <= _NEWTON_TOL * np.abs(point).max():
                break

    def _minimise_coordinate(self, value, slope, coord, curvature):
        l1 = self._l1[coord]
        if curvature <= 0:
            # A column without data: only the penalty acts on it.
            return 0.0 if l1 > 0 else value
        free = value - slope / curvature
        shrunk = max(abs(free) - l1 / curvature, 0.0)
        if self._positive[coord] and free < 0:
            return 0.0
        return shrunk if free >= 0 else -shrunk


def coordinate_metric(hessian, fallback=1.0):
    """Diagonal of a Hessian with `fallback` where there is no curvature."""
    diagonal = hessian.diagonal()
    return np.where(diagonal > 0, diagonal, fallback)


def scaled_pseudo_inverse(hessian):
    """Pseudo-inverse whose rank decision does not depend on the scale of columns."""
    root = np.sqrt(coordinate_metric(hessian))
    inverse = np.linalg.pinv(
        hessian / np.outer(root, root), rcond=_FLAT_DIRECTION, hermitian=True
    )
    return inverse / np.outer(root, root)


def relative_lipschitz(hessian, metric):
    """Smallest c such that ``hessian <= c * diag(metric)``."""
    root = np.sqrt(metric)
    return float(np.linalg.eigvalsh(hessian / np.outer(root, root))[-1])
