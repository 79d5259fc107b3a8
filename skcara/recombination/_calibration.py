r"""Calibration: the masses closest to given ones that match given moments.

Atoms :math:`i`, each with moments :math:`c_i` per unit of mass, have masses
:math:`b_i` (``base``) whose moments :math:`\sum_i b_i c_i` are not quite the wanted
ones, :math:`t` (``totals``). Among all masses :math:`v` that match,

.. math:: \min_v \sum_i (v_i - b_i)^2 / b_i \quad\text{subject to}\quad
          \sum_i v_i c_i = t

changes them least (minimum chi-square). Lagrange's condition gives

.. math:: v_i = b_i (1 + c_i^\top \lambda), \qquad
          \Big(\sum_i b_i c_i c_i^\top\Big) \lambda = t - \sum_i b_i c_i ,

one small linear system: far less than eliminating atoms one by one. If the atoms are a
fair sample, the right side is small, and with ``n`` atoms for ``q`` moments the factors
:math:`1 + c_i^\top\lambda` spread by about :math:`\sqrt{q / n}`: the masses stay
balanced, and whatever else is averaged over the atoms keeps nearly its value. Survey
statistics calls this calibration.

Atoms may be single points or tiles of many rows: all that is asked of them is
`Columns`, so the moments of all atoms need not be in memory at once.

References
----------
Deville, J.-C. and Särndal, C.-E. (1992). Calibration estimators in survey sampling.
Journal of the American Statistical Association 87(418).
doi:10.1080/01621459.1992.10475217
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import eigh, lapack

from skcara.recombination._coordinates import EPS

# The second solve removes the rounding of the first one, and the effect of the ridge.
REFINEMENTS = 2
# Error that counts as rounding, relative to the sum of what is added up.
TOLERANCE = 1e-11
# Added to the diagonal of a matrix of unit diagonal: above the rounding of a sum of
# many products, far below the eigenvalues of moments that are not dependent.
RIDGE = 1e-13

Solve = Callable[[np.ndarray], np.ndarray]


class Columns(Protocol):
    """Moments of atoms per unit of mass, seen through products only."""

    def second_moments(self, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Return :math:`\sum_i v_i c_i c_i^\top` and :math:`\sum_i v_i |c_i|`."""

    def moments(self, masses: np.ndarray) -> np.ndarray:
        r"""Return :math:`\sum_i v_i c_i`."""

    def products(self, multiplier: np.ndarray) -> np.ndarray:
        r"""Return :math:`c_i^\top \lambda` for every atom."""


class DenseColumns:
    """Moments of atoms as the columns of an array of shape (n_moments, n_atoms)."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def second_moments(self, masses):
        """Return the matrix of second moments and the sums of absolute values."""
        return (self._array * masses) @ self._array.T, np.abs(self._array) @ masses

    def moments(self, masses):
        """Return the moments of all atoms together."""
        return self._array @ masses

    def products(self, multiplier):
        """Return the scalar product of each atom's moments with a vector."""
        return multiplier @ self._array


def calibrate(
    columns: Columns,
    base: np.ndarray,
    totals: np.ndarray,
    *,
    least_factor: float = 0.0,
    max_solves: int = 1,
) -> np.ndarray | None:
    """Return masses that match the moments, or None where there are none nearby.

    Parameters
    ----------
    columns : Columns
        Moments of the atoms.
    base : ndarray of shape (n_atoms,)
        Positive masses to start from.
    totals : ndarray of shape (n_moments,)
        Moments to match.
    least_factor : float, default=0.0
        A mass must be more than this share of its base.
    max_solves : int, default=1
        Atoms whose mass comes out too small are dropped and the system is solved
        again, up to this many solves.

    Returns
    -------
    masses : ndarray of shape (n_atoms,) or None
        Zero for dropped atoms.
    """
    base = base.copy()
    for _ in range(max_solves):
        gram, size = columns.second_moments(base)
        if not np.isfinite(gram).all():
            return None
        allowed = TOLERANCE * (size + np.abs(totals))
        for factorise in (ridged_inverse, pseudo_inverse):
            masses, error = matched(columns, base, totals, factorise(gram))
            is_exact = (error <= allowed).all()
            if is_exact:
                break
        # Written so that a NaN is too small.
        is_kept = masses > least_factor * base
        if (is_kept | (base == 0.0)).all():
            # Errors left now are of directions that the atoms do not have.
            return masses if is_exact else None
        base[~is_kept] = 0.0
        if np.count_nonzero(base) < len(totals):
            return None
    return None


def matched(columns: Columns, base, totals, solve) -> tuple[np.ndarray, np.ndarray]:
    """Return the masses of either sign that match, and the errors left."""
    masses = base.copy()
    missing = totals - columns.moments(masses)
    for _ in range(REFINEMENTS):
        masses += base * columns.products(solve(missing))
        missing = totals - columns.moments(masses)
    return masses, np.abs(missing)


def unit_scale(gram: np.ndarray) -> np.ndarray:
    """Return the factors that scale a matrix to unit diagonal, one where it is zero."""
    diagonal = gram.diagonal()
    return 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))


def ridged_inverse(gram: np.ndarray) -> Solve:
    """Return a function that solves the system fast, dependent moments with a ridge."""
    scale = unit_scale(gram)
    scaled = gram * scale * scale[:, None]
    scaled.flat[:: len(gram) + 1] = 1.0 + RIDGE
    factor, info = lapack.dpotrf(scaled, lower=1, overwrite_a=True)
    if info != 0:
        return pseudo_inverse(gram)
    return lambda right: scale * lapack.dpotrs(factor, scale * right, lower=1)[0]


def pseudo_inverse(gram: np.ndarray) -> Solve:
    """Return a function that solves the system in the directions it has."""
    scale = unit_scale(gram)
    values, vectors = eigh(gram * scale * scale[:, None], check_finite=False)
    is_kept = values > 8 * EPS * len(gram) * values[-1]
    vectors, values = vectors[:, is_kept], values[is_kept]
    return lambda right: scale * (vectors @ ((scale * right @ vectors) / values))
