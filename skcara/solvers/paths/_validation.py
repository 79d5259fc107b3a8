r"""Mean squared errors on held-out rows, from their second moments.

With the moments of the test rows around their own mean, and the offset
:math:`\delta = \bar z - c` of this mean from the centre of the training rows,

.. math:: \mathrm{MSE} = v - 2 q^\top b + b^\top G b
          + (\delta_y - \delta_x^\top b)^2 .

The first three terms may cancel: nearly dependent columns have large coefficients that
nearly compensate each other. The error bound has no such cancellation in it, and says
where the result cannot be used.
"""

import numpy as np

from skcara.solvers.paths._basis import Basis, PathLoss
from skcara.solvers.paths._loss import Centre, loss_around
from skcara.solvers.paths._moments import Moments, gamma


def validation_errors(
    test: Moments,
    centre: Centre,
    coefs,
    n_features: int,
    target: int = 0,
    basis: Basis | None = None,
):
    """Mean squared errors of predictions, and bounds on their rounding errors.

    Parameters
    ----------
    test : Moments
        Of the held-out rows, transformed if there is a basis.
    centre : Centre
        Of the problem the coefficients are fitted in, in the same features.
    coefs : ndarray of shape (n_features, n_points)
        For the features of the user.
    n_features : int
    target : int
    basis : Basis, optional

    Returns
    -------
    errors, bounds : ndarray of shape (n_points,)
        The mean squared error computed with exact arithmetic from the same rows and
        coefficients is within ``errors - bounds`` and ``errors + bounds``.
    """
    loss: PathLoss
    loss = inner = loss_around(test, None, n_features, target)
    offset, offset_error = test.mean - centre.point, test.mean_error + centre.error
    column, image, sizes = n_features + target, coefs, np.abs(coefs)
    if basis is not None:
        loss, image = basis.loss(inner, test, centre), basis.factor @ coefs
        # Larger than the image: what was added up to it was rounded.
        sizes = np.abs(basis.factor) @ sizes
    bias = offset[column] - offset[:n_features] @ image
    reach = np.abs(offset[column]) + np.abs(offset[:n_features]) @ sizes
    bias_error = offset_error[column] + offset_error[:n_features] @ np.abs(image)
    bias_error += gamma(4 * n_features + 8) * reach
    bounds = loss.square_errors(coefs) + (2 * np.abs(bias) + bias_error) * bias_error
    return loss.squares(coefs) + bias**2, bounds
