r"""Tchernychova and Lyons: one null space per level, updated after each elimination.

Like `_litterer_lyons`, but the null space of all :math:`m \le 2(n + 1)` barycentres is
computed once. Let the columns of :math:`\Phi` be an orthonormal basis of it. After
moving the masses along a column until atom :math:`i` vanishes, the next directions must
not touch atom :math:`i`. A Householder reflection :math:`H` with
:math:`\Phi_{i,:} H = (\pm\|\Phi_{i,:}\|, 0, \dots, 0)` gathers everything that does in
the first column, which is dropped. Reflections keep :math:`\Phi` orthonormal;
subtracting multiples of the used column, as published, divides by an entry that may be
small.

A level costs :math:`O(n^3)`, all of them :math:`O(Nn + n^3 \log(N/n))`.

References
----------
Tchernychova, M. (2016). Carathéodory cubature measures. PhD thesis, University of
Oxford.
"""

from __future__ import annotations

import numpy as np

from skcara.recombination._basis import move_to_boundary
from skcara.recombination._coordinates import Coordinates
from skcara.recombination._tree import (
    groups_per_dimension,
    in_coordinates,
    through_groups,
)


def reduce_by_downdating(coordinates: Coordinates, size: int, random):
    """Return the positions and masses of at most `size` atoms.

    Parameters
    ----------
    coordinates : Coordinates
    size : int
        Number of atoms at which to stop, more than the number of coordinates.
    random : RandomSource
        Unused: the algorithm is deterministic.
    """
    n_coordinates, n_atoms = coordinates.values.shape
    constraints = np.vstack([np.ones(n_atoms), coordinates.values]).T
    null_space = np.linalg.qr(constraints, mode="complete")[0][:, n_coordinates + 1 :]
    weights = coordinates.weights.copy()
    while null_space.shape[1] > size - n_coordinates - 1:
        vanished = move_to_boundary(weights, null_space[:, 0].copy())
        null_space = without_atom(null_space, vanished)
    positions = np.flatnonzero(weights)
    return positions, weights[positions]


def without_atom(null_space: np.ndarray, atom: int) -> np.ndarray:
    """Return an orthonormal basis of the directions that do not touch `atom`."""
    reflector = null_space[atom].copy()
    # The sign that does not cancel.
    reflector[0] += np.copysign(np.linalg.norm(reflector), reflector[0])
    factor = 2.0 / (reflector @ reflector)
    kept = null_space[:, 1:] - np.outer(
        factor * (null_space @ reflector), reflector[1:]
    )
    kept[atom] = 0.0
    return kept


reduce_by_tree = through_groups(
    groups_per_dimension(2), in_coordinates(reduce_by_downdating)
)
