"""Random measures for the campaign, drawn from the tables of `campaign_problems`."""

from typing import NamedTuple

import numpy as np
from campaign_problems import (
    ADVERSITIES,
    COLUMNS,
    FILL_VALUES,
    chance,
    decades,
    draw_weights,
    pick,
)

from skcara.recombination import RECOMBINATION_METHODS

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
