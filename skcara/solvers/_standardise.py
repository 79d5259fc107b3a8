"""Coordinates in which a solver works.

Any shift and positive scale of the columns leaves the objective unchanged (see
:mod:`skcara.data._coordinates`), so they need not be exact moments: a glance at the
rows is enough to make the columns comparable.
"""

import numpy as np

from skcara.data import Coordinates, Source


def standardised(source: Source, fit_intercept: bool) -> Coordinates:
    """Columns of about unit variance, centred if possible."""
    facts, shift = source.facts, _centre(source, fit_intercept)
    square = facts.reference_square
    if not (fit_intercept or facts.is_sparse):
        square = square + facts.reference_row**2
    scale = np.sqrt(square)
    # A column that is constant on the rows that were seen gives no scale.
    scale[scale == 0] = 1.0
    return Coordinates(shift, scale, fit_intercept)


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
