r"""Squared loss with many columns: the Gram matrix of a sample as a metric.

The Gram matrix of all rows costs more than many passes. That of a sample takes its
place as the metric of Newton steps with exact gradients, and the exact changes of the
gradient from step to step correct it (:mod:`skcara.solvers.newton._newton`). Where some
column is carried by too few rows for any sample, the Gram matrix of all rows is summed
after all.
"""

from dataclasses import dataclass

import numpy as np

from skcara.passes import Draw, Glance, Take, evaluate_first
from skcara.solvers._quadratic import QuadraticModel, penalised_model
from skcara.solvers._rounds import Round
from skcara.solvers._sample_size import metric_rows
from skcara.solvers._strategy import Way
from skcara.solvers.newton._newton import iterate_newton
from skcara.solvers.squared._squared import (
    iterate_statistics,
    level,
    level_params,
)
from skcara.solvers.squared._statistics import is_conditioned, with_unit_diagonal

# Effective number of rows below which a column is not represented.
_MIN_EFFECTIVE_ROWS = 500
# The few rows of a glance tell so without a sample where they expect no more of it than
# this share of that number: a tenth of the time with dummy columns of rare levels.
_GLANCED_SHARE = 0.5
# Entries of dense rows that are taken at a time.
_TAKEN_ENTRIES = 2**18
# One of so many parts of a sample is searched for columns that few rows carry.
_CHECKED_PARTS = 8
_EPS = np.finfo(np.float64).eps
# Condition number up to which single precision, at half the price, is enough for a
# metric: the gradients that it is applied to are exact.
_MAX_SINGLE_CONDITION = 1e5


def iterate_on_sample(problem, params, rng):
    """Yield Newton steps whose metric is the Gram matrix of a sample.

    Parameters
    ----------
    problem : Problem
        With squared loss.
    params : ndarray of shape (n_params, 1)
        Starting point; zeros mean the solution of the sample.
    rng : numpy.random.RandomState

    Yields
    ------
    Request, Way or Round
    """
    if not problem.facts.is_sparse:
        n_glanced, is_hopeless = yield from _glance(problem)
        if is_hopeless:
            yield Way.STATISTICS
            yield from iterate_statistics(problem, params, reduced_rows=n_glanced)
            return
    sample = yield from _solve_sample(problem, rng)
    if not sample.is_representative:
        yield Way.STATISTICS
        yield from iterate_statistics(problem, params, reduced_rows=sample.n_rows)
        return
    start = params if params.any() else sample.params[:, None]
    problem, evaluation = yield from evaluate_first(problem, start)
    yield Round(evaluation, reduced_rows=sample.n_rows)
    yield from iterate_newton(problem, evaluation, model=sample.model)


@dataclass(frozen=True)
class _Sample:
    """What a sample of the rows says about all of them.

    Attributes
    ----------
    model : QuadraticModel
        With the Gram matrix of the sample, L2 included.
    params : ndarray of shape (n_params,)
        Its solution.
    n_rows : int
    is_representative : bool
        Whether enough of its rows carry each column.
    """

    model: QuadraticModel
    params: np.ndarray
    n_rows: int
    is_representative: bool


def _solve_sample(problem, rng):
    """Draw rows, sum their second moments and minimise."""
    indices, weights = yield Draw(metric_rows(problem), rng)
    weights = weights / weights.sum()
    penalty, start = problem.penalty, level_params(problem)
    for dtype in (np.float32, np.float64):
        sums = yield from _sum_sample(problem, indices, weights, dtype)
        if dtype is np.float32 and not np.isfinite(sums.gram).all():
            continue
        model = penalised_model(sums.gram.copy(), penalty)
        params = model.minimize(start, penalty.l2[:, 0] * start - sums.cross)
        gram, _ = with_unit_diagonal(sums.gram)
        if is_conditioned(gram, params, penalty, _MAX_SINGLE_CONDITION):
            break
    is_representative = sums.effective_rows.min() >= _MIN_EFFECTIVE_ROWS
    return _Sample(model, params, len(indices), is_representative)


@dataclass(frozen=True)
class _SampleSums:
    """Second moments of a sample.

    Attributes
    ----------
    gram : ndarray of shape (n_params, n_params)
    cross : ndarray of shape (n_params,)
        With the target minus its level.
    effective_rows : ndarray of shape (n_features,)
        Square of the sum of the squares of a centred column over the sum of their
        squares, estimated from a part of the sample.
    """

    gram: np.ndarray
    cross: np.ndarray
    effective_rows: np.ndarray


def _sum_sample(problem, indices, weights, dtype):
    """Sum over a sample, part by part, with products in the given precision."""
    n_params = problem.n_params
    gram, cross = np.zeros((n_params, n_params)), np.zeros(n_params)
    second, fourth = np.zeros(n_params), np.zeros(n_params)
    step = max(_TAKEN_ENTRIES // n_params, 1)
    for count, start in enumerate(range(0, len(indices), step)):
        part = slice(start, start + step)
        taken = yield Take(problem, indices[part], keep_sparse=False)
        rows, roots = taken.rows, np.sqrt(weights[part])
        rows *= roots[:, None]
        cross += rows.T @ ((taken.target - level(problem)) * roots)
        with np.errstate(over="ignore", invalid="ignore"):
            products = rows.astype(dtype, copy=False)
            gram += products.T @ products
        if count % _CHECKED_PARTS == 0:
            part_second, part_fourth = _even_moments(rows)
            second += part_second
            fourth += part_fourth
    effective_rows = _effective_rows(second, fourth) * min(_CHECKED_PARTS, count + 1)
    return _SampleSums(gram, cross, effective_rows[: problem.n_features])


def _glance(problem):
    """Number of rows seen, and whether they tell that no sample is representative."""
    # A function of its own, so that its copy of the rows is freed.
    seen = yield Glance()
    n_glanced, n_sampled = len(seen.target), metric_rows(problem)
    rows = seen.rows * np.sqrt(seen.weights)[:, None]
    expected = _effective_rows(*_even_moments(rows)) * (n_sampled / n_glanced)
    return n_glanced, expected.min() < _GLANCED_SHARE * _MIN_EFFECTIVE_ROWS


def _even_moments(rows):
    """Sums of the second and fourth powers of centred columns; overwrites ``rows``."""
    # A shift must not pass for a value that all rows carry, nor its rounding.
    mean = rows.mean(axis=0)
    rows -= mean
    rows[np.abs(rows) <= len(rows) * _EPS * np.abs(mean)] = 0.0
    np.square(rows, out=rows)
    return rows.sum(axis=0), np.einsum("ij,ij->j", rows, rows)


def _effective_rows(second, fourth):
    """Effective numbers of rows behind the squares of columns."""
    effective_rows = np.zeros_like(second)
    np.divide(second**2, fourth, out=effective_rows, where=fourth > 0)
    return effective_rows
