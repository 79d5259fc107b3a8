r"""Approximate Hessians that cost little: curvature of columns, and correlations.

A coordinate that the intercept shares with all columns is what makes gradient methods
slow on columns that cannot be centred. For independent columns of means ``mean`` and
curvature ``variance`` around them, and an intercept of curvature ``mass``, the Hessian
is a *sheared* diagonal,

.. math::

    P = \begin{pmatrix} D + m\, \mathrm{mean}\, \mathrm{mean}^\top
    & m\, \mathrm{mean} \\ m\, \mathrm{mean}^\top & m \end{pmatrix},
    \quad D = \mathrm{variance} + l2, \quad m = \mathrm{mass} ,

and solving with it costs a few operations per column. Where the number of columns
allows, ``D`` is replaced by :math:`D^{1/2} R\, D^{1/2}` with the correlations ``R`` of
a sample. The outputs of a multinomial loss have their own means and variances and share
``R``; what couples them is left to the secant pairs.

A loss that is invariant under constants added to all outputs is left to the penalty in
these directions, where it has next to no curvature: steps that an approximate matrix
lets stray into them would have to be taken back against it. :class:`DifferenceMetric`
keeps out of them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from skcara.passes import CurvatureSums

_EPS = np.finfo(np.float64).eps
# Ridge of correlations, which have unit diagonals and single precision, times the
# number of columns; it grows until the matrix is positive definite.
_FIRST_RIDGE, _RIDGE_GROWTH = 1e-7, 10.0


@dataclass(frozen=True)
class Curvature:
    """Curvature of single coordinates, around the means if there is an intercept.

    Attributes
    ----------
    mass : ndarray of shape (n_outputs,)
    mean, variance : ndarray of shape (n_features, n_outputs)
    """

    mass: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def from_sums(cls, sums: CurvatureSums, fit_intercept: bool, variance=None):
        """Build from sums over rows; ``variance`` where second moments are missing."""
        mass = np.maximum(sums.mass, np.finfo(np.float64).tiny)
        mean = sums.first / mass if fit_intercept else np.zeros_like(sums.first)
        if variance is None:
            assert sums.second is not None, "asked for unless the variance is known"
            variance = sums.second - mass * mean**2
            # What is left of a constant column is rounding.
            variance[variance <= 64 * _EPS * sums.second] = 0.0
        return cls(mass, mean, variance)


class ShearedMetric:
    """Solves with the matrix of this module.

    Parameters
    ----------
    curvature : Curvature
    l2 : ndarray of shape (n_features, 1)
        L2 penalties of the features.
    fit_intercept : bool
    correlations : ndarray of float32 of shape (n_features, n_features), optional
        Positive semi-definite with unit diagonal; overwritten.
    """

    def __init__(self, curvature: Curvature, l2, fit_intercept, correlations=None):
        self._mean, self._mass = curvature.mean, curvature.mass
        self._has_intercept = fit_intercept
        self._n_features = len(l2)
        diagonal = curvature.variance + l2
        # A column without any curvature has no gradient either.
        self._roots = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        self._factor = None
        if correlations is not None:
            variance = curvature.variance.mean(axis=1, keepdims=True)
            roots = np.sqrt(variance / np.where(diagonal > 0, variance + l2, 1.0))
            self._factor = _cholesky(correlations, roots[:, 0].astype(np.float32))

    def solve(self, gradient):
        """Solve with the matrix; flat coordinates of shape (n_coords,)."""
        shaped = gradient.reshape(-1, self._mean.shape[1])
        solution = np.empty_like(shaped)
        features = shaped[: self._n_features]
        if self._has_intercept:
            features = features - self._mean * shaped[-1]
        features = features / self._roots
        if self._factor is not None:
            single = np.asarray(features, dtype=np.float32, order="F")
            features, _ = lapack.spotrs(self._factor, single, lower=1)
        features = features / self._roots
        solution[: self._n_features] = features
        if self._has_intercept:
            solution[-1] = shaped[-1] / self._mass
            solution[-1] -= np.einsum("jk,jk->k", self._mean, features)
        return solution.ravel()


class DifferenceMetric:
    """A metric restricted to differences between outputs.

    Parameters
    ----------
    metric : object
        With a method ``solve``.
    loss : Loss
    """

    def __init__(self, metric, loss):
        self._metric, self._loss = metric, loss

    def solve(self, gradient):
        """Solve with the matrix; flat coordinates of shape (n_coords,)."""
        return self._differences(self._metric.solve(self._differences(gradient)))

    def _differences(self, flat):
        shaped = flat.reshape(-1, self._loss.n_outputs)
        return self._loss.without_constants(shaped, axis=1).ravel()


def _cholesky(correlations, roots):
    """Factor of correlations whose columns shrink by ``roots`` next to a penalty."""
    matrix = correlations
    matrix *= roots
    matrix *= roots[:, None]
    ridge = _FIRST_RIDGE * len(matrix)
    while True:
        matrix.flat[:: len(matrix) + 1] = 1.0 + ridge
        # The transpose has the order that LAPACK wants, and is the same matrix.
        factor, info = lapack.spotrf(matrix.T, lower=1)
        # A matrix of unit diagonal is definite once the ridge exceeds its order.
        if info == 0 or ridge > len(matrix):
            return factor if info == 0 else None
        ridge *= _RIDGE_GROWTH
