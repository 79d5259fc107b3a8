r"""Squared loss: one pass for the sufficient statistics, then any penalty is free.

With :math:`\mu` the weights of the rows, the mean loss is a function of a small
matrix and vector alone,

.. math::

    \tfrac12 \sum_i \mu_i (x_i^\top p - y_i)^2 = \tfrac12 \|T p - t\|^2 + \tfrac12\rho ,
    \qquad T^\top T = \sum_i \mu_i x_i x_i^\top .

This is the limit case of a reduced measure that matches gradient and curvature: ``T``
and ``t`` play the role of at most ``n_params`` rows, exact for every ``p``.

The Gram matrix squares the condition number of the design, and for nearly dependent
columns nothing is left of their difference. Then a second pass sums the Gram matrix of
the *preconditioned* rows :math:`x_i^\top R^{-1}`, with the ridged Cholesky factor ``R``
of the first one. Their Gram matrix is close to the identity, its square root ``U`` is
accurate, and :math:`T = U R` has the accuracy of a QR factorisation of all rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack

from skcara.objective import ColumnMoments
from skcara.solvers._quadratic import QuadraticModel, ridged_cholesky
from skcara.solvers._rounds import Round

# Up to this many columns the Gram matrix costs less than the passes it replaces.
_MAX_DENSE_COLUMNS = 200
# Entries per row up to which the same holds for sparse data.
_MAX_SPARSE_ENTRIES = 32
_MAX_SPARSE_COLUMNS = 1500
# The rank-one correction for the shift loses the square of this factor in accuracy.
_MAX_IMPLICIT_SHIFT = 30.0
# Condition number of the Gram matrix (unit diagonal) from which it is not trusted.
_MAX_CONDITION = 1e8
_MAX_REFINEMENTS = 30
_EPS = np.finfo(np.float64).eps


def has_cheap_statistics(problem) -> bool:
    """Whether the Gram matrix costs less than a few passes over the rows."""
    design = problem.design
    if design.is_sparse:
        entries = design.X.nnz / design.n_rows
        return (
            entries <= _MAX_SPARSE_ENTRIES and design.n_features <= _MAX_SPARSE_COLUMNS
        )
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


def iterate_statistics(problem, params):
    """Yield the solution of a squared-loss problem from its statistics.

    Parameters
    ----------
    problem : Problem
        With squared loss.
    params : ndarray of shape (n_params, 1)
        Starting point of the solver of the small problem.

    Yields
    ------
    Round
    """
    target_shift = _target_shift(problem)
    statistics, passes = _collect(problem, target_shift)
    offset = np.zeros(problem.n_params)
    offset[-1] = target_shift
    solution = params[:, 0] - offset
    best = np.inf
    for _ in range(_MAX_REFINEMENTS):
        solution = _minimize(problem.penalty, statistics, solution)
        evaluation = problem.certify(
            (solution + offset)[:, None],
            statistics.loss(solution),
            statistics.gradient(solution)[:, None],
        )
        yield Round(evaluation, passes, inner_steps=1)
        if evaluation.stop_value >= 0.5 * best:
            return
        best = evaluation.stop_value


def _minimize(penalty, statistics, start):
    l1, l2, positive = penalty.l1[:, 0], penalty.l2[:, 0], penalty.positive[:, 0]
    if penalty.is_smooth:
        return _solve_smooth(statistics, l2)
    matrix = statistics.factor.T @ statistics.factor
    matrix.flat[:: len(matrix) + 1] += l2
    gradient = statistics.gradient(start) + l2 * start
    return QuadraticModel(matrix, l1, positive).minimize(start, gradient)


def _solve_smooth(statistics, l2):
    """Least squares with ``sqrt(l2)`` as extra rows: no normal equations."""
    rows, response = statistics.factor, statistics.response
    if l2.any():
        rows = np.vstack([rows, np.diag(np.sqrt(l2))])
        response = np.append(response, np.zeros(len(l2)))
    norms = np.linalg.norm(rows, axis=0)
    norms[norms == 0] = 1.0
    solution, *_ = linalg.lstsq(rows / norms, response, cond=len(l2) * _EPS)
    return solution / norms


# ---- the pass ------------------------------------------------------------------


def _target_shift(problem):
    """Return a number near the targets, so that their squares do not cancel."""
    return float(problem.target[0]) if problem.design.fit_intercept else 0.0


def _collect(problem, target_shift):
    """Statistics of the problem, and the number of passes that they took."""
    gram, cross, square = _gram_pass(problem, target_shift)
    problem.column_moments = _column_moments(problem, gram)
    scale = np.sqrt(np.diagonal(gram))
    scale[scale == 0] = 1.0
    scaled = gram / scale / scale[:, None]
    factor, info = lapack.dpotrf(scaled, lower=0)
    if info == 0 and _condition(scaled, factor) <= _MAX_CONDITION:
        factor *= scale
        response = linalg.solve_triangular(factor, cross, trans="T")
        rest = max(square - response @ response, 0.0)
        return SquaredStatistics(factor, response, rest), 1.0
    factor = ridged_cholesky(scaled).T * scale
    gram, cross, square = _gram_pass(problem, target_shift, preconditioner=factor)
    eigenvalues, vectors = linalg.eigh(gram)
    # Dependent columns leave directions without any square; noise must not fill them.
    keep = eigenvalues > len(gram) * _EPS * eigenvalues[-1]
    roots = np.sqrt(eigenvalues[keep])
    vectors = vectors[:, keep].T
    response = (vectors @ cross) / roots
    rest = max(square - response @ response, 0.0)
    factor = roots[:, None] * (vectors @ factor)
    return SquaredStatistics(factor, response, rest), 2.0


def _condition(matrix, factor):
    """Estimate of the condition number from the Cholesky factor."""
    reciprocal, _ = lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max())
    return 1.0 / max(reciprocal, _EPS**2)


def _gram_pass(problem, target_shift, preconditioner=None):
    """Mean Gram matrix of the (preconditioned) rows, cross moments, mean square."""
    design, total_weight = problem.design, problem.total_weight
    is_explicit = (
        preconditioner is not None
        or (np.abs(design.shift) > _MAX_IMPLICIT_SHIFT * design.scale).any()
    )

    def visit(start, rows):
        target = problem.target[start : start + rows.shape[0]] - target_shift
        weights = np.ones(len(target))
        if problem.sample_weight is not None:
            weights = np.sqrt(problem.sample_weight[start : start + len(target)])
            rows, target = _scale_rows(rows, weights), target * weights
        if preconditioner is not None:
            rows = _preconditioned(rows, weights, preconditioner, design.fit_intercept)
        sums = rows.T @ np.column_stack([target, weights])
        gram = rows.T @ rows
        gram = gram.toarray() if sparse.issparse(gram) else gram
        return [gram, sums, weights @ target, target @ target]

    gram, sums, mass, square = design.map_reduce(visit, explicit=is_explicit)
    if preconditioner is not None:
        return gram / total_weight, sums[:, 0] / total_weight, square / total_weight
    if not is_explicit:
        gram, sums = _standardise(design, gram, sums, mass, total_weight)
    if design.fit_intercept:
        gram = np.block([[gram, sums[:, 1:]], [sums[:, 1:].T, total_weight]])
        sums = np.vstack([sums, [[mass, total_weight]]])
    return gram / total_weight, sums[:, 0] / total_weight, square / total_weight


def _standardise(design, gram, sums, mass, total_weight):
    shift, scale = design.shift, design.scale
    column_sums = sums[:, 1]
    gram = gram - np.outer(shift, column_sums) - np.outer(column_sums, shift)
    gram += total_weight * np.outer(shift, shift)
    sums = (sums - np.outer(shift, [mass, total_weight])) / scale[:, None]
    return gram / scale / scale[:, None], sums


def _preconditioned(rows, weights, factor, fit_intercept):
    rows = rows.toarray() if sparse.issparse(rows) else rows
    if fit_intercept:
        rows = np.column_stack([rows, weights])
    return linalg.solve_triangular(
        factor, rows.T, trans="T", overwrite_b=True, check_finite=False
    ).T


def _scale_rows(rows, factors):
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.diags_array(factors) @ rows)
    return rows * factors[:, None]


def _column_moments(problem, gram):
    design = problem.design
    square = np.diagonal(gram)[: design.n_features] * design.scale**2
    if not design.fit_intercept:
        return ColumnMoments(np.zeros(design.n_features), square)
    offset = gram[: design.n_features, -1] * design.scale
    variance = np.maximum(square - offset**2, 0.0)
    variance[variance <= 64 * _EPS * square] = 0.0
    return ColumnMoments(design.shift + offset, variance)
