"""Inputs of every kind, and a judge that shares no code with the library."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls


class Cloud(NamedTuple):
    name: str
    points: np.ndarray
    weights: np.ndarray | None


def _low_rank(rng, n_points, n_columns, rank):
    return rng.normal(size=(n_points, rank)) @ rng.normal(size=(rank, n_columns))


def make_clouds(seed: int = 0) -> list[Cloud]:
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(120, 4))
    positive = rng.random(120) + 0.01
    with_zeros = positive * (rng.random(120) < 0.5)
    one_mass = np.zeros(120)
    one_mass[17] = 2.5
    constant = normal.copy()
    constant[:, 2] = 0.1
    collinear = normal.copy()
    collinear[:, 0] = 3 * collinear[:, 1] - collinear[:, 2]
    scaled = normal * np.array([1e-8, 1e-3, 1e4, 1e8])
    return [
        Cloud("normal", normal, None),
        Cloud("exponential", rng.exponential(size=(300, 3)), rng.random(300)),
        Cloud("more rows than groups", rng.normal(size=(3000, 2)), rng.random(3000)),
        Cloud("zero weights", normal, with_zeros),
        Cloud("one positive weight", normal, one_mass),
        Cloud("large mass", normal, 1e6 * positive),
        Cloud("weights near underflow", normal, 1e-300 * positive),
        Cloud("weights near overflow", normal, 1e300 * positive),
        Cloud("weights over 12 decades", normal, 10.0 ** rng.uniform(-12, 0, 120)),
        Cloud("one point", normal[:1], None),
        Cloud("two points", normal[:2], np.array([1.0, 3.0])),
        Cloud("simplex", normal[:5], positive[:5]),
        Cloud("fewer points than columns", normal[:3], positive[:3]),
        Cloud("all equal", np.tile(normal[:1], (50, 1)), positive[:50]),
        Cloud("four points repeated", np.tile(normal[:4], (25, 1)), positive[:100]),
        Cloud("all zero", np.zeros((40, 3)), None),
        Cloud("no columns", np.empty((40, 0)), positive[:40]),
        Cloud("no columns, many rows", np.empty((400, 0)), None),
        Cloud("one column", normal[:, :1], positive),
        Cloud("one constant column", np.ones((30, 1)), None),
        Cloud("constant column", constant, positive),
        Cloud("collinear columns", collinear, positive),
        Cloud("rank 2 of 6", _low_rank(rng, 200, 6, 2), rng.random(200)),
        Cloud("columns from 1e-8 to 1e8", scaled, positive),
        Cloud("offset 1e8", normal + 1e8, positive),
        Cloud("offset 1e8 in one column", normal + np.array([1e8, 0, 0, 0]), positive),
        Cloud("times 1e12", normal * 1e12, positive),
        Cloud("times 1e-12", normal * 1e-12, positive),
        Cloud("near overflow", normal / np.abs(normal).max() * 1e300, positive),
        Cloud("largest floats", normal / np.abs(normal).max() * 1.7e308, None),
        Cloud("smallest floats", np.round(10 * normal) * 5e-324, None),
        Cloud("times 1e150", normal * 1e150, positive),
        Cloud("near underflow", normal * 1e-300, positive),
        Cloud("indicators", (rng.random((200, 5)) < 0.1).astype(float), None),
        Cloud("hypercube", rng.integers(0, 2, size=(64, 6)).astype(float), None),
        Cloud("sorted", np.sort(normal, axis=0), positive),
        Cloud("heavy tails", rng.standard_t(1, size=(150, 3)), None),
        Cloud("separated clusters", normal * 1e-6 + np.arange(120)[:, None] % 3, None),
    ]


CLOUDS = make_clouds()


def masses_of(cloud: Cloud) -> np.ndarray:
    n_points = len(cloud.points)
    if cloud.weights is None:
        return np.full(n_points, 1 / n_points)
    return cloud.weights


def unit_columns(points, masses) -> np.ndarray:
    """Columns scaled by powers of two, which is exact, to the order of one."""
    peak = np.abs(points[masses > 0]).max(axis=0, initial=0.0)
    return np.ldexp(points, -np.frexp(peak)[1])


def unit_masses(masses, reference) -> np.ndarray:
    return np.ldexp(masses, -np.frexp(reference.max())[1])


def column_error(points, masses, indices, weights) -> float:
    """Largest column error relative to mass times the column's largest entry."""
    columns = unit_columns(points, masses)
    before, after = unit_masses(masses, masses), unit_masses(weights, masses)
    peak = np.abs(columns[masses > 0]).max(axis=0, initial=0.0)
    difference = np.abs(after @ columns[indices] - before @ columns)
    return (difference / (before.sum() * np.where(peak > 0, peak, 1))).max(initial=0.0)


def mass_error(masses, weights) -> float:
    return abs(
        unit_masses(weights, masses).sum() / unit_masses(masses, masses).sum() - 1
    )


def affine_rank(points, masses) -> int:
    """Affine dimension of the atoms with mass, after centring and column scaling."""
    eps = np.finfo(float).eps
    columns = unit_columns(points, masses)[masses > 0]
    centred = columns - np.average(
        columns, axis=0, weights=unit_masses(masses, masses)[masses > 0]
    )
    spread = np.abs(centred).max(axis=0, initial=0.0)
    peak = np.abs(columns).max(axis=0, initial=0.0)
    varies = spread > 64 * eps * peak
    if not varies.any():
        return 0
    singular = np.linalg.svd(centred[:, varies] / spread[varies], compute_uv=False)
    return int((singular > singular[0] * max(centred.shape) * 8 * eps).sum())


def is_feasible(points, masses, candidates) -> bool:
    """Whether some masses on the candidate rows match; decided by NNLS."""
    eps = np.finfo(float).eps
    columns = unit_columns(points, masses)
    total = unit_masses(masses, masses)
    centred = columns - total @ columns / total.sum()
    spread = np.abs(centred).max(axis=0)
    # Columns that are constant up to rounding are no constraint.
    centred /= np.where(spread > 64 * eps * np.abs(columns).max(axis=0), spread, np.inf)
    matrix = np.vstack([np.ones(len(candidates)), centred[candidates].T])
    target = np.zeros(len(matrix))
    target[0] = 1.0
    return nnls(matrix, target)[1] < 1e-7


def assert_contract(cloud: Cloud, result, target_size: int | None = None) -> None:
    """Laws 1 to 4: exact moments, mass, positive weights, small support."""
    indices, weights = result
    masses = masses_of(cloud)
    assert indices.dtype == np.int64
    assert weights.dtype == np.float64
    assert indices.shape == weights.shape
    assert (np.diff(indices) > 0).all()
    assert (weights > 0).all()
    assert (masses[indices] > 0).all()
    error = column_error(cloud.points, masses, indices, weights)
    # Rounding of sums of a few hundred terms; the contract allows 1e-10.
    assert error <= 1e-13
    # The reported residual is the measured one, up to the rounding of the measurement.
    assert abs(result.residual - error) <= 1e-14
    assert mass_error(masses, weights) <= 1e-12
    limit = max(affine_rank(cloud.points, masses) + 1, target_size or 0)
    assert len(indices) <= limit
