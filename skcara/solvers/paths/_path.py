"""The path of a penalised squared loss: which way for which problem."""

import numpy as np

from skcara.solvers.paths._basis import FactoredLoss, PathLoss
from skcara.solvers.paths._faces import descend_path, polish, repair
from skcara.solvers.paths._homotopy import lasso_homotopy

_EPS = np.finfo(np.float64).eps
# From this many columns on, coordinate descent is faster than the homotopy, whose
# number of pieces grows with them.
_MAX_HOMOTOPY_COLUMNS = 1000


def solve_path(loss: PathLoss, alphas, l1_ratio: float, positive: bool = False):
    r"""Minimisers of the loss with penalties of descending strength.

    The penalty is :math:`\alpha (\mathrm{l1\_ratio} \|b\|_1 + \tfrac12 (1 -
    \mathrm{l1\_ratio}) \|b\|^2)`.

    Parameters
    ----------
    loss : PathLoss
    alphas : ndarray of shape (n_alphas,)
        Descending, not negative.
    l1_ratio : float in [0, 1]
    positive : bool
        Whether coefficients must not be negative.

    Returns
    -------
    coefs : ndarray of shape (n_features, n_alphas)
        Zeros are exact.
    """
    l1, l2 = alphas * l1_ratio, alphas * (1.0 - l1_ratio)
    if l1_ratio == 0 and not positive:
        coefs = ridge_path(loss, alphas)
    elif l1_ratio == 1 and loss.n_features < _MAX_HOMOTOPY_COLUMNS:
        coefs = lasso_homotopy(loss.gram, loss.cross, alphas, positive)
    else:
        coefs = _descend(loss, alphas, l1_ratio, positive)
    repair(loss, coefs, l1, l2, positive)
    if isinstance(loss, FactoredLoss) and (l1_ratio > 0 or positive):
        coefs = polish(loss, coefs, l1, l2, positive)
    return coefs


def _descend(loss, alphas, l1_ratio, positive):
    """Coordinate descent where there is a penalty and something to explain."""
    coefs = np.zeros((loss.n_features, len(alphas)))
    n_penalised = np.count_nonzero(alphas)
    if loss.square > 0 and n_penalised and l1_ratio > 0:
        coefs[:, :n_penalised] = descend_path(
            loss, alphas[:n_penalised], l1_ratio, positive
        )
    return coefs


def ridge_path(loss: PathLoss, alphas):
    """Minimisers with an L2 penalty, from one decomposition.

    Parameters
    ----------
    loss : PathLoss
    alphas : ndarray of shape (n_alphas,)
        Not negative.

    Returns
    -------
    coefs : ndarray of shape (n_features, n_alphas)
        Of least norm where dependent columns leave a choice.
    """
    squares, vectors, sums = principal_axes(loss)
    curvatures = squares[:, None] + alphas
    shares = np.zeros_like(curvatures)
    np.divide(sums[:, None], curvatures, where=curvatures > 0, out=shares)
    return vectors @ shares


def principal_axes(loss: PathLoss):
    """Eigenvalues and eigenvectors of the Gram matrix, and cross moments along them.

    What rounding makes of directions that no row has is set to zero.

    Returns
    -------
    squares : ndarray of shape (n_features,)
    vectors : ndarray of shape (n_features, n_features)
    sums : ndarray of shape (n_features,)
    """
    if isinstance(loss, FactoredLoss):
        roots, vectors, rotated = loss.singular_values()
        rounding = len(roots) * _EPS * roots.max(initial=0.0)
        squares, sums = roots**2, roots * rotated
    else:
        squares, vectors = np.linalg.eigh(loss.gram)
        rounding = np.sqrt(len(squares) * _EPS * squares.max(initial=0.0))
        sums = vectors.T @ loss.cross
    is_rounding = squares <= rounding**2
    squares[is_rounding] = sums[is_rounding] = 0.0
    return squares, vectors, sums
