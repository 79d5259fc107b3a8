r"""Nearly dependent columns: second moments in a basis in which they are not.

The Gram matrix squares the condition number of the design. Large coefficients that
nearly compensate each other leave nothing of its digits: the error of a mean square is
:math:`\gamma\, (\sum_j \sqrt{G_{jj}} |b_j|)^2`. A second read therefore sums the
moments of :math:`x' = x R^{-1}` with the ridged Cholesky factor ``R`` of the moments of
all rows. They are near the identity, and the loss of ``b`` is that of :math:`b' = R b`,
which is not large.

Rounding
--------
A triangular solve finds :math:`x'` with :math:`x' (R + E) = x` and :math:`|E| \le
\gamma_n |R|`, and the product :math:`R b` is wrong by at most :math:`\gamma_n |R| |b|`.
Both change the residual of a row by at most
:math:`\gamma_{2n}\, |x'|^\top |R|\, |b|`, whose mean square is at most the square of
the *distortion* :math:`\gamma_{2n}\, z^\top |R|\, |b|`, ``z`` being bounds on the root
mean squares of the entries of :math:`x'`. It enters the mean square of the residual
once, and not squared.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from skcara.solvers._quadratic import ridged_cholesky
from skcara.solvers.paths._loss import SquaredLoss
from skcara.solvers.paths._moments import Moments, gamma

_EPS = np.finfo(np.float64).eps
# Roundings besides those of the two products of matrices: shift, weight, subtraction.
_MORE_ROUNDINGS = 16


@dataclass(frozen=True)
class FactoredLoss:
    """Loss of ``b`` that is known as a loss of ``basis @ b``.

    Has the interface of :class:`SquaredLoss`; ``gram`` and ``cross`` are less accurate
    than :meth:`slopes`.

    Attributes
    ----------
    inner : SquaredLoss
        As a function of ``basis @ b``.
    basis : ndarray of shape (n_features, n_features)
        ``R``.
    entry_sizes : ndarray of shape (n_features,)
        ``z``.
    """

    inner: SquaredLoss
    basis: np.ndarray
    entry_sizes: np.ndarray

    @property
    def n_features(self) -> int:
        """Number of coefficients."""
        return len(self.basis)

    @property
    def square(self) -> float:
        """Mean square of the target."""
        return self.inner.square

    @property
    def precision(self) -> float:
        """Relative error of the moments and of a product with them."""
        return self.inner.precision

    @cached_property
    def gram(self):
        """Gram matrix, rounded."""
        gram = self.basis.T @ self.inner.gram @ self.basis
        return (gram + gram.T) / 2

    @cached_property
    def cross(self):
        """Cross moments, rounded."""
        return self.basis.T @ self.inner.cross

    def slopes(self, coefs):
        """Correlations of the residual with the features."""
        return self.basis.T @ self.inner.slopes(self.basis @ coefs)

    def slope_errors(self, coefs):
        """Bounds on the errors of :meth:`slopes`."""
        inner, loose = self._slope_error_parts(coefs)
        distortion = np.multiply.outer(self._widths, self._distortions(coefs))
        return np.abs(self.basis).T @ inner + distortion + loose

    def product_errors(self, coefs):
        """Bounds on the errors that those of :meth:`slopes` make in ``b @ slopes``.

        Most of them are errors of ``basis.T @ slopes'``, and cancel as ``basis @ b``
        does.
        """
        image, distortion = self.basis @ coefs, self._distortions(coefs)
        inner, loose = self._slope_error_parts(coefs)
        spread = self.inner.sizes @ np.abs(image) + distortion
        structured = np.einsum("ij,ij->j", np.abs(image), inner) + spread * distortion
        return structured + np.einsum("ij,ij->j", np.abs(coefs), loose)

    def smooth_gaps(self, coefs, l2):
        r"""Bounds on the distance to the minimum with an L2 penalty alone.

        With the gradient ``g`` and the matrix ``H`` of the objective the distance is
        :math:`\tfrac12 g^\top H^{-1} g`. Errors of the residual are at most themselves
        in this norm, those of the inner slopes are divided by the root of the smallest
        eigenvalue of the inner Gram matrix, and all others by that of the penalty.
        """
        squares = np.linalg.eigvalsh(self.inner.gram)
        lowest = squares[0] - self.precision * (self.inner.sizes @ self.inner.sizes)
        if not lowest > 0:
            return np.full(coefs.shape[1], np.inf)
        values, vectors, _ = self.singular_values()
        gradient = vectors.T @ (self.slopes(coefs) - l2 * coefs)
        norm = np.sqrt((gradient**2 / (values[:, None] ** 2 + l2)).sum(axis=0))
        inner, loose = self._slope_error_parts(coefs)
        # Twice, for the rounding of the decomposition and of the products with it.
        norm = 2 * norm + np.linalg.norm(inner, axis=0) / np.sqrt(lowest)
        norm += self._distortions(coefs) + np.linalg.norm(loose, axis=0) / np.sqrt(l2)
        return 0.5 * norm**2

    def _slope_error_parts(self, coefs):
        """Errors of the inner slopes, and of the features and the last product."""
        image = self.basis @ coefs
        reach = self.inner.reaches(image) + self._distortions(coefs)
        loose = 2 * self._gamma * np.multiply.outer(self._widths, reach)
        return self.inner.slope_errors(image), loose

    @property
    def _widths(self):
        return self.entry_sizes @ np.abs(self.basis)

    def squares(self, coefs):
        """Mean squares of the residuals, shape (n_points,)."""
        return self.inner.squares(self.basis @ coefs)

    def square_errors(self, coefs):
        """Bounds on the errors of :meth:`squares`."""
        image, distortion = self.basis @ coefs, self._distortions(coefs)
        error = self.inner.square_errors(image)
        root = np.sqrt(self.inner.squares(image) + error)
        return error + (2 * root + distortion) * distortion

    def scaled(self, scale) -> "FactoredLoss":
        """Loss as a function of ``scale * coefs``."""
        return FactoredLoss(self.inner, self.basis / scale, self.entry_sizes)

    def singular_values(self):
        """Singular values and right vectors of a square root of the Gram matrix.

        With ``T.T @ T`` the Gram matrix and ``T.T @ t`` the cross moments; the
        condition number is that of the rows and not its square.

        Returns
        -------
        values : ndarray of shape (n_features,)
        vectors : ndarray of shape (n_features, n_features)
        response : ndarray of shape (n_features,)
            ``t`` along the left vectors.
        """
        squares, axes = np.linalg.eigh(self.inner.gram)
        is_known = squares > len(squares) * _EPS * squares.max(initial=0.0)
        roots, axes = np.sqrt(squares[is_known]), axes[:, is_known]
        left, values, right = np.linalg.svd(
            roots[:, None] * (axes.T @ self.basis), full_matrices=False
        )
        response = left.T @ (axes.T @ self.inner.cross / roots)
        return values, right.T, response

    @property
    def _gamma(self):
        return gamma(2 * self.n_features + _MORE_ROUNDINGS)

    def _distortions(self, coefs):
        sizes = np.abs(self.basis) @ np.abs(coefs)
        return self._gamma * (self.entry_sizes @ sizes)


#: What a path is made of; the two have the same interface.
PathLoss = SquaredLoss | FactoredLoss


@dataclass(frozen=True)
class Basis:
    """A triangular factor near that of the second moments of all rows.

    Attributes
    ----------
    factor : ndarray of shape (n_features, n_features)
        ``R``, upper triangular.
    """

    factor: np.ndarray

    @classmethod
    def of(cls, moments: Moments, n_features: int) -> "Basis":
        """The ridged Cholesky factor of the scatter of the features."""
        scatter = moments.scatter[:n_features, :n_features] / moments.weight
        scale = np.sqrt(np.diagonal(scatter))
        scale = np.where(scale > 0, scale, 1.0)
        unit = scatter / scale / scale[:, None]
        return cls(np.triu(ridged_cholesky(unit).T * scale))

    def transform(self, rows):
        """Rows times the inverse of the factor, shape (n_rows, n_features)."""
        solved = linalg.solve_triangular(self.factor, rows.T, trans="T")
        return np.ascontiguousarray(solved.T)

    def transform_columns(self, points):
        """The same for points with targets behind the features, which stay."""
        n_features = len(self.factor)
        features = self.transform(points[:, :n_features])
        return np.hstack([features, points[:, n_features:]])

    def loss(self, inner: SquaredLoss, moments: Moments, centre) -> FactoredLoss:
        """Loss in the user's features, from that of the transformed ones.

        ``centre`` is what ``inner`` is measured from, in the transformed features.
        """
        n_features = len(self.factor)
        entries = np.sqrt(moments.spread / moments.weight) + np.abs(moments.mean)
        if centre is not None:
            entries = entries + np.abs(centre.point)
        return FactoredLoss(inner, self.factor, entries[:n_features])


def refining_task(task, atoms, n_features: int):
    """Second read: atoms around their own means, in a basis made for all rows.

    Parameters
    ----------
    task : AtomSums
        Of the first read.
    atoms : list of AtomMoments
        What came out of it.
    n_features : int

    Returns
    -------
    task : AtomSums
    """
    basis = Basis.of(atoms[0].total(), n_features)
    shifts = tuple(task.shift + batch.mean for batch in atoms)
    return replace(task, atom_shifts=shifts, basis=basis)
