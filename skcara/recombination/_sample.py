r"""Early stopping: a sample of the rows, calibrated until it is exact.

Where the support may be several times larger than the number of moments, nothing has
to be eliminated. Draw ``target`` rows, each standing for the same share of the mass,
and let `_calibration` find the masses closest to that which match mass and mean.

Rows whose mass would not be positive are dropped and the system is solved again; if a
sample cannot be calibrated (a column that it misses altogether, heavy tails), another
one is drawn a few times before elimination takes over.

Drawing
-------
The mass is cut into ``target`` equal strata in the order of the rows, and each stratum
chooses a point of the mass axis at random; the row found there is drawn. Rows are drawn
in proportion to their mass, those without mass never, and any trend along the rows is
represented evenly.
"""

from __future__ import annotations

import numpy as np

from skcara.recombination._calibration import DenseColumns, calibrate
from skcara.recombination._coordinates import ROUND_OFF
from skcara.recombination._moments import BLOCK_ENTRIES, Rows, Summary, Totals
from skcara.recombination._result import MethodFailed
from skcara.recombination._validation import RandomSource

# Below this many rows per moment many masses would come out negative.
ROWS_PER_MOMENT = 3
MAX_SAMPLES = 3
MAX_SOLVES = 12


def reduce_by_calibration(
    summary: Summary, target: int | None, random: RandomSource
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and masses of at most `target` rows.

    Raises
    ------
    MethodFailed
        If the target leaves no room for a sample, or no sample could be calibrated.
    """
    rows, totals = summary.rows, summary.totals
    n_rows, n_columns = rows.points.shape
    if target is None or not ROWS_PER_MOMENT * (n_columns + 1) <= target < n_rows:
        raise MethodFailed("the target size leaves no room for a sample")
    moments = np.zeros(n_columns + 1)
    moments[0] = totals.mass
    for _ in range(MAX_SAMPLES):
        indices, base = draw_by_mass(rows, totals.mass, target, random.generator)
        columns = DenseColumns(moment_columns(rows.read(indices), totals))
        masses = calibrate(columns, base, moments, max_solves=MAX_SOLVES)
        if masses is not None:
            return indices, masses
    raise MethodFailed("no sample could be calibrated")


def draw_by_mass(
    rows: Rows, mass: float, n_drawn: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows in proportion to their mass, one from each stratum of equal mass.

    Returns
    -------
    indices : ndarray of int
        Distinct and ascending; a row heavier than a stratum is drawn once.
    base : ndarray
        Mass of the strata each row was drawn for.
    """
    n_rows = len(rows.points)
    marks = (np.arange(n_drawn) + rng.random(n_drawn)) * (mass / n_drawn)
    if rows.weights is None:
        drawn = np.minimum(marks.astype(np.int64), n_rows - 1)
    else:
        drawn = np.empty(n_drawn, dtype=np.int64)
        n_found, passed = 0, 0.0
        # Cumulative masses of a block at a time: no array as long as the weights.
        for start in range(0, n_rows, BLOCK_ENTRIES):
            reached = passed + np.cumsum(rows.weights[start : start + BLOCK_ENTRIES])
            passed = reached[-1]
            n_passed = np.searchsorted(marks, passed)
            inside = marks[n_found:n_passed]
            drawn[n_found:n_passed] = start + np.searchsorted(reached, inside, "right")
            n_found = n_passed
        # Rounding of the cumulative sums may leave the last mark beyond all rows.
        drawn[n_found:] = drawn[n_found - 1]
    indices, counts = np.unique(drawn, return_counts=True)
    return indices, counts * (mass / n_drawn)


def moment_columns(points: np.ndarray, totals: Totals) -> np.ndarray:
    """Return a row of ones above the centred and scaled columns of the points."""
    columns = np.empty((points.shape[1] + 1, len(points)))
    columns[0] = 1.0
    np.subtract(points.T, (totals.sums / totals.mass)[:, None], out=columns[1:])
    spread = np.abs(columns[1:]).max(axis=1)
    varies = spread > ROUND_OFF * totals.peak
    columns[1:] /= np.where(varies, spread, np.inf)[:, None]
    return columns
