r"""Reduce groups first, then the rows of the surviving groups.

A group with mass :math:`W_g` and barycentre :math:`p_g` acts as one atom. If a
reduction keeps group :math:`g` with mass :math:`\omega_g`, then giving its members the
masses :math:`w_i \omega_g / W_g` keeps the sum of the members at :math:`\omega_g p_g`,
so mass and mean of everything are preserved although the other groups are gone. With
``k * (n_columns + 1)`` groups, about one atom in ``k`` survives a level.

A target size is met early: as soon as the surviving groups together have at
most that many rows, these rows are the answer.

Groups are contiguous: no data is moved, and barycentres of contiguous rows
are spread wider than those of interleaved ones, hence better conditioned. Any
grouping is correct.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from skcara.recombination._coordinates import Atoms, affine_coordinates
from skcara.recombination._moments import (
    GroupMoments,
    Rows,
    group_moments,
    group_rows,
)
from skcara.recombination._validation import RandomSource

# Positions and masses of the surviving atoms.
Reduced = tuple[np.ndarray, np.ndarray]
Reduction = Callable[[Atoms, int | None, RandomSource], Reduced]


def in_coordinates(algorithm) -> Reduction:
    """Turn an algorithm on `Coordinates` into a reduction of any atoms.

    The cases without anything to decide are answered here, so that algorithms are
    asked only when there is at least one coordinate and one atom too many.
    """

    def reduction(atoms: Atoms, target: int | None, random: RandomSource) -> Reduced:
        coordinates = affine_coordinates(atoms)
        n_coordinates, n_atoms = coordinates.values.shape
        size = max(target or 1, n_coordinates + 1)
        if n_atoms <= size:
            return np.arange(n_atoms), atoms.weights
        if n_coordinates == 0:
            return np.zeros(1, dtype=np.int64), atoms.weights.sum(keepdims=True)
        return algorithm(coordinates, size, random)

    return reduction


def through_groups(
    count_groups: Callable[[int], int],
    reduction: Reduction,
    *,
    least_last_atoms: bool = False,
) -> Reduction:
    """Apply a reduction to groups until few enough atoms are left, then to these.

    Parameters
    ----------
    count_groups : callable
        Number of groups of a level, given the number of columns.
    reduction : callable
        Applied to the barycentres of every level and to the last atoms.
    least_last_atoms : bool
        Hold atoms back from the last level, so that the last reduction sees about as
        many atoms as there are groups and not far fewer.
    """
    return partial(reduce_levels, count_groups, reduction, least_last_atoms)


def reduce_levels(
    count_groups: Callable[[int], int],
    reduction: Reduction,
    least_last_atoms: bool,
    atoms: Atoms,
    target: int | None,
    random: RandomSource,
) -> Reduced:
    """Do what `through_groups` promises."""
    n_columns = atoms.points.shape[1]
    n_groups = count_groups(n_columns)
    positions = np.arange(len(atoms.weights))
    while len(positions) > max(n_groups, target or 1):
        n_survivors = len(positions) * (n_columns + 1) // n_groups
        n_held = max(0, n_groups - n_survivors) if least_last_atoms else 0
        n_grouped = len(positions) - n_held
        if n_grouped <= n_groups:
            break
        grouped = Rows(atoms.points[:n_grouped], atoms.weights[:n_grouped])
        moments = group_moments(grouped, -(-n_grouped // n_groups))
        group_target = (target or 0) - n_held
        kept, factors, is_final = reduce_groups(
            moments, n_grouped, atoms.peak, reduction, group_target, random
        )
        kept = np.concatenate([kept, np.arange(n_grouped, len(positions))])
        weights = atoms.weights[kept]
        weights[: len(factors)] *= factors
        positions = positions[kept]
        if is_final:
            return positions, weights
        atoms = Atoms(atoms.points[kept], weights, atoms.peak)
    kept, weights = reduction(atoms, target, random)
    return positions[kept], weights


def reduce_groups(
    moments: GroupMoments,
    n_rows: int,
    peak: np.ndarray,
    reduction: Reduction,
    target: int,
    random: RandomSource,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Reduce the barycentres of groups and keep the rows of the surviving groups.

    Returns
    -------
    rows : ndarray of int
        Rows of the surviving groups, ascending.
    factors : ndarray
        What their masses are to be multiplied with.
    is_final : bool
        Whether the support already meets the target size.
    """
    occupied = np.flatnonzero(moments.masses)
    masses = moments.masses[occupied]
    barycentres = moments.sums[occupied] / masses[:, None]
    # A reduction may leave one group more than there are columns; where the target
    # allows that many groups, this level is the last one and can stop early.
    target_groups = target // moments.group_size
    is_final = target_groups > barycentres.shape[1]
    survivors, new_masses = reduction(
        Atoms(barycentres, masses, peak), target_groups if is_final else None, random
    )
    order = np.argsort(survivors)
    survivors, new_masses = survivors[order], new_masses[order]
    rows = group_rows(occupied[survivors], moments.group_size, n_rows)
    factors = np.repeat(new_masses / masses[survivors], moments.group_size)
    return rows, factors[: len(rows)], is_final


def groups_per_dimension(factor: int) -> Callable[[int], int]:
    """Return the rule of `factor` groups for each of the ``n_columns + 1`` moments."""
    return lambda n_columns: factor * (n_columns + 1)
