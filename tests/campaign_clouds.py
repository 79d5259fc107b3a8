"""Recombinations of the campaign: random measures, reduced and judged."""

import warnings
from typing import NamedTuple

import numpy as np
from campaign_judge import judge_measure
from campaign_problems import (
    ADVERSITIES,
    COLUMNS,
    FILL_VALUES,
    chance,
    decades,
    draw_weights,
    pick,
)
from campaign_report import Report, patience, snapshot, where

from skcara import merge, recombine
from skcara.recombination import RECOMBINATION_METHODS, recombine_groups

# Keeps the numbers of measures apart from those of other kinds.
RECOMBINATIONS = 2


class Cloud(NamedTuple):
    """Points and masses to reduce, and how."""

    seed: int
    points: np.ndarray
    weights: np.ndarray | None
    options: dict
    mission: str
    traits: tuple

    def __str__(self):
        shape = "x".join(str(size) for size in self.points.shape)
        return f"{self.mission}({self.options}) on {shape} {' '.join(self.traits)}"


MISSIONS = ("recombine", "recombine", "recombine", "merge", "recombine_groups")


def draw_cloud(seed) -> Cloud:
    """The recombination of this number, always the same."""
    rng = np.random.default_rng([RECOMBINATIONS, seed])
    most_rows = 20_000 if chance(rng, 0.01) else pick(rng, [6, 60, 60, 600])
    n_rows = int(decades(rng, 0, np.log10(most_rows)))
    n_columns = int(rng.integers(0, 13)) if chance(rng, 0.9) else int(rng.integers(40))
    kind = pick(rng, list(COLUMNS))
    points, traits = COLUMNS[kind](rng, (n_rows, n_columns)), [kind]
    if n_columns and chance(rng, 0.5):
        for name in rng.permutation(list(ADVERSITIES))[: rng.integers(1, 3)]:
            ADVERSITIES[name](rng, points)
            traits.append(str(name))
    if chance(rng, 0.1):
        rank = int(rng.integers(1, 4))
        points = points[:, :rank] @ rng.standard_normal(
            (min(rank, n_columns), n_columns)
        )
        traits.append("low-rank")
    if chance(rng, 0.1):
        points = points * decades(rng, -250, 250)
        traits.append("far-from-one")
    weights, more = draw_weights(rng, n_rows)
    traits += more
    if "first-zero" in more:
        points[weights == 0] = pick(rng, FILL_VALUES)
    if weights is not None and chance(rng, 0.05):
        weights = weights * decades(rng, -250, 250)
    dtype = pick(rng, ["f8"] * 8 + ["f4", "g"])
    if "far-from-one" not in traits:
        points = np.asarray(points, dtype=dtype, order=pick(rng, ["C", "F"]))
    options = {"method": pick(rng, RECOMBINATION_METHODS), "random_state": seed}
    if chance(rng, 0.4):
        options["target_size"] = int(rng.integers(1, 3 * n_rows // 2 + 2))
    mission = pick(rng, MISSIONS)
    if "far-from-one" in traits and mission == "recombine_groups":
        mission = "recombine"  # sums of groups would overflow in the caller's hands
    if mission == "merge":
        options.pop("target_size", None)
    points.flags.writeable = False
    return Cloud(seed, points, weights, options, mission, (*traits, points.dtype.name))


def run_cloud(cloud):
    """Run a mission; return the result and the points and masses it stands for."""
    points, weights, options = cloud.points, cloud.weights, cloud.options
    n_rows = len(points)
    if cloud.mission == "recombine":
        masses = np.full(n_rows, 1 / n_rows) if weights is None else weights
        return recombine(points, weights, **options), points, masses
    masses = np.ones(n_rows) if weights is None else weights
    if cloud.mission == "merge":
        part = np.random.default_rng(cloud.seed).integers(0, 3, n_rows)
        pairs = []
        for rows in (np.flatnonzero(part == k) for k in range(3)):
            if masses[rows].any():
                indices, new = recombine(points[rows], masses[rows], **options)
                pairs.append((rows[indices], new))
        # What merge is given are the reductions, with the errors that they have.
        masses = np.zeros(n_rows)
        for rows, new in pairs:
            masses[rows] += new
        return merge(points, pairs, **options), points, masses
    # Groups of one row: the measure on the rows is the one on the groups.
    sums = np.asarray(points, dtype=np.float64) * masses[:, None]
    result = recombine_groups(sums, masses, np.arange(n_rows + 1), masses, **options)
    # The sums may have lost what the points were; they are what was given.
    divisors = np.where(masses > 0, masses, 1).astype(np.longdouble)
    return result, sums / divisors[:, None], masses


def examine_cloud(seed) -> Report:
    """Draw, reduce and judge one measure."""
    cloud = draw_cloud(seed)
    before = snapshot(cloud.points, cloud.weights)
    with warnings.catch_warnings(), patience():
        warnings.simplefilter("error")
        try:
            result, points, masses = run_cloud(cloud)
        except Exception as error:  # the campaign is about these
            return Report([(type(error).__name__, where(error))], str(cloud))
    size = cloud.options.get("target_size")
    failures = [
        ("measure", text) for text in judge_measure(points, masses, result, size)
    ]
    if result.method not in {*RECOMBINATION_METHODS, "nnls"} - {"auto"}:
        failures.append(("method", repr(result.method)))
    if snapshot(cloud.points, cloud.weights) != before:
        failures.append(("inputs", "points or weights were modified"))
    asked = cloud.options["method"]
    fell_back = asked not in ("auto", "calibration", result.method)
    return Report(failures, str(cloud) if failures else "fell back" * fell_back)
