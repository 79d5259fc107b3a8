"""Read all rows once; hand a method the rows, or first the groups of many rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from skcara.recombination._coordinates import Atoms
from skcara.recombination._moments import (
    BLOCK_ENTRIES,
    Rows,
    Summary,
    Totals,
    column_sums,
    group_moments,
    safe_exponents,
)
from skcara.recombination._pivoting import count_groups
from skcara.recombination._tree import Reduced, Reduction, reduce_groups
from skcara.recombination._validation import RandomSource

# A method: from what is known of the rows to indices and masses of the survivors.
Method = Callable[[Summary, int | None, RandomSource], Reduced]

# Groups of rows read in the first pass. One group in this many survives per moment, so
# about that share of the rows is read a second time and held in memory.
FIRST_GROUPS_PER_MOMENT = 64

# Rounding errors of a sum grow with the number of terms added one after the other.
MAX_GROUP_SIZE = 1024


def summarise(rows: Rows) -> Summary:
    """Read all rows once, twice where their columns have to be scaled first."""
    group_size = first_group_size(*rows.points.shape)
    moments = group_moments(rows, group_size)
    exponents = safe_exponents(moments.peak)
    if exponents is not None:
        rows = replace(rows, exponents=exponents)
        moments = group_moments(rows, group_size)
    totals = Totals(column_sums(moments.sums), moments.masses.sum(), moments.peak)
    return Summary(rows, moments, totals)


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


def on_rows(reduction: Reduction, *, uses_groups: bool = True) -> Method:
    """Turn a reduction of atoms in memory into a method on rows.

    Parameters
    ----------
    reduction : callable
        From atoms to the positions and masses of the survivors.
    uses_groups : bool
        Whether large data may be read as group sums first. Reductions that are
        defined on all atoms at once do not; they get a copy of them.
    """
    return partial(reduce_rows, reduction, uses_groups)


def reduce_rows(
    reduction: Reduction,
    uses_groups: bool,
    summary: Summary,
    target: int | None,
    random: RandomSource,
) -> Reduced:
    """Do what `on_rows` promises."""
    rows, peak = summary.rows, summary.totals.peak
    n_rows = len(rows.points)
    goes_through_groups = uses_groups and not is_small(*rows.points.shape)
    if goes_through_groups and n_rows > (target or 1):
        indices, factors, is_final = reduce_groups(
            summary.moments, n_rows, peak, reduction, target or 0, random
        )
        masses = rows.masses(indices) * factors
        if is_final:
            return indices, masses
    else:
        indices = np.arange(n_rows)
        masses = rows.masses(indices)
    indices, masses = with_mass(indices, masses)
    kept, masses = reduction(Atoms(rows.read(indices), masses, peak), target, random)
    return indices[kept], masses


def with_mass(indices, masses) -> Reduced:
    """Drop the atoms without mass."""
    if masses.all():
        return indices, masses
    has_mass = masses > 0.0
    return indices[has_mass], masses[has_mass]
