"""From validated arrays to a verified reduced measure, whatever the method."""

from __future__ import annotations

import math

import numpy as np

from skcara.recombination._first_level import summarise, with_mass
from skcara.recombination._methods import chain
from skcara.recombination._moments import Rows
from skcara.recombination._result import (
    MethodFailed,
    Recombination,
    RecombinationError,
)
from skcara.recombination._tree import Reduced
from skcara.recombination._validation import RandomSource
from skcara.recombination._verification import (
    EXACT,
    MAX_MASS_ERROR,
    MAX_RESIDUAL,
    moment_errors,
    polished,
)


def reduce_measure(
    points: np.ndarray,
    weights: np.ndarray | None,
    method: str,
    target: int | None,
    random: RandomSource,
    names: tuple[str, str] = ("points", "weights"),
) -> Recombination:
    """Reduce a validated measure; without weights every row has mass one.

    Raises
    ------
    ValueError
        If the points or the sum of the weights, reported by their `names`, are not
        finite.
    RecombinationError
        If no method of the chain met the contract.
    """
    weights, weight_exponent = to_order_one(weights)
    summary = summarise(Rows(points, weights))
    totals = summary.totals
    if not np.isfinite(totals.peak).all():
        raise ValueError(f"{names[0]} must be finite; got NaN or infinity.")
    if not has_finite_mass(totals.mass, weight_exponent):
        raise ValueError(f"{names[1]} must have a finite sum.")
    for name, reduce in chain(method).items():
        try:
            indices, masses = ascending(*reduce(summary, target, random))
        except (MethodFailed, np.linalg.LinAlgError):
            continue
        if not is_measure(indices, masses):
            continue
        support = summary.rows.read(indices)
        residual, mass_error = moment_errors(support, masses, totals)
        if max(residual, mass_error) > EXACT:
            masses = polished(support, masses, totals)
            residual, mass_error = moment_errors(support, masses, totals)
        if residual <= MAX_RESIDUAL and mass_error <= MAX_MASS_ERROR:
            if weight_exponent:
                # Masses below the smallest float vanish in the caller's units.
                masses = np.ldexp(masses, weight_exponent)
                indices, masses = with_mass(indices, masses)
            return Recombination(indices, masses, residual, name)
    raise RecombinationError(
        f"None of {', '.join(chain(method))} matched the moments of the points."
    )


def to_order_one(weights) -> tuple[np.ndarray | None, int]:
    """Return masses of order one and the power of two they were divided by."""
    if weights is None or 1e-100 < weights.max() < 1e100:
        return weights, 0
    exponent = int(np.frexp(weights.max())[1])
    return np.ldexp(weights, -exponent), exponent


def has_finite_mass(mass: float, exponent: int) -> bool:
    """Whether the mass in the caller's units is a number."""
    try:
        return math.ldexp(mass, exponent) < math.inf
    except OverflowError:
        return False


def ascending(indices, masses) -> Reduced:
    """Drop the atoms without mass and sort the others by their index."""
    indices, masses = with_mass(indices, masses)
    order = np.argsort(indices)
    return indices[order].astype(np.int64, copy=False), masses[order]


def is_measure(indices, masses) -> bool:
    """Whether there are distinct atoms with finite positive masses, and only these."""
    is_positive = (masses > 0.0) & (masses < np.inf)
    return len(masses) > 0 and is_positive.all() and (np.diff(indices) > 0).all()
