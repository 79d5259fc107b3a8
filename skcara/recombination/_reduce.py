"""From validated arrays to a verified reduced measure, whatever the method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from skcara.recombination._calibration import can_calibrate, reduce_by_calibration
from skcara.recombination._coordinates import Atoms
from skcara.recombination._methods import Method, chain
from skcara.recombination._moments import (
    BLOCK_ENTRIES,
    GroupMoments,
    Rows,
    group_moments,
    safe_exponents,
)
from skcara.recombination._pivoting import count_groups
from skcara.recombination._result import (
    MethodFailed,
    Recombination,
    RecombinationError,
)
from skcara.recombination._tree import Reduced, reduce_groups
from skcara.recombination._validation import RandomSource
from skcara.recombination._verification import (
    EXACT,
    MAX_MASS_ERROR,
    MAX_RESIDUAL,
    Totals,
    moment_errors,
    polished,
)

# Groups of rows read in the first pass. One group in this many survives per moment, so
# about that share of the rows is read a second time and held in memory.
FIRST_GROUPS_PER_MOMENT = 64

# Rounding errors of a sum grow with the number of terms added one after the other.
MAX_GROUP_SIZE = 1024


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
    rows, moments = summarise(Rows(points, weights))
    if not np.isfinite(moments.peak).all():
        raise ValueError(f"{names[0]} must be finite; got NaN or infinity.")
    totals = Totals(moments.sums.sum(axis=0), moments.masses.sum(), moments.peak)
    if not has_finite_mass(totals.mass, weight_exponent):
        raise ValueError(f"{names[1]} must have a finite sum.")
    for name, attempt in attempts(rows, moments, totals, method, target, random):
        try:
            indices, masses = ascending(*attempt())
        except (MethodFailed, np.linalg.LinAlgError):
            continue
        support = rows.read(indices)
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


def attempts(
    rows: Rows,
    moments: GroupMoments,
    totals: Totals,
    method: str,
    target: int | None,
    random: RandomSource,
) -> Iterator[tuple[str, Callable[[], Reduced]]]:
    """Yield what to try, in order, with the name of the method to report."""
    methods = chain(method)
    if methods[method].uses_samples and target is not None:
        n_rows, n_columns = rows.points.shape
        if can_calibrate(n_rows, n_columns, target):
            yield method, partial(reduce_by_calibration, rows, totals, target, random)
    for name, candidate in methods.items():
        yield (
            name,
            partial(reduce_rows, rows, moments, totals.peak, candidate, target, random),
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


def summarise(rows: Rows) -> tuple[Rows, GroupMoments]:
    """Read all rows once, twice where their columns have to be scaled first."""
    group_size = first_group_size(*rows.points.shape)
    moments = group_moments(rows, group_size)
    exponents = safe_exponents(moments.peak)
    if exponents is not None:
        rows = replace(rows, exponents=exponents)
        moments = group_moments(rows, group_size)
    return rows, moments


def first_group_size(n_rows: int, n_columns: int) -> int:
    """Return the size of the groups of the first pass."""
    n_groups = FIRST_GROUPS_PER_MOMENT * (n_columns + 1)
    in_cache = max(1, BLOCK_ENTRIES // max(1, n_columns))
    if is_small(n_rows, n_columns):
        return min(n_rows, MAX_GROUP_SIZE)
    return min(-(-n_rows // n_groups), in_cache, MAX_GROUP_SIZE)


def is_small(n_rows: int, n_columns: int) -> bool:
    """Whether the rows can be handed to a method without grouping them first."""
    n_groups = FIRST_GROUPS_PER_MOMENT * (n_columns + 1)
    return n_rows <= max(n_groups, count_groups(n_columns))


def reduce_rows(
    rows: Rows,
    moments: GroupMoments,
    peak: np.ndarray,
    method: Method,
    target: int | None,
    random: RandomSource,
) -> Reduced:
    """Apply one method to the rows, by way of their groups where it has any."""
    n_rows = len(rows.points)
    goes_through_groups = method.uses_groups and not is_small(*rows.points.shape)
    if goes_through_groups and n_rows > (target or 1):
        indices, factors, is_final = reduce_groups(
            moments, n_rows, peak, method.reduce, target or 0, random
        )
        masses = rows.masses(indices) * factors
        if is_final:
            return indices, masses
    else:
        indices = np.arange(n_rows)
        masses = rows.masses(indices)
    indices, masses = with_mass(indices, masses)
    kept, masses = method.reduce(
        Atoms(rows.read(indices), masses, peak), target, random
    )
    return indices[kept], masses


def with_mass(indices, masses) -> tuple[np.ndarray, np.ndarray]:
    """Drop the atoms without mass."""
    if masses.all():
        return indices, masses
    has_mass = masses > 0.0
    return indices[has_mass], masses[has_mass]


def ascending(indices, masses) -> tuple[np.ndarray, np.ndarray]:
    """Drop the atoms without mass and sort the others by their index."""
    indices, masses = with_mass(indices, masses)
    order = np.argsort(indices)
    return indices[order].astype(np.int64, copy=False), masses[order]
