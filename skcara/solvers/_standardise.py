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
    shift = _centre(source, fit_intercept)
    return Coordinates(shift, _spread(source, shift), fit_intercept)


def centred(source: Source, fit_intercept: bool) -> Coordinates:
    """Columns of about zero mean, if possible."""
    shift = _centre(source, fit_intercept)
    return Coordinates(shift, np.ones_like(shift), fit_intercept)


def _centre(source, fit_intercept):
    """Mean of some rows, or zero where a shift is not possible."""
    facts = source.facts
    if fit_intercept and not facts.is_sparse:
        return facts.reference_row
    return np.zeros(facts.n_features)


def _spread(source, shift):
    """Weighted spread of the columns around ``shift`` on up to a few thousand rows."""
    seen = source.glance()
    rows, shares = seen.rows, seen.weights / seen.weights.sum()
    if sparse.issparse(rows):
        square = shares @ rows.power(2)
    else:
        square = np.zeros(len(shift))
        for part, deviations in centred_strips(rows, shift):
            square += shares[part] @ np.square(deviations, out=deviations)
    # A column that is constant on the sample gives no scale; what is left of it is the
    # rounding of a sum over the rows.
    spread = np.sqrt(square)
    spread[spread <= rows.shape[0] * _EPS * np.abs(shift)] = 1.0
    return spread
