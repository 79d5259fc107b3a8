r"""Measure the accuracy of a reduced measure, and improve it where rounding shows.

Accuracy is scale-free and taken column by column:

.. math:: \max_j \Big|\sum_{i \in I} v_i p_{ij} - \sum_i w_i p_{ij}\Big|
          \Big/ \big(W \max_i |p_{ij}|\big), \qquad
          \Big|\sum_{i \in I} v_i / W - 1\Big| .

Absolute tolerances would be vacuous for small data and unreachable for large data.
"""

from __future__ import annotations

import numpy as np

from skcara.recombination._coordinates import ROUND_OFF
from skcara.recombination._moments import Totals, column_sums

# What callers may rely on. The mass is a plain sum; columns may lose two digits more,
# because the weights solve a system with the columns.
MAX_RESIDUAL = 1e-10
MAX_MASS_ERROR = 1e-12

# Accurate to the rounding of the sums: nothing to improve.
EXACT = ROUND_OFF


def moment_errors(points, weights, totals: Totals) -> tuple[float, float]:
    """Return the largest column error and the error of the mass, both relative."""
    mass_error = abs(weights.sum() / totals.mass - 1.0)
    if len(totals.sums) == 0:
        return 0.0, mass_error
    difference = np.abs(column_sums(points, weights) - totals.sums)
    # A column of zeros has error zero; any positive divisor says so.
    scale = totals.mass * np.where(totals.peak > 0.0, totals.peak, 1.0)
    return float((difference / scale).max()), mass_error


def polished(points, weights, totals: Totals) -> np.ndarray:
    r"""Return the masses after one correction towards the exact moments.

    The correction :math:`d` of least norm solves, in centred and scaled columns,
    :math:`\sum_i (v_i + d_i) = W` and :math:`\sum_i (v_i + d_i) z_i = 0`. It is refused
    if it makes a mass vanish or the errors larger.
    """
    centred = points - totals.sums / totals.mass
    spread = np.abs(centred).max(axis=0)
    varies = spread > ROUND_OFF * totals.peak
    columns = np.vstack(
        [np.ones(len(weights)), (centred[:, varies] / spread[varies]).T]
    )
    missing = -(columns @ weights)
    missing[0] += totals.mass
    corrected = weights + np.linalg.lstsq(columns, missing, rcond=ROUND_OFF)[0]
    if not corrected.min() > 0.0:
        return weights
    before = max(moment_errors(points, weights, totals))
    after = max(moment_errors(points, corrected, totals))
    return corrected if after < before else weights
