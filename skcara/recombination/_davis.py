r"""Davis' elimination, the textbook proof of Carathéodory's theorem.

Any :math:`r + 2` atoms in :math:`r` coordinates are affinely dependent: there is
:math:`d \ne 0` with :math:`\sum_i d_i = 0` and :math:`\sum_i d_i z_i = 0`. Moving the
masses along :math:`d` until one of them vanishes removes an atom and changes neither
mass nor mean. Repeat until :math:`r + 1` atoms are left.

Only :math:`r + 2` atoms are looked at in each step, so a step costs
:math:`O(r^3)` and all of them :math:`O(N r^3)`: the reference that the other methods
are compared with.

References
----------
Davis, P. J. (1967). A construction of nonnegative approximate quadratures.
Mathematics of Computation 21(100). doi:10.1090/S0025-5718-1967-0222534-4
"""

from __future__ import annotations

import numpy as np

from skcara.recombination._basis import move_to_boundary
from skcara.recombination._coordinates import Coordinates


def reduce_by_davis(coordinates: Coordinates, size: int, random):
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
    window_size = n_coordinates + 2
    constraints = np.vstack([np.ones(n_atoms), coordinates.values]).T
    weights = coordinates.weights.copy()
    window = list(range(window_size))
    n_alive = n_atoms
    upcoming = window_size
    while n_alive > size:
        window_weights = weights[window]
        direction = null_vector(constraints[window])
        move_to_boundary(window_weights, direction)
        weights[window] = window_weights
        survivors = [i for i, mass in zip(window, window_weights, strict=True) if mass]
        n_alive -= window_size - len(survivors)
        n_missing = window_size - len(survivors)
        window = survivors + list(range(upcoming, min(upcoming + n_missing, n_atoms)))
        upcoming += n_missing
        if len(window) < window_size:
            break
    positions = np.flatnonzero(weights)
    return positions, weights[positions]


def null_vector(constraints: np.ndarray) -> np.ndarray:
    """Return a unit vector orthogonal to the columns of a tall matrix.

    The last column of the orthogonal factor is orthogonal to all of them, whatever
    their rank.
    """
    return np.linalg.qr(constraints, mode="complete")[0][:, -1]
