r"""Squared loss: one pass for the sufficient statistics, then any penalty is free.

With :math:`\mu` the weights of the rows, the mean loss is a function of a small matrix
and vector alone,

.. math::

    \tfrac12 \sum_i \mu_i (x_i^\top p - y_i)^2 = \tfrac12 \|T p - t\|^2 + \tfrac12\rho ,
    \qquad T^\top T = \sum_i \mu_i x_i x_i^\top .

This is the limit case of a reduced measure that matches gradient and curvature: ``T``
and ``t`` play the role of at most ``n_params`` rows, exact for every ``p``.

The Gram matrix squares the condition number of the design, and for nearly dependent
columns nothing is left of their difference. Where that matters a second pass sums the
Gram matrix of the *preconditioned* rows :math:`x_i^\top R^{-1}`, with the ridged
Cholesky factor ``R`` of the first one. Their Gram matrix is close to the identity, its
square root ``U`` is accurate, and :math:`T = U R` is as good as a QR factorisation
of all rows.

With many columns the Gram matrix of all rows costs more than many passes. Then that of
a sample takes its place as the metric of Newton steps with exact gradients, and the
exact changes of the gradient from step to step correct it
(:mod:`skcara.solvers._newton`).
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from skcara.solvers._gram import (
    GramSums,
    column_moments,
    gram_of_all_rows,
    gram_of_preconditioned_rows,
    gram_of_sample,
    target_shift,
)
from skcara.solvers._newton import iterate_newton
from skcara.solvers._quadratic import QuadraticModel, ridged_cholesky
from skcara.solvers._rounds import Round
from skcara.solvers._sampling import draw_rows

# Up to this many columns the Gram matrix of all rows costs less than the passes it
# replaces; for sparse data the entries per row count as well.
_MAX_DENSE_COLUMNS = 80
_MAX_SPARSE_COLUMNS, _MAX_SPARSE_ENTRIES = 1500, 32
# Size of a sample that stands in for all rows: this share of them within bounds per
# column; and the effective number of rows below which a column is not represented.
_SAMPLE_SHARE = 1 / 20
_MIN_ROWS_PER_COLUMN, _MAX_ROWS_PER_COLUMN = 64, 1000
_MIN_EFFECTIVE_ROWS = 500
# Largest number of columns whose Gram matrix is formed at all.
_MAX_COLUMNS = 4000
# Condition number of the Gram matrix (unit diagonal) from which it is not trusted.
_MAX_CONDITION = 1e8
_MAX_SINGLE_CONDITION = 1e5
# Relative error of the objective that rounding of the Gram matrix may cause.
_MAX_ROUNDING = 1e-11
_EPS = np.finfo(np.float64).eps


def has_cheap_gram(problem) -> bool:
    """Whether the Gram matrix of all rows costs less than a few passes."""
    design = problem.design
    if design.is_sparse:
        entries = design.X.nnz / design.n_rows
        is_sparse_enough = entries <= _MAX_SPARSE_ENTRIES
        return is_sparse_enough and design.n_features <= _MAX_SPARSE_COLUMNS
    return design.n_features <= _MAX_DENSE_COLUMNS


@dataclass(frozen=True)
class SquaredStatistics:
    """The mean squared loss as a function of a small factor.

    Attributes
    ----------
    factor : ndarray of shape (rank, n_params)
        ``T``.
    response : ndarray of shape (rank,)
        ``t``.
    rest : float
        Mean square of the target that no ``params`` can explain.
    """

    factor: np.ndarray
    response: np.ndarray
    rest: float

    def loss(self, params):
        """Mean loss at flat ``params``."""
        misfit = self.factor @ params - self.response
        return 0.5 * float(misfit @ misfit + self.rest)

    def gradient(self, params):
        """Gradient of the mean loss."""
        return self.factor.T @ (self.factor @ params - self.response)

    def minimize(self, penalty, start):
        """Minimise loss plus penalty, without normal equations where possible."""
        l2 = penalty.l2[:, 0]
        if not penalty.is_smooth:
            return self.refine(penalty, start, self.gradient(start) + l2 * start)
        rows = self._penalised_rows(l2)
        response = np.zeros(len(rows))
        response[: len(self.response)] = self.response
        return _scaled_lstsq(rows, response)

    def refine(self, penalty, params, smooth_gradient):
        """Newton step from ``params`` with a gradient that may be more accurate."""
        l1, l2, positive = penalty.l1[:, 0], penalty.l2[:, 0], penalty.positive[:, 0]
        if penalty.is_smooth:
            rows = self._penalised_rows(l2)
            dual = np.linalg.lstsq(rows.T, smooth_gradient, rcond=None)[0]
            return params - _scaled_lstsq(rows, dual)
        matrix = self.factor.T @ self.factor
        matrix.flat[:: len(matrix) + 1] += l2
        return QuadraticModel(matrix, l1, positive).minimize(params, smooth_gradient)

    def _penalised_rows(self, l2):
        """Return the factor, and the L2 penalty as extra rows."""
        if not l2.any():
            return self.factor
        return np.vstack([self.factor, np.diag(np.sqrt(l2))])


def _scaled_lstsq(rows, response):
    """Least squares of smallest norm after scaling the columns to one."""
    norms = np.linalg.norm(rows, axis=0)
    # What is left of a constant column is rounding; it must not be scaled up.
    is_alive = norms > len(norms) * _EPS * norms.max()
    norms, cutoff = norms[is_alive], len(norms) * _EPS
    solution = np.zeros(rows.shape[1])
    scaled, *_ = linalg.lstsq(rows[:, is_alive] / norms, response, cond=cutoff)
    solution[is_alive] = scaled / norms
    return solution


def _least_norm(design, factor, solution):
    """Among all minimisers, the one with the smallest coefficients of the user.

    The intercept is free, as everywhere: the answer must not depend on the origin of
    the targets.
    """
    norms = np.linalg.norm(factor, axis=0)
    norms[norms == 0] = 1.0
    null_space = linalg.null_space(factor / norms, rcond=len(norms) * _EPS)
    null_space /= norms[:, None]
    scale = design.scale
    coef = solution[: design.n_features] / scale
    directions = null_space[: design.n_features] / scale[:, None]
    shares, *_ = linalg.lstsq(directions, -coef)
    return solution + null_space @ shares


def iterate_statistics(problem, params):
    """Yield the solution of a squared-loss problem from its statistics.

    Parameters
    ----------
    problem : Problem
        With squared loss.
    params : ndarray of shape (n_params, 1)
        Where the solver of the small problem starts.

    Yields
    ------
    Round
    """
    collected = _collect(problem, params)
    statistics, passes = collected.statistics, collected.passes
    solution = collected.solution
    offset = _target_offset(problem)
    best = np.inf
    is_free = problem.penalty.is_smooth and not problem.penalty.l2.any()
    while True:
        if is_free and not collected.is_conditioned:
            solution = _least_norm(problem.design, statistics.factor, solution)
        params, loss = (solution + offset)[:, None], statistics.loss(solution)
        if collected.rounding(solution, loss) <= _MAX_ROUNDING:
            gradient = statistics.gradient(solution)[:, None]
            evaluation = problem.certify(params, loss, gradient)
        else:
            evaluation, passes = problem.evaluate(params), passes + 1
        yield Round(evaluation, passes, inner_steps=1)
        if evaluation.stop_value >= 0.5 * best:
            return
        best = evaluation.stop_value
        gradient = evaluation.smooth_gradient[:, 0]
        solution = statistics.refine(problem.penalty, solution, gradient)


@dataclass(frozen=True)
class _Collected:
    """Statistics of all rows, with what is known about their accuracy."""

    statistics: SquaredStatistics
    solution: np.ndarray
    scale: np.ndarray
    is_conditioned: bool
    passes: float

    def rounding(self, solution, loss):
        """Relative error of the loss that rounding of the statistics may cause."""
        size = self.scale @ np.abs(solution)
        return _relative_rounding(size, loss, is_refined=self.passes > 1)


def _collect(problem, params) -> _Collected:
    """Sum the statistics, a second time where the first pass is not accurate."""
    sums = gram_of_all_rows(problem)
    problem.column_moments = column_moments(problem, sums.gram)
    scale = np.sqrt(np.diagonal(sums.gram))
    scale[scale == 0] = 1.0
    scaled = GramSums(
        sums.gram / scale / scale[:, None], sums.cross / scale, sums.square
    )
    factor, condition = _cholesky(scaled.gram)
    is_conditioned = condition <= _MAX_CONDITION
    if is_conditioned:
        statistics = _from_cholesky(factor * scale, sums.cross, sums.square)
    else:
        statistics = _from_eigenvectors(scaled, np.diag(scale))
    start = params[:, 0] - _target_offset(problem)
    solution = statistics.minimize(problem.penalty, start)
    collected = _Collected(statistics, solution, scale, is_conditioned, 1.0)
    is_accurate = collected.rounding(solution, statistics.loss(solution)) <= (
        _MAX_ROUNDING
    )
    is_penalised = problem.penalty.l1.any() or problem.penalty.l2.any()
    if is_conditioned or (is_accurate and is_penalised):
        return collected
    factor = ridged_cholesky(scaled.gram).T * scale
    sums = gram_of_preconditioned_rows(problem, factor)
    statistics = _from_eigenvectors(sums, factor)
    solution = statistics.minimize(problem.penalty, solution)
    return _Collected(statistics, solution, scale, is_conditioned, 2.0)


def _target_offset(problem):
    """Params that predict the shift of the target."""
    offset = np.zeros(problem.n_params)
    offset[-1] = target_shift(problem)
    return offset


def iterate_sampled_statistics(problem, params, rng):
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
    Round
    """
    size = np.clip(
        int(_SAMPLE_SHARE * problem.n_rows),
        _MIN_ROWS_PER_COLUMN * problem.n_params,
        _MAX_ROWS_PER_COLUMN * problem.n_params,
    )
    indices, sample_weights = draw_rows(
        size, problem.n_rows, rng, weights=problem.sample_weight
    )
    sample_weights /= sample_weights.sum()
    # Single precision is enough for a metric, unless the columns are nearly dependent.
    sample = problem, indices, sample_weights
    sums, effective_rows = gram_of_sample(*sample, dtype=np.float32)
    if _cholesky(sums.gram)[1] > _MAX_SINGLE_CONDITION:
        sums, effective_rows = gram_of_sample(*sample)
    if effective_rows.min() < _MIN_EFFECTIVE_ROWS:
        # A column that few rows carry is not represented by any sample.
        yield from iterate_statistics(problem, params)
        return
    penalty = problem.penalty
    # The gap of a penalised problem, unlike a correlation, needs means only.
    problem.skips_variance = bool(penalty.l1.any() or penalty.l2.any())
    matrix = sums.gram + np.diag(penalty.l2[:, 0])
    model = QuadraticModel(matrix, penalty.l1[:, 0], penalty.positive[:, 0])
    if not params.any():
        start = np.zeros(problem.n_params)
        params = model.minimize(start, -sums.cross)[:, None]
        if problem.design.fit_intercept:
            params[-1] += target_shift(problem)
    evaluation = problem.evaluate(params)
    passes = 1.0 + len(indices) / problem.n_rows
    yield Round(evaluation, passes)
    yield from iterate_newton(problem, evaluation, model=model, passes=passes)


def _relative_rounding(size, loss, is_refined=False):
    """Relative error of the loss that rounding of the statistics may cause.

    Entries of the Gram matrix of relative error ``eps`` change the loss by up to
    ``eps * size**2``, with ``size = scale @ abs(params)``; entries of a factor of that
    accuracy change it only by ``eps * size * sqrt(loss)``.
    """
    other = np.sqrt(loss) if is_refined else size
    return 8 * _EPS * size * other / max(loss, np.finfo(float).tiny)


def _cholesky(matrix):
    """Upper factor of a matrix of unit diagonal, and its condition number (or inf)."""
    factor, info = lapack.dpotrf(matrix, lower=0)
    if info != 0:
        return factor, np.inf
    reciprocal, _ = lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max())
    return factor, 1.0 / max(reciprocal, _EPS**2)


def _from_cholesky(factor, cross, square):
    response, _ = lapack.dtrtrs(factor, cross, trans=1)
    return SquaredStatistics(factor, response, max(square - response @ response, 0.0))


def _from_eigenvectors(sums, factor):
    """Statistics of rows whose product with the inverse ``factor`` has these sums."""
    eigenvalues, vectors = linalg.eigh(sums.gram)
    # Dependent columns leave directions without any square; noise must not fill them.
    keep = eigenvalues > len(eigenvalues) * _EPS * eigenvalues[-1]
    roots, vectors = np.sqrt(eigenvalues[keep]), vectors[:, keep].T
    response = vectors @ sums.cross / roots
    rest = max(sums.square - response @ response, 0.0)
    return SquaredStatistics(roots[:, None] * (vectors @ factor), response, rest)
