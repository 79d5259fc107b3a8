"""Coordinates in which a solver works.

Any shift and positive scale of the columns leaves the objective unchanged (see
:mod:`skcara.data._coordinates`), so they need not be exact moments: a glance at the
rows is enough to make the columns comparable.
"""

import numpy as np
from scipy import sparse

from skcara.data import Coordinates, Source, centred_strips

_EPS = np.finfo(np.float64).eps


def standardised(source: Source, fit_intercept: bool) -> Coordinates:
    """Columns of about unit variance, centred if possible."""
    mean, spread = _glance_moments(source, fit_intercept)
    if not _can_shift(source, fit_intercept):
        mean = np.zeros_like(mean)
    return Coordinates(mean, spread, fit_intercept)


def centred(source: Source, fit_intercept: bool) -> Coordinates:
    """Columns of about zero mean, if possible."""
    if not _can_shift(source, fit_intercept):
        return Coordinates.of_user(source.facts.n_features, fit_intercept)
    mean, _ = _glance_moments(source, fit_intercept)
    return Coordinates(mean, np.ones_like(mean), fit_intercept)


def _can_shift(source, fit_intercept):
    return fit_intercept and not source.facts.is_sparse


def _glance_moments(source, fit_intercept):
    """Weighted mean and spread of the columns on up to a few thousand rows."""
    seen = source.glance()
    rows, weights = seen.rows, seen.weights
    shares = weights / weights.sum()
    mean = shares @ rows
    if sparse.issparse(rows):
        square = shares @ rows.power(2)
    else:
        shift = mean if _can_shift(source, fit_intercept) else 0.0
        square = np.zeros_like(mean)
        for part, deviations in centred_strips(rows, shift):
            square += shares[part] @ np.square(deviations, out=deviations)
    # A column that is constant on the sample gives no scale; what is left of it is the
    # rounding of a sum over the rows. Its value, exactly, makes it a column of zeros.
    spread = np.sqrt(square)
    informative = spread > rows.shape[0] * _EPS * np.abs(mean)
    if not sparse.issparse(rows):
        mean = np.where(informative, mean, rows[0])
    return mean, np.where(informative, spread, 1.0)
