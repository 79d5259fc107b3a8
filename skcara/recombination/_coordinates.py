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
A number stored next to an offset ``peak_j`` (the largest absolute entry of column
``j``) is known up to about ``eps * peak_j``. A direction of the centred cloud that is
not longer than that is round-off: keeping it would add a constraint that
nothing satisfies. It can be ignored, because what it changes is at the level of ``eps``
in the measure of accuracy, which is relative to ``peak_j``. The factor 64 leaves room
for the rounding of sums over many rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

EPS = np.finfo(np.float64).eps
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
    centre = weights @ points / weights.sum()
    values = np.subtract(points.T, centre[:, None], order="C")
    spread = np.maximum(values.max(axis=1), -values.min(axis=1))
    varies = spread > ROUND_OFF * peak
    if not varies.all():
        values, spread, peak = values[varies], spread[varies], peak[varies]
    values /= spread[:, None]
    round_off = ROUND_OFF * peak / spread
    n_columns, n_atoms = values.shape
    stride = n_atoms // (SAMPLE_PER_COORDINATE * (n_columns + 1))
    if stride > 1:
        _, order, rank = rank_revealing_qr(values[:, ::stride], round_off)
        if rank == n_columns:
            return Coordinates(values, order[:rank] * stride, weights)
    if n_columns == 0:
        return Coordinates(values, np.empty(0, dtype=np.int64), weights)
    triangle, order, rank = rank_revealing_qr(values, round_off)
    if rank < n_columns:
        values = np.empty((rank, n_atoms))
        values[:, order] = triangle[:rank]
    return Coordinates(values, order[:rank], weights)


def rank_revealing_qr(values, round_off) -> tuple[np.ndarray, np.ndarray, int]:
    """Factorise with column pivoting and judge the rank against round-off.

    Row ``k`` of the triangle is the extent of the atoms along the ``k``-th orthogonal
    direction; the round-off along it is that of the columns it mixes.

    Returns
    -------
    triangle : ndarray of shape (min(n_columns, n_atoms), n_atoms)
    order : ndarray of shape (n_atoms,)
        The first `rank` entries are independent atoms.
    rank : int
    """
    directions, triangle, order = qr(
        values, mode="economic", pivoting=True, check_finite=False
    )
    extent = np.abs(triangle.diagonal())
    negligible = 8 * EPS * max(values.shape) * extent[0] + round_off @ np.abs(
        directions
    )
    is_noise = extent <= negligible
    rank = int(is_noise.argmax()) if is_noise.any() else extent.size
    return triangle, order[: values.shape[1]], rank
