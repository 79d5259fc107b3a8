"""Coordinates in which a solver works.

Any shift and positive scale of the columns leaves the objective unchanged (see
:mod:`skcara.data._design`), so they need not be exact moments: a sample of the rows
is enough to make the columns comparable.
"""

import numpy as np

from skcara.objective import Problem

_SAMPLE_ROWS = 4096
_EPS = np.finfo(np.float64).eps


def standardised(problem: Problem) -> Problem:
    """Return the problem with columns of about unit variance, centred if possible."""
    mean, spread = _sample_moments(problem)
    shift = mean if _can_shift(problem) else None
    return problem.with_design(problem.design.standardized(shift, spread))


def centred(problem: Problem) -> Problem:
    """Return the problem with columns of about zero mean, if possible."""
    if not _can_shift(problem):
        return problem
    mean, _ = _sample_moments(problem)
    return problem.with_design(problem.design.standardized(mean))


def _can_shift(problem):
    return problem.design.fit_intercept and not problem.design.is_sparse


def _sample_moments(problem):
    """Weighted mean and spread of the columns on up to a few thousand rows.

    All rows are used when they are few: the coordinates, and with them the path of the
    solver, are then the same whether a row is repeated or has a larger weight.
    """
    design = problem.design
    stride = -(-design.n_rows // _SAMPLE_ROWS)
    rows = design.X[::stride].astype(np.float64, copy=False)
    weights = problem.sample_weight
    weights = None if weights is None else weights[::stride]
    if weights is None or not weights.any():
        weights = np.ones(rows.shape[0])
    shares = weights / weights.sum()
    mean = shares @ rows
    if design.is_sparse:
        square = shares @ rows.power(2)
        largest = abs(rows).max(axis=0).toarray().ravel()
    else:
        square = shares @ np.square(rows - mean if _can_shift(problem) else rows)
        largest = np.abs(rows).max(axis=0)
    # A column that is constant on the sample gives no scale; what is left of it is the
    # rounding of a sum over the rows. Its value, exactly, makes it a column of zeros.
    spread = np.sqrt(square)
    informative = spread > rows.shape[0] * _EPS * largest
    if not design.is_sparse:
        mean = np.where(informative, mean, rows[0])
    return mean, np.where(informative, spread, 1.0)
