r"""Squared loss: one pass for the sufficient statistics, then any penalty is free.

Three ways to the solution, by shape:

* Few columns: the Gram matrix of all rows, from which
  :class:`~skcara.solvers._statistics.SquaredStatistics` follow.
* Many columns: the Gram matrix of all rows costs more than many passes. That of a
  sample takes its place as the metric of Newton steps with exact gradients, and the
  exact changes of the gradient from step to step correct it
  (:mod:`skcara.solvers._newton`).
* Many columns, some of which are carried by too few rows for any sample: the Gram
  matrix of all rows again.

Precision
---------
On large data the Gram matrix is summed in single precision, at half the price. What
that costs in accuracy is small because the statistics are taken around an anchor, the
solution of a sample: with the error ``E`` of the Gram matrix and the step ``d`` from
the anchor, the gradient is wrong by ``E d`` only, and gradient and loss *at* the anchor
are summed in double precision by the same pass. The certificate of the solution is
computed with the worst that ``E`` may do; if that is not good enough for the tolerance,
exact passes follow, each of which multiplies the error by that of the Gram matrix.

The Gram matrix squares the condition number of the design, and for nearly dependent
columns nothing is left of their difference. Where that matters a second pass sums the
Gram matrix of the *preconditioned* rows :math:`x_i^\top R^{-1}`, with the ridged
Cholesky factor ``R`` of the first one. Their Gram matrix is close to the identity, its
square root ``U`` is accurate, and :math:`T = U R` is as good as a QR factorisation
of all rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from skcara.solvers._gram import (
    GramSums,
    column_moments,
    gram_of_all_rows,
    gram_of_preconditioned_rows,
    gram_of_sample,
    level,
)
from skcara.solvers._newton import iterate_newton
from skcara.solvers._quadratic import QuadraticModel, ridged_cholesky
from skcara.solvers._rounds import Round
from skcara.solvers._sampling import draw_rows
from skcara.solvers._statistics import (
    SquaredStatistics,
    cholesky,
    from_cholesky,
    from_eigenvectors,
    least_norm,
)

# Up to this many columns the Gram matrix of all rows costs less than the passes it
# replaces; for sparse data the entries per row count as well.
_MAX_DENSE_COLUMNS = 80
_MAX_SPARSE_COLUMNS, _MAX_SPARSE_ENTRIES = 1500, 32
# Below this many entries of X, or columns, double precision costs hardly more; squares
# of columns on such scales are far from the limits of single precision.
_MIN_SINGLE_ENTRIES, _MIN_SINGLE_COLUMNS = 2**23, 16
_MIN_SINGLE_SCALE, _MAX_SINGLE_SCALE = 1e-6, 1e6
# Size of a sample that stands in for all rows: this share of them within bounds per
# column, the upper one for a metric or just for an anchor; and the effective number of
# rows below which a column is not represented.
_SAMPLE_SHARE = 1 / 20
_MIN_ROWS_PER_COLUMN, _METRIC_ROWS_PER_COLUMN, _ANCHOR_ROWS_PER_COLUMN = 64, 1000, 500
_MIN_EFFECTIVE_ROWS = 500
# Norm of the error of a Gram matrix of unit diagonal, in units of its precision: below
# 0.2 for Gaussian, up to 15 for 100 lognormal columns.
_ROUNDINGS = 32
# Condition number of such a matrix from which it is not trusted, and relative error of
# the objective that its rounding may cause.
_MAX_CONDITION = {np.float64: 1e8, np.float32: 1e5}
_MAX_ROUNDING = {np.float64: 1e-11, np.float32: 3e-8}


def iterate_squared(problem, params, rng, *, is_tall):
    """Yield rounds that minimise a squared loss.

    Parameters
    ----------
    problem : Problem
        With squared loss.
    params : ndarray of shape (n_params, 1)
        Starting point; zeros mean that the solver finds its own.
    rng : numpy.random.RandomState
    is_tall : bool
        Whether there are enough rows for a sample of them to be useful.

    Yields
    ------
    Round
    """
    is_cheap = _has_cheap_gram(problem)
    if not is_tall or (is_cheap and not _profits_from_single(problem)):
        yield from iterate_statistics(problem, params)
        return
    rows_per_column = _ANCHOR_ROWS_PER_COLUMN if is_cheap else _METRIC_ROWS_PER_COLUMN
    sample = solve_sample(problem, rng, rows_per_column)
    if not is_cheap and sample.is_representative:
        yield from iterate_on_sample(problem, params, sample)
    elif sample.is_conditioned and _profits_from_single(problem):
        yield from iterate_statistics(problem, params, sample.params, sample.share)
    else:
        yield from iterate_statistics(problem, params, passes=sample.share)


def _has_cheap_gram(problem):
    """Whether the Gram matrix of all rows costs less than a few passes."""
    design = problem.design
    if design.n_features <= _MAX_DENSE_COLUMNS:
        return True
    if not design.is_sparse or design.n_features > _MAX_SPARSE_COLUMNS:
        return False
    return design.X.nnz / design.n_rows <= _MAX_SPARSE_ENTRIES


def _profits_from_single(problem):
    design = problem.design
    is_large = design.n_rows * design.n_features >= _MIN_SINGLE_ENTRIES
    is_wide = design.n_features >= _MIN_SINGLE_COLUMNS
    if design.is_sparse or not (is_large and is_wide):
        return False
    scale = design.scale
    return scale.min() >= _MIN_SINGLE_SCALE and scale.max() <= _MAX_SINGLE_SCALE


# ---- a sample ------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """What a sample of the rows says about all of them.

    Attributes
    ----------
    model : QuadraticModel
        With the Gram matrix of the sample, L2 included.
    params : ndarray of shape (n_params,)
        Its solution.
    share : float
        Of all rows.
    is_conditioned : bool
        Whether single precision is enough for its Gram matrix.
    is_representative : bool
        Whether enough of its rows carry each column.
    """

    model: QuadraticModel
    params: np.ndarray
    share: float
    is_conditioned: bool
    is_representative: bool


def solve_sample(problem, rng, rows_per_column=_METRIC_ROWS_PER_COLUMN) -> Sample:
    """Draw rows, at most so many per column, sum their statistics and minimise."""
    size = np.clip(
        int(_SAMPLE_SHARE * problem.n_rows),
        _MIN_ROWS_PER_COLUMN * problem.n_params,
        rows_per_column * problem.n_params,
    )
    indices, sample_weights = draw_rows(
        size, problem.n_rows, rng, weights=problem.sample_weight
    )
    sample_weights /= sample_weights.sum()
    penalty, start = problem.penalty, level(problem)
    # Single precision is enough for a metric, unless the columns are nearly dependent.
    for dtype in (np.float32, np.float64):
        sums, effective_rows = gram_of_sample(problem, indices, sample_weights, dtype)
        if dtype is np.float32 and not np.isfinite(sums.gram).all():
            continue
        matrix = sums.gram + np.diag(penalty.l2[:, 0])
        model = QuadraticModel(matrix, penalty.l1[:, 0], penalty.positive[:, 0])
        params = model.minimize(start, penalty.l2[:, 0] * start - sums.cross)
        gram, _ = _with_unit_diagonal(sums.gram)
        is_conditioned = _is_conditioned(gram, params, penalty, np.float32)
        if is_conditioned:
            break
    return Sample(
        model,
        params,
        len(indices) / problem.n_rows,
        is_conditioned,
        effective_rows.min() >= _MIN_EFFECTIVE_ROWS,
    )


def _is_conditioned(gram, params, penalty, dtype):
    """Whether columns that are not held at zero are independent in this precision."""
    is_held = (penalty.l1[:, 0] > 0) | penalty.positive[:, 0]
    free = np.flatnonzero((params != 0) | ~is_held)
    if not free.size:
        return True
    return cholesky(gram[free[:, None], free])[1] <= _MAX_CONDITION[dtype]


def iterate_on_sample(problem, params, sample):
    """Yield Newton steps whose metric is the Gram matrix of a sample.

    Parameters
    ----------
    problem : Problem
        With squared loss.
    params : ndarray of shape (n_params, 1)
        Starting point; zeros mean the solution of the sample.
    sample : Sample

    Yields
    ------
    Round
    """
    penalty = problem.penalty
    # The gap of a penalised problem, unlike a correlation, needs means only.
    problem.skips_variance = bool(penalty.l1.any() or penalty.l2.any())
    start = params if params.any() else sample.params[:, None]
    evaluation, passes = problem.evaluate(start), 1.0 + sample.share
    yield Round(evaluation, passes)
    yield from iterate_newton(problem, evaluation, model=sample.model, passes=passes)


# ---- all rows ------------------------------------------------------------------------


def iterate_statistics(problem, params, anchor=None, passes=0.0):
    """Yield the solution of a squared-loss problem from its statistics.

    Parameters
    ----------
    problem : Problem
        With squared loss.
    params : ndarray of shape (n_params, 1)
        Where the solver of the small problem starts.
    anchor : ndarray of shape (n_params,), optional
        A point near the solution, around which single precision is enough.
    passes : float
        Passes made before.

    Yields
    ------
    Round
    """
    collected = None
    if anchor is not None:
        collected, passes = _collect_single(problem, anchor), passes + 1.0
    if collected is None:
        collected = _collect_double(problem, params[:, 0])
        passes += 2.0 if collected.is_refined else 1.0
    params, best = collected.params, np.inf
    if collected.is_accurate:
        evaluation = collected.certify(problem)
        yield Round(evaluation, passes, inner_steps=1)
    while True:
        evaluation, passes = problem.evaluate(params[:, None]), passes + 1
        yield Round(evaluation, passes, inner_steps=1)
        if evaluation.stop_value >= 0.5 * best:
            return
        best = evaluation.stop_value
        gradient = evaluation.smooth_gradient[:, 0]
        params = collected.statistics.refine(problem.penalty, params, gradient)
        if collected.is_degenerate:
            params = least_norm(problem.design, collected.statistics.factor, params)


class _Collected:
    """Statistics of all rows, their minimiser, and what is known about its accuracy.

    Parameters
    ----------
    problem : Problem
    statistics : SquaredStatistics
    start : ndarray of shape (n_params,)
        Where the minimisation starts.
    scale : ndarray of shape (n_params,)
        Root mean square of the columns.
    dtype : numpy dtype
        Precision of the Gram matrix.
    is_conditioned : bool
        Whether the Gram matrix is far from singular.
    is_refined : bool
        Whether the factor is as accurate as the rows.
    """

    def __init__(
        self,
        problem,
        statistics: SquaredStatistics,
        start,
        scale,
        *,
        dtype=np.float64,
        is_conditioned=True,
        is_refined=False,
    ):
        penalty = problem.penalty
        is_free = penalty.is_smooth and not penalty.l2.any()
        self.statistics = statistics
        self.is_refined = is_refined
        self.is_degenerate = is_free and not is_conditioned
        self.params = statistics.minimize(penalty, start)
        if self.is_degenerate:
            self.params = least_norm(problem.design, statistics.factor, self.params)
        self._scale = scale
        # A Gram matrix (of unit diagonal) with an error of norm eps changes the loss by
        # up to eps * size**2; such a factor only by eps * size * sqrt(loss).
        self._loss = statistics.loss(self.params)
        self._size = np.linalg.norm(scale * (self.params - statistics.anchor))
        slope = np.sqrt(self._loss) if is_refined else self._size
        self._error = _ROUNDINGS * float(np.finfo(dtype).eps) * slope
        limit = _MAX_ROUNDING[dtype] * self._loss
        self.is_accurate = self._error * self._size <= limit

    def certify(self, problem):
        """Evaluate the minimiser without a pass; certificates assume the worst."""
        gradient = self.statistics.gradient(self.params)
        gradient += np.copysign(self._error * self._scale, gradient)
        error = self._error * self._size
        worst = problem.certify(
            self.params[:, None], self._loss + error, gradient[:, None]
        )
        return replace(worst, loss=self._loss, objective=worst.objective - error)


def _collect_single(problem, anchor) -> _Collected | None:
    """Sum the statistics around the anchor; None if they need double precision."""
    sums = gram_of_all_rows(problem, anchor, np.float32)
    if not np.isfinite(sums.gram).all():
        return None
    problem.column_moments = column_moments(problem, sums.gram)
    gram, scale = _with_unit_diagonal(sums.gram)
    factor, condition = cholesky(gram)
    if condition <= _MAX_CONDITION[np.float32]:
        statistics = from_cholesky(anchor, factor * scale, sums)
    elif problem.penalty.is_smooth:
        return None
    else:
        scaled = GramSums(gram, sums.cross / scale, sums.square)
        statistics = from_eigenvectors(anchor, np.diag(scale), scaled)
    collected = _Collected(problem, statistics, anchor, scale, dtype=np.float32)
    if not _is_conditioned(gram, collected.params, problem.penalty, np.float32):
        return None
    return collected


def _collect_double(problem, start) -> _Collected:
    """Sum the statistics, a second time where the first pass is not accurate."""
    anchor = level(problem)
    sums = gram_of_all_rows(problem, anchor)
    problem.column_moments = column_moments(problem, sums.gram)
    gram, scale = _with_unit_diagonal(sums.gram)
    factor, condition = cholesky(gram)
    if condition <= _MAX_CONDITION[np.float64]:
        statistics = from_cholesky(anchor, factor * scale, sums)
        if not start.any() and problem.n_params <= _MAX_DENSE_COLUMNS:
            start = statistics.guess(problem.penalty)
        return _Collected(problem, statistics, start, scale)
    scaled = GramSums(gram, sums.cross / scale, sums.square)
    statistics = from_eigenvectors(anchor, np.diag(scale), scaled)
    collected = _Collected(problem, statistics, start, scale, is_conditioned=False)
    penalty = problem.penalty
    if collected.is_accurate and (penalty.l1.any() or penalty.l2.any()):
        return collected
    factor = ridged_cholesky(gram).T * scale
    sums = gram_of_preconditioned_rows(problem, factor, anchor)
    statistics = from_eigenvectors(anchor, factor, sums)
    return _Collected(
        problem,
        statistics,
        collected.params,
        scale,
        is_conditioned=False,
        is_refined=True,
    )


def _with_unit_diagonal(gram):
    scale = np.sqrt(np.diagonal(gram))
    scale[scale == 0] = 1.0
    return gram / scale / scale[:, None], scale
