r"""Early stopping by calibration: a sample of the rows, reweighted until it is exact.

Where the support may be several times larger than the number of moments, nothing has to
be eliminated. Draw ``target`` rows, each standing for the same share of the mass
(``base``), and look for the masses closest to that which match mass and mean:

.. math:: \min_v \sum_i (v_i - b_i)^2 / b_i \quad\text{subject to}\quad C v = t,

where the columns of :math:`C` (``columns``) hold a one and the centred, scaled
point, and :math:`t = (W, 0, \dots, 0)`. Lagrange's condition gives

.. math:: v = b \odot (1 + C^\top \lambda), \qquad
          \big(C \,\mathrm{diag}(b)\, C^\top\big)\, \lambda = t - C b,

one small linear system. The sample is unbiased, so :math:`t - Cb` is small and with
``target`` rows for ``q`` moments the factors :math:`1 + C^\top\lambda` spread by about
:math:`\sqrt{q / \mathrm{target}}`: the masses stay balanced, and whatever else is
averaged over the rows keeps nearly its value. Survey statistics calls this
calibration.

Rows whose mass would not be positive are dropped and the system is solved again; if a
sample cannot be calibrated (a column that it misses altogether, heavy tails), another
one is drawn a few times before elimination takes over.

Drawing
-------
The mass is cut into ``target`` equal strata in the order of the rows, and each stratum
chooses a point of the mass axis at random; the row found there is drawn. Rows are drawn
in proportion to their mass, those without mass never, and any trend along the rows is
represented evenly.

References
----------
Deville, J.-C. and Särndal, C.-E. (1992). Calibration estimators in survey sampling.
Journal of the American Statistical Association 87(418).
doi:10.1080/01621459.1992.10475217
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from skcara.recombination._coordinates import EPS, ROUND_OFF
from skcara.recombination._moments import BLOCK_ENTRIES, Rows
from skcara.recombination._result import MethodFailed
from skcara.recombination._validation import RandomSource
from skcara.recombination._verification import Totals

# Below this many rows per moment many masses would come out negative.
ROWS_PER_MOMENT = 3
MAX_SAMPLES = 3
MAX_SOLVES = 12


def can_calibrate(n_rows: int, n_columns: int, target: int) -> bool:
    """Whether the target leaves room for a sample."""
    return ROWS_PER_MOMENT * (n_columns + 1) <= target < n_rows


def reduce_by_calibration(
    rows: Rows, totals: Totals, target: int, random: RandomSource
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and masses of at most `target` rows.

    Raises
    ------
    MethodFailed
        If no sample could be calibrated.
    """
    for _ in range(MAX_SAMPLES):
        indices, base = draw_by_mass(rows, totals.mass, target, random.generator)
        columns = moment_columns(rows.read(indices), totals)
        calibrated = calibrate(columns, base, totals.mass)
        if calibrated is not None:
            kept, masses = calibrated
            return indices[kept], masses
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


def calibrate(
    columns: np.ndarray, base: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return positions and masses that match the moments, or None.

    Parameters
    ----------
    columns : ndarray of shape (n_moments, n_drawn)
    base : ndarray of shape (n_drawn,)
    mass : float
        First moment to match; the others are zero.
    """
    n_moments = len(columns)
    kept = np.arange(len(base))
    for _ in range(MAX_SOLVES):
        masses = base.copy()
        solve = pseudo_inverse((columns * base) @ columns.T)
        # The second solve removes the rounding of the first one.
        for _ in range(2):
            missing = -(columns @ masses)
            missing[0] += mass
            masses += base * ((solve @ missing) @ columns)
        is_positive = masses > 0.0
        if is_positive.all():
            # Errors left now are of directions that the sample does not have.
            missing = columns @ masses
            missing[0] -= mass
            is_exact = np.abs(missing).max() <= 1e-12 * mass
            return (kept, masses) if is_exact else None
        columns, base = columns[:, is_positive], base[is_positive]
        kept = kept[is_positive]
        if len(kept) < n_moments:
            return None
    return None


def pseudo_inverse(gram: np.ndarray) -> np.ndarray:
    """Invert a symmetric matrix on the directions in which it is not round-off."""
    values, vectors = eigh(gram, check_finite=False)
    is_kept = values > 8 * EPS * len(gram) * values[-1]
    vectors = vectors[:, is_kept]
    return (vectors / values[is_kept]) @ vectors.T
