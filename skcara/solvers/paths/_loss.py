r"""The mean squared loss of a set of rows as a function of its second moments.

With the intercept at its best (or zero without one) the loss of coefficients ``b`` is

.. math:: \tfrac12 (v - 2 q^\top b + b^\top G b) ,

``G``, ``q`` and ``v`` being the second moments of features and target around a centre:
their means if there is an intercept, else zero. Every number that follows comes with a
bound on what rounding of the moments may do to it.
"""

from dataclasses import dataclass

import numpy as np

from skcara.solvers.paths._moments import Moments, gamma

# Roundings of a product of matrices besides those of its sums.
_MORE_ROUNDINGS = 8


@dataclass(frozen=True)
class SquaredLoss:
    r"""Second moments of the rows of one problem.

    Attributes
    ----------
    gram : ndarray of shape (n_features, n_features)
        ``G``.
    cross : ndarray of shape (n_features,)
        ``q``.
    square : float
        ``v``.
    sizes : ndarray of shape (n_features,)
        ``precision`` times the product of two sizes bounds the error of an entry of
        ``G``; at least the root of the diagonal.
    target_size : float
        The same for the target: in ``q`` with a size, in ``v`` with itself.
    precision : float
        Relative error of the moments and of a product with them.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float
    sizes: np.ndarray
    target_size: float
    precision: float

    @property
    def n_features(self) -> int:
        """Number of coefficients."""
        return len(self.cross)

    def slopes(self, coefs):
        """Correlations ``q - G b`` of the residual with the features.

        Parameters
        ----------
        coefs : ndarray of shape (n_features, n_points)

        Returns
        -------
        slopes : ndarray of shape (n_features, n_points)
        """
        return self.cross[:, None] - self.gram @ coefs

    def slope_errors(self, coefs):
        """Bounds on the errors of :meth:`slopes`."""
        return self.precision * np.multiply.outer(self.sizes, self.reaches(coefs))

    def product_errors(self, coefs):
        """Bounds on the errors that those of :meth:`slopes` make in ``b @ slopes``."""
        return np.einsum("ij,ij->j", np.abs(coefs), self.slope_errors(coefs))

    def squares(self, coefs):
        """Mean squares of the residuals, shape (n_points,)."""
        products = np.einsum("ij,ij->j", coefs, self.slopes(coefs))
        return np.maximum(self.square - self.cross @ coefs - products, 0.0)

    def square_errors(self, coefs):
        """Bounds on the errors of :meth:`squares`."""
        return self.precision * self.reaches(coefs) ** 2

    def reaches(self, coefs):
        """Sizes of what is added and subtracted in a residual, shape (n_points,)."""
        return self.target_size + self.sizes @ np.abs(coefs)

    def scaled(self, scale) -> "SquaredLoss":
        """Loss as a function of ``scale * coefs``."""
        return SquaredLoss(
            self.gram / scale / scale[:, None],
            self.cross / scale,
            self.square,
            self.sizes / scale,
            self.target_size,
            self.precision,
        )


@dataclass(frozen=True)
class Centre:
    """The point from which features and targets are measured in a problem.

    Predictions are ``centre_y + (x - centre_x) @ b``: with an intercept the centre is
    the mean of the training rows, without one it is zero.

    Attributes
    ----------
    point : ndarray of shape (n_columns,)
        Features before targets, relative to the origin of the moments.
    error : ndarray of shape (n_columns,)
        Bound on the error of its entries.
    """

    point: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, moments: Moments, zero, is_mean) -> "Centre":
        """The mean of a set of rows in the columns ``is_mean``, zero in the others.

        Parameters
        ----------
        moments : Moments
        zero : ndarray of shape (n_columns,)
            Where zero is, relative to the origin of the moments.
        is_mean : ndarray of bool of shape (n_columns,)
        """
        point = np.where(is_mean, moments.mean, zero)
        return cls(point, np.where(is_mean, moments.mean_error, 0.0))


def loss_around(
    moments: Moments, centre: Centre | None, n_features: int, target: int = 0
) -> SquaredLoss:
    """Loss of the rows with these moments.

    Parameters
    ----------
    moments : Moments
        Of features and targets.
    centre : Centre or None
        What features and targets are measured from; None means their means.
    n_features : int
    target : int
        Number of the target.
    """
    columns = np.append(np.arange(n_features), n_features + target)
    second = moments.scatter[columns[:, None], columns] / moments.weight
    squares = moments.spread[columns] / moments.weight
    if centre is not None:
        offset = (moments.mean - centre.point)[columns]
        second += np.outer(offset, offset)
        # The mean itself is not wrong as a centre, whatever its error.
        error = np.where(offset == 0, 0.0, (moments.mean_error + centre.error)[columns])
        squares += (np.abs(offset) + error / moments.precision) ** 2
    sizes = np.sqrt(np.maximum(squares, np.diagonal(second)))
    return SquaredLoss(
        np.ascontiguousarray(second[:-1, :-1]),
        second[:-1, -1].copy(),
        float(second[-1, -1]),
        sizes[:-1],
        float(sizes[-1]),
        moments.precision + gamma(4 * n_features + _MORE_ROUNDINGS),
    )
