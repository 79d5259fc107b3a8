r"""Squared loss as a function of sufficient statistics.

With :math:`\mu` the weights of the rows and ``a`` any anchor, the mean loss is a
function of a small matrix and vector alone,

.. math::

    \tfrac12 \sum_i \mu_i (x_i^\top p - y_i)^2
    = \tfrac12 \|T (p - a) - t\|^2 + \mathrm{const} ,
    \qquad T^\top T = \sum_i \mu_i x_i x_i^\top .

This is the limit case of a reduced measure that matches gradient and curvature: ``T``
and ``t`` play the role of at most ``n_params`` rows, exact for every ``p``.

Nearly dependent columns have directions whose curvature is lost in rounding. They are
left out of ``T``, but not out of the loss: its slope in them may be far larger than
rounding, and a certificate must see it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from skcara.solvers._quadratic import QuadraticModel

_EPS = np.finfo(np.float64).eps
# Eigenvalues of a singular matrix come out as several times their order in roundings.
_RANK_NOISE = 16
#: Condition number of a matrix of unit diagonal up to which it is trusted.
MAX_CONDITION = 1e8


@dataclass(frozen=True, eq=False)
class SquaredStatistics:
    """The mean squared loss as a function of a small factor.

    Attributes
    ----------
    anchor : ndarray of shape (n_params,)
        ``a``.
    factor : ndarray of shape (rank, n_params)
        ``T``.
    response : ndarray of shape (rank,)
        ``t``.
    lost_slope : ndarray of shape (n_params,)
        Slope of the loss in directions that are not in the factor.
    scale : ndarray of shape (n_params,)
        Root mean square of the columns, one for a column of zeros.
    pivots : ndarray of int of shape (rank,), slice or None
        Columns in which the factor is upper triangular and far from singular, where
        there are such columns; the others depend on them.
    known_gram : ndarray of shape (n_params, n_params) or None
        The product of the factor with itself, where it was there before.
    """

    anchor: np.ndarray
    factor: np.ndarray
    response: np.ndarray
    lost_slope: np.ndarray
    scale: np.ndarray
    pivots: np.ndarray | slice | None = None
    known_gram: np.ndarray | None = None

    def gradient(self, params):
        """Gradient of the mean loss."""
        return self.factor.T @ self._misfit(params) + self.lost_slope

    def _misfit(self, params):
        return self.factor @ (params - self.anchor) - self.response

    def minimize(self, penalty, start):
        """Minimise loss plus penalty, without normal equations where possible."""
        l2 = penalty.l2[:, 0]
        if not penalty.is_smooth:
            # Without curvature a slope would lead anywhere.
            gradient = self.factor.T @ self._misfit(start) + l2 * start
            return self.refine(penalty, start, gradient)
        if not l2.any():
            if self.pivots is not None:
                return self._least_squares()
            return self.anchor + _scaled_lstsq(self.factor, self.response, self.scale)
        gradient = self.gradient(self.anchor) - self.lost_slope + l2 * self.anchor
        step = self._solve_penalised(l2, gradient)
        if step is not None:
            return self.anchor - step
        response = np.concatenate([self.response, -np.sqrt(l2) * self.anchor])
        rows = self._penalised_rows(l2)
        return self.anchor + _scaled_lstsq(rows, response, self.scale)

    def guess(self, penalty):
        """Where to look for the zeros of the minimiser, if all columns are pivots.

        That is the solution of least squares, without the coefficients that a step
        towards the minimiser would give another sign. For uncorrelated columns and an
        L1 term alone these are the ones that the penalty makes zero.
        """
        params, l1 = self._least_squares(), penalty.l1[:, 0]
        slope = l1 * np.sign(params) + penalty.l2[:, 0] * params
        step, _ = lapack.dpotrs(self.factor, slope)
        params[(params * (params - step) <= 0) & (l1 > 0)] = 0.0
        return params

    def _least_squares(self):
        params = self.anchor.copy()
        params[self.pivots] += lapack.dtrtrs(self._triangle, self.response)[0]
        return params

    @property
    def _triangle(self):
        return self.factor[:, self.pivots]

    @cached_property
    def gram(self):
        """Product of the factor with itself."""
        return (
            self.factor.T @ self.factor if self.known_gram is None else self.known_gram
        )

    @cached_property
    def null_space(self):
        """Directions in which the loss does not change, as columns."""
        rank, n_params = self.factor.shape
        if rank == 0:
            return np.eye(n_params)
        if self.pivots is None:
            norms = np.linalg.norm(self.factor, axis=0)
            norms[norms == 0] = 1.0
            directions = linalg.null_space(self.factor / norms, rcond=n_params * _EPS)
            return directions / norms[:, None]
        others = np.delete(np.arange(n_params), self.pivots)
        directions = np.zeros((n_params, n_params - rank))
        images = np.asfortranarray(self.factor[:, others])
        directions[self.pivots] = -lapack.dtrtrs(self._triangle, images)[0]
        directions[others, np.arange(len(others))] = 1.0
        return directions

    def refine(self, penalty, params, smooth_gradient):
        """Newton step from ``params`` with a gradient that may be more accurate."""
        l1, l2, positive = penalty.l1[:, 0], penalty.l2[:, 0], penalty.positive[:, 0]
        if not penalty.is_smooth:
            model = QuadraticModel(self._penalised_gram(l2), l1, positive)
            return model.minimize(params, smooth_gradient)
        step = self._solve_penalised(l2, smooth_gradient)
        if step is None:
            rows = self._penalised_rows(l2)
            dual = np.linalg.lstsq(rows.T, smooth_gradient, rcond=None)[0]
            step = _scaled_lstsq(rows, dual, self.scale)
        return params - step

    def _solve_penalised(self, l2, right_side):
        """Solve with the Gram matrix plus ``l2``; None if it is nearly singular."""
        solution = np.zeros_like(right_side)
        if not l2.any():
            if self.pivots is None:
                return None
            solved, _ = lapack.dpotrs(self._triangle, right_side[self.pivots])
            solution[self.pivots] = solved
            return solution
        matrix, scale = with_unit_diagonal(self._penalised_gram(l2))
        factor, condition = cholesky(matrix)
        if condition > MAX_CONDITION:
            return None
        return lapack.dpotrs(factor, right_side / scale)[0] / scale

    def _penalised_gram(self, l2):
        matrix = self.gram.copy()
        matrix.flat[:: len(matrix) + 1] += l2
        return matrix

    def _penalised_rows(self, l2):
        """Return the factor, and the L2 penalty as extra rows."""
        if not l2.any():
            return self.factor
        return np.vstack([self.factor, np.diag(np.sqrt(l2))])


def cholesky(matrix):
    """Upper factor of a matrix of unit diagonal, and its condition number (or inf)."""
    factor, info = lapack.dpotrf(matrix, lower=0)
    if info != 0:
        return factor, np.inf
    return factor, _condition(factor, matrix)


def _condition(factor, matrix):
    reciprocal, _ = lapack.dpocon(factor, lapack.dlange("1", matrix))
    return 1.0 / max(reciprocal, _EPS**2)


class PivotedCholesky(NamedTuple):
    """Factor of a matrix of unit diagonal some columns of which depend on others.

    Attributes
    ----------
    factor : ndarray of shape (rank, n_columns)
        Upper triangular in the pivots.
    pivots : ndarray of int of shape (rank,)
    condition : float
        Condition number of the pivots' part of the matrix; infinite if that is empty.
    """

    factor: np.ndarray
    pivots: np.ndarray
    condition: float


def pivoted_cholesky(matrix, tolerance) -> PivotedCholesky:
    """Factorise a semi-definite matrix, largest pivot first.

    Columns of which no more than ``tolerance`` of their square is left are taken to
    depend on the others.
    """
    packed, order, rank, _ = lapack.dpstrf(matrix, tol=tolerance)
    order = order - 1
    pivots, factor = order[:rank], np.empty((rank, len(matrix)))
    factor[:, order] = np.triu(packed[:rank])
    block = matrix[pivots[:, None], pivots]
    condition = _condition(factor[:, pivots], block) if rank else np.inf
    return PivotedCholesky(factor, pivots, condition)


def with_unit_diagonal(gram):
    """Gram matrix of columns scaled to one, and their root mean squares."""
    scale = np.sqrt(gram.diagonal())
    scale[scale == 0] = 1.0
    return gram / scale / scale[:, None], scale


def is_conditioned(gram, params, penalty, max_condition) -> bool:
    """Whether columns that are not held at zero are independent."""
    is_held = (penalty.l1[:, 0] > 0) | penalty.positive[:, 0]
    free = np.flatnonzero((params != 0) | ~is_held)
    if not free.size:
        return True
    return cholesky(gram[free[:, None], free])[1] <= max_condition


def from_cholesky(anchor, factor, sums, scale) -> SquaredStatistics:
    """Statistics from the upper Cholesky factor of the Gram matrix in ``sums``."""
    response, _ = lapack.dtrtrs(factor, sums.cross, trans=1)
    nothing, all_columns = np.zeros(len(factor)), slice(None)
    return SquaredStatistics(
        anchor, factor, response, nothing, scale, all_columns, sums.gram
    )


def from_pivots(anchor, cholesky: PivotedCholesky, sums, scale) -> SquaredStatistics:
    """Statistics from a factor of the Gram matrix in ``sums``, scaled to one."""
    factor, pivots = cholesky.factor * scale, cholesky.pivots
    response, _ = lapack.dtrtrs(factor[:, pivots], sums.cross[pivots], trans=1)
    lost_slope = factor.T @ response - sums.cross
    return SquaredStatistics(
        anchor, factor, response, lost_slope, scale, pivots, sums.gram
    )


def from_eigenvectors(anchor, factor, gram, cross, scale) -> SquaredStatistics:
    """Statistics of rows whose product with the inverse ``factor`` has these sums."""
    eigenvalues, vectors = linalg.eigh(gram)
    # Dependent columns leave directions without any square; noise must not fill them.
    keep = eigenvalues > _RANK_NOISE * len(eigenvalues) * _EPS * eigenvalues[-1]
    roots, vectors = np.sqrt(eigenvalues[keep]), vectors[:, keep].T
    response = vectors @ cross / roots
    lost_slope = factor.T @ (vectors.T @ (vectors @ cross) - cross)
    rows = roots[:, None] * (vectors @ factor)
    return SquaredStatistics(anchor, rows, response, lost_slope, scale)


def least_norm(coordinates, null_space, params):
    """Among all minimisers, the one with the smallest coefficients of the user.

    The intercept is free, as everywhere: the answer must not depend on the origin of
    the targets.
    """
    scale, n_features = coordinates.scale, coordinates.n_features
    coef = params[:n_features] / scale
    directions = null_space[:n_features] / scale[:, None]
    shares, *_ = linalg.lstsq(directions, -coef)
    return params + null_space @ shares


def _scaled_lstsq(rows, response, scale):
    """Least squares of smallest norm after scaling the columns to one."""
    norms = np.linalg.norm(rows, axis=0)
    # What is left of a column of zeros is rounding; it must not be scaled up. Columns
    # are compared with themselves: one may be larger than the others without limit.
    is_alive = norms > len(norms) * _EPS * scale
    norms, cutoff = norms[is_alive], len(norms) * _EPS
    solution = np.zeros(rows.shape[1])
    scaled, *_ = linalg.lstsq(rows[:, is_alive] / norms, response, cond=cutoff)
    solution[is_alive] = scaled / norms
    return solution
