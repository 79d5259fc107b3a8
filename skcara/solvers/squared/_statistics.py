r"""Squared loss as a function of sufficient statistics.

With :math:`\mu` the weights of the rows and ``a`` any anchor, the mean loss is a
function of a small matrix and vector alone,

.. math::

    \tfrac12 \sum_i \mu_i (x_i^\top p - y_i)^2
    = \tfrac12 \|T (p - a) - t\|^2 + \tfrac12\rho ,
    \qquad T^\top T = \sum_i \mu_i x_i x_i^\top .

This is the limit case of a reduced measure that matches gradient and curvature: ``T``
and ``t`` play the role of at most ``n_params`` rows, exact for every ``p``.

Nearly dependent columns have directions whose curvature is lost in rounding. They are
left out of ``T``, but not out of the loss: its slope in them may be far larger than
rounding, and a certificate must see it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from skcara.solvers._quadratic import QuadraticModel

_EPS = np.finfo(np.float64).eps
# Eigenvalues of a singular matrix come out as several times their order in roundings.
_RANK_NOISE = 16


@dataclass(frozen=True)
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
    rest : float
        Mean square of the residual at the anchor that the factor does not explain.
    lost_slope : ndarray of shape (n_params,)
        Slope of the loss in directions that are not in the factor.
    scale : ndarray of shape (n_params,)
        Root mean square of the columns, one for a column of zeros.
    is_triangular : bool
        Whether the factor is upper triangular and far from singular.
    """

    anchor: np.ndarray
    factor: np.ndarray
    response: np.ndarray
    rest: float
    lost_slope: np.ndarray
    scale: np.ndarray
    is_triangular: bool = False

    def loss(self, params):
        """Mean loss at flat ``params``."""
        misfit = self._misfit(params)
        loss = 0.5 * (misfit @ misfit + self.rest)
        return max(float(loss + self.lost_slope @ (params - self.anchor)), 0.0)

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
            gradient = self.gradient(start) - self.lost_slope
            return self.refine(penalty, start, gradient + l2 * start)
        if self.is_triangular and not l2.any():
            return self._least_squares()
        if not l2.any():
            return self.anchor + _scaled_lstsq(self.factor, self.response, self.scale)
        matrix = self._penalised_matrix(l2)
        if (2 * l2 >= np.diagonal(matrix))[l2 > 0].all():
            # Penalties that dwarf the data make their matrix well-conditioned, and
            # coefficients so small that no orthogonal factorisation would see them.
            gradient = l2 * self.anchor - self.factor.T @ self.response
            model = QuadraticModel(matrix, penalty.l1[:, 0], penalty.positive[:, 0])
            return model.minimize(self.anchor, gradient)
        response = np.concatenate([self.response, -np.sqrt(l2) * self.anchor])
        rows = self._penalised_rows(l2)
        return self.anchor + _scaled_lstsq(rows, response, self.scale)

    def guess(self, penalty):
        """Minimiser that uncorrelated columns would have, for a triangular factor."""
        params = self._least_squares()
        curvature = np.einsum("ij,ij->j", self.factor, self.factor)
        params[np.abs(params) * curvature <= penalty.l1[:, 0]] = 0.0
        return params

    def _least_squares(self):
        step, _ = lapack.dtrtrs(self.factor, self.response)
        return self.anchor + step

    def refine(self, penalty, params, smooth_gradient):
        """Newton step from ``params`` with a gradient that may be more accurate."""
        l1, l2, positive = penalty.l1[:, 0], penalty.l2[:, 0], penalty.positive[:, 0]
        if penalty.is_smooth:
            rows = self._penalised_rows(l2)
            dual = np.linalg.lstsq(rows.T, smooth_gradient, rcond=None)[0]
            return params - _scaled_lstsq(rows, dual, self.scale)
        model = QuadraticModel(self._penalised_matrix(l2), l1, positive)
        return model.minimize(params, smooth_gradient)

    def _penalised_matrix(self, l2):
        """Return the matrix of the normal equations."""
        matrix = self.factor.T @ self.factor
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
    reciprocal, _ = lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max())
    return factor, 1.0 / max(reciprocal, _EPS**2)


def with_unit_diagonal(gram):
    """Gram matrix of columns scaled to one, and their root mean squares."""
    scale = np.sqrt(np.diagonal(gram))
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
    rest = sums.square - response @ response
    nothing = np.zeros_like(sums.cross)
    return SquaredStatistics(
        anchor, factor, response, rest, nothing, scale, is_triangular=True
    )


def from_eigenvectors(anchor, factor, gram, cross, square, scale) -> SquaredStatistics:
    """Statistics of rows whose product with the inverse ``factor`` has these sums."""
    eigenvalues, vectors = linalg.eigh(gram)
    # Dependent columns leave directions without any square; noise must not fill them.
    keep = eigenvalues > _RANK_NOISE * len(eigenvalues) * _EPS * eigenvalues[-1]
    roots, vectors = np.sqrt(eigenvalues[keep]), vectors[:, keep].T
    response = vectors @ cross / roots
    rest = square - response @ response
    lost_slope = factor.T @ (vectors.T @ (vectors @ cross) - cross)
    rows = roots[:, None] * (vectors @ factor)
    return SquaredStatistics(anchor, rows, response, rest, lost_slope, scale)


def least_norm(coordinates, factor, params):
    """Among all minimisers, the one with the smallest coefficients of the user.

    The intercept is free, as everywhere: the answer must not depend on the origin of
    the targets.
    """
    norms = np.linalg.norm(factor, axis=0)
    norms[norms == 0] = 1.0
    null_space = linalg.null_space(factor / norms, rcond=len(norms) * _EPS)
    null_space /= norms[:, None]
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
