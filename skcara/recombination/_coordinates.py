r"""Coordinates in which every method sees the same well-behaved problem.

Atoms :math:`p_i` with masses :math:`w_i` are matched when mass and mean are. Both
conditions survive an affine change of coordinates, so the methods are given

.. math:: z_i = A\,(p_i - c), \qquad c = \sum_i w_i p_i \big/ \sum_i w_i,

with :math:`A` chosen such that the rows of ``values`` (one per coordinate) are linearly
independent and of order one. A method then has to solve

.. math:: \sum_i v_i = \sum_i w_i, \qquad \sum_i v_i z_i = 0, \qquad v \ge 0

and never meets a constant column, a collinear column or a bad scale. The number of
coordinates is the affine dimension ``r`` of the atoms, so a basic solution has at
most ``r + 1`` atoms.

What counts as zero
-------------------
Accuracy is measured in units of ``peak_j``, the largest absolute entry of column ``j``:
a number stored next to an offset of that size is not known better than about
``eps * peak_j``. In these units a direction along which the centred atoms extend by
no more than a few ``eps`` is round-off. Keeping it would add a constraint that nothing
satisfies, ignoring it does no harm that could be measured. The factor 64 leaves room
for the rounding of products and of sums over many rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

EPS = np.finfo(np.float64).eps
# Differences of this size, relative to what was subtracted, are rounding: a few dozen
# operations in a row.
ROUND_OFF = 64 * EPS

# Judging the rank on a few atoms per coordinate is enough when it comes out full, and
# the factorisation then costs nothing next to reading all atoms.
SAMPLE_PER_COORDINATE = 4


class Atoms(NamedTuple):
    """Points in memory with strictly positive masses.

    Attributes
    ----------
    points : ndarray of shape (n_atoms, n_columns)
    weights : ndarray of shape (n_atoms,)
    peak : ndarray of shape (n_columns,)
        Largest absolute entry of each column of the data the atoms come from.
    """

    points: np.ndarray
    weights: np.ndarray
    peak: np.ndarray


class Coordinates(NamedTuple):
    """Centred, scaled and independent coordinates of the atoms.

    Attributes
    ----------
    values : ndarray of shape (n_coordinates, n_atoms)
        Of full row rank, with weighted mean zero.
    independent : ndarray of shape (n_coordinates,)
        Atoms whose coordinates are linearly independent.
    weights : ndarray of shape (n_atoms,)
        Masses of the atoms.
    """

    values: np.ndarray
    independent: np.ndarray
    weights: np.ndarray


def affine_coordinates(atoms: Atoms) -> Coordinates:
    """Return coordinates of the affine hull of the atoms."""
    points, weights, peak = atoms
    total = weights.sum()
    centre = weights @ points / total
    values = np.subtract(points.T, centre[:, None], order="C")
    # Next to a large offset the mean is rounded; the mean of the differences is not.
    values -= (values @ weights / total)[:, None]
    high, low = values.max(axis=1), values.min(axis=1)
    spread = np.maximum(high, -low)
    # The range of a constant column is zero exactly, whatever the rounding of its mean.
    varies = high - low > ROUND_OFF * peak
    if not varies.all():
        values, spread, peak = values[varies], spread[varies], peak[varies]
    n_columns, n_atoms = values.shape
    if n_columns == 0:
        return Coordinates(values, np.empty(0, dtype=np.int64), weights)
    stride = max(1, n_atoms // (SAMPLE_PER_COORDINATE * (n_columns + 1)))
    triangle, order, rank = rank_revealing_qr(values[:, ::stride] / peak[:, None])
    if stride > 1 and rank < n_columns:
        stride = 1
        triangle, order, rank = rank_revealing_qr(values / peak[:, None])
    if rank < n_columns:
        values[:rank, order] = triangle[:rank]
        values = values[:rank]
        spread = np.abs(values).max(axis=1)
    values /= spread[:, None]
    return Coordinates(values, order[:rank] * stride, weights)


def rank_revealing_qr(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Factorise with column pivoting and judge the rank against round-off.

    Parameters
    ----------
    values : ndarray of shape (n_columns, n_atoms)
        Centred, in units of the peaks.

    Returns
    -------
    triangle : ndarray of shape (min(n_columns, n_atoms), n_atoms)
        Row ``k`` holds the extents of the atoms along the ``k``-th direction.
    order : ndarray of shape (n_atoms,)
        The first `rank` entries are independent atoms.
    rank : int
    """
    triangle, order = qr(values, mode="r", pivoting=True, check_finite=False)
    is_round_off = np.abs(triangle.diagonal()) <= ROUND_OFF * np.sqrt(len(values))
    rank = int(is_round_off.argmax()) if is_round_off.any() else len(is_round_off)
    return triangle, order, rank
