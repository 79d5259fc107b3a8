r"""Non-negative least squares: the last resort of the fallback chain.

Minimising :math:`\|M v - t\|` over :math:`v \ge 0` with the active-set method of Lawson
and Hanson ends with independent columns of :math:`M`, hence with at most :math:`r + 1`
atoms, and with residual zero because a feasible point exists.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from skcara.recombination._coordinates import Coordinates
from skcara.recombination._tree import (
    groups_per_dimension,
    in_coordinates,
    through_groups,
)


def reduce_by_least_squares(coordinates: Coordinates, size: int, random):
    """Return the positions and masses of at most ``r + 1`` atoms."""
    n_atoms = coordinates.values.shape[1]
    columns = np.vstack([np.ones(n_atoms), coordinates.values])
    moments = np.zeros(len(columns))
    moments[0] = coordinates.weights.sum()
    weights, _ = nnls(columns, moments, maxiter=10 * n_atoms)
    positions = np.flatnonzero(weights)
    return positions, weights[positions]


reduce_by_nnls = through_groups(
    groups_per_dimension(4), in_coordinates(reduce_by_least_squares)
)
