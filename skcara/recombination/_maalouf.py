r"""Maalouf, Jubran and Feldman: fast Carathéodory with :math:`2n + 2` clusters.

The same halving as `_litterer_lyons`, but each elimination uses the differences to
the first atom, :math:`A = (z_1 - z_0, \dots, z_{m-1} - z_0)`: a null vector :math:`d`
of :math:`A`, completed by :math:`d_0 = -\sum_{i \ge 1} d_i`, is orthogonal to all
constraints. It is taken from a singular value decomposition of all :math:`m - 1`
differences, so a level costs :math:`O(n^4)`.

The published program clusters the *weighted sums* with equal masses, which
preserves the weighted sum but not the mass. Here the clusters are barycentres with
their true masses, and both are preserved.

References
----------
Maalouf, A., Jubran, I. and Feldman, D. (2019). Fast and accurate least-mean-squares
solvers. Advances in Neural Information Processing Systems 32. arXiv:1906.04705
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


def reduce_by_differences(coordinates: Coordinates, size: int, random):
    """Return the positions and masses of at most `size` atoms.

    Parameters
    ----------
    coordinates : Coordinates
    size : int
        Number of atoms at which to stop, more than the number of coordinates.
    random : RandomSource
        Unused: the algorithm is deterministic.
    """
    values = coordinates.values
    weights = coordinates.weights.copy()
    alive = np.arange(len(weights))
    while len(alive) > size:
        alive_weights = weights[alive]
        differences = values[:, alive[1:]] - values[:, alive[:1]]
        null_vector = np.linalg.svd(differences, full_matrices=True)[2][-1]
        direction = np.concatenate([[-null_vector.sum()], null_vector])
        move_to_boundary(alive_weights, direction)
        weights[alive] = alive_weights
        alive = alive[alive_weights > 0.0]
    return alive, weights[alive]


reduce_by_maalouf = through_groups(
    groups_per_dimension(2), in_coordinates(reduce_by_differences)
)
