"""Grids of penalties, as scikit-learn's search classes make them."""

import numpy as np
from scipy.optimize import brentq

from skcara.solvers.paths._basis import PathLoss
from skcara.solvers.paths._path import principal_axes

# scikit-learn's grid where nothing correlates with the target.
_SMALLEST = np.finfo(np.float64).resolution
# The strongest ridge penalty leaves this share of the norm of the coefficients.
_RIDGE_SHARE = 1e-3


def alpha_grid(
    loss: PathLoss, l1_ratio: float, eps: float, n_alphas: int, positive=False
):
    """Geometric grid from the largest penalty of interest down.

    Parameters
    ----------
    loss : PathLoss
        Of all rows.
    l1_ratio : float in [0, 1]
        With an L1 term the grid begins where the first coefficient appears; without
        one, where the norm of the coefficients is a thousandth of that without any
        penalty.
    eps : float
        Ratio of the smallest to the largest penalty.
    n_alphas : int
    positive : bool

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
        Descending.
    """
    if l1_ratio > 0:
        reach = loss.cross if positive else np.abs(loss.cross)
        largest = max(float(reach.max(initial=0.0)), 0.0) / l1_ratio
    else:
        largest = _largest_ridge(loss)
    if largest <= _SMALLEST:
        return np.full(n_alphas, _SMALLEST)
    return np.geomspace(largest, largest * eps, num=n_alphas)


def _largest_ridge(loss):
    """Penalty that leaves ``_RIDGE_SHARE`` of the norm of the coefficients."""
    eigenvalues, _, rotated = principal_axes(loss)
    eigenvalues, rotated = eigenvalues[rotated != 0], rotated[rotated != 0]
    if not rotated.size:
        return 0.0
    goal = _RIDGE_SHARE * np.linalg.norm(rotated / eigenvalues)

    def excess(log_alpha):
        shrunk = rotated / (eigenvalues + np.exp(log_alpha))
        return np.log(np.linalg.norm(shrunk) / goal)

    # A penalty far below the smallest eigenvalue changes nothing; coefficients are
    # never larger than the cross moments divided by the penalty.
    low = np.log(_RIDGE_SHARE * eigenvalues.min())
    high = np.log(2 * np.linalg.norm(rotated) / goal)
    return float(np.exp(brentq(excess, low, high, xtol=1e-12)))
