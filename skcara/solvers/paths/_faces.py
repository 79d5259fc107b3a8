r"""Penalised paths by descent along coordinates and by exact steps on faces.

With the zeros and signs of a solution known, the rest of it is the solution of a linear
system: a *face step*. Compiled coordinate descent on the Gram matrix gets close enough
for the zeros and signs of nearly all penalties to be right, one face step makes these
exact, and the others, found by their optimality conditions, are left to
:class:`~skcara.solvers._quadratic.QuadraticModel`.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path

from skcara.solvers._quadratic import QuadraticModel
from skcara.solvers.paths._basis import PathLoss
from skcara.solvers.paths._optimality import violations

_EPS = np.finfo(np.float64).eps
# Relative duality gap of the descent, if face steps follow or if they would cost more
# than to go on.
_START_TOL, _FULL_TOL = 1e-6, 1e-14
# Up to this many coefficients a face step costs less than further sweeps.
_MAX_FACE = 500
# Up to this many columns the systems of all penalties are solved in one call.
_MAX_STACKED_COLUMNS = 64
# Most Newton steps; each multiplies the error by that of the Gram matrix.
_MAX_STEPS = 20
# Steps that recover the digits of coefficients that nearly compensate each other.
_POLISHING_STEPS = 3
# Violation of the optimality conditions that counts as none: relative to the slopes, in
# units of rounding.
_MAX_VIOLATION, _ROUNDINGS = 1e-11, 64


def descend_path(loss: PathLoss, alphas, l1_ratio: float, positive: bool = False):
    """Solutions for descending penalties, not all of them optimal yet.

    Parameters
    ----------
    loss : PathLoss
    alphas : ndarray of shape (n_alphas,)
        Descending and positive.
    l1_ratio : float in (0, 1]
    positive : bool

    Returns
    -------
    coefs : ndarray of shape (n_features, n_alphas)
    """
    takes_steps = loss.n_features <= _MAX_FACE
    with warnings.catch_warnings():
        # Whether this has converged is judged afterwards.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coefs, _ = enet_path(
            # One row of the right length stands for the data: only its number enters.
            np.zeros((1, loss.n_features), order="F"),
            np.array([np.sqrt(loss.square)]),
            l1_ratio=l1_ratio,
            alphas=alphas,
            precompute=loss.gram,
            Xy=loss.cross,
            positive=positive,
            check_input=False,
            tol=_START_TOL if takes_steps else _FULL_TOL,
        )
    if not takes_steps:
        return coefs
    return step_on_faces(loss, coefs, alphas * l1_ratio, alphas * (1 - l1_ratio))


def step_on_faces(loss: PathLoss, coefs, l1, l2):
    """Minimise over the coefficients that are not zero, signs kept as they are.

    Where a coefficient would change its sign nothing is changed.

    Parameters
    ----------
    loss : PathLoss
        If its slopes are more accurate than its Gram matrix, then a step multiplies the
        error of the coefficients by that of the Gram matrix.
    coefs : ndarray of shape (n_features, n_points)
    l1, l2 : ndarray of shape (n_points,)

    Returns
    -------
    coefs : ndarray of shape (n_features, n_points)
    """
    signs = np.sign(coefs)
    slopes = (loss.slopes(coefs) - l2 * coefs - l1 * signs) * np.abs(signs)
    if loss.n_features <= _MAX_STACKED_COLUMNS:
        moved = coefs + _solve_stacked(loss.gram, signs, slopes, l2)
    else:
        moved = coefs + _solve_one_by_one(loss.gram, signs, slopes, l2)
    keeps_signs = (np.sign(moved) == signs).all(axis=0)
    return np.where(keeps_signs, moved, coefs)


def polish(loss, coefs, l1, l2, positive: bool = False):
    """Steps on faces as long as the optimality conditions do not get worse.

    Parameters
    ----------
    loss : FactoredLoss
    coefs : ndarray of shape (n_features, n_points)
        Nearly optimal.
    l1, l2 : ndarray of shape (n_points,)
    positive : bool

    Returns
    -------
    coefs : ndarray of shape (n_features, n_points)
    """
    excess = _excess(loss, coefs, l1, l2, positive)
    for _ in range(_POLISHING_STEPS):
        moved = step_on_faces(loss, coefs, l1, l2)
        moved_excess = _excess(loss, moved, l1, l2, positive)
        is_better = moved_excess <= np.maximum(excess, 1.0)
        coefs = np.where(is_better, moved, coefs)
        excess = np.where(is_better, moved_excess, excess)
    return coefs


def _solve_stacked(gram, signs, right_sides, l2):
    is_free = signs.T != 0
    matrices = gram * (is_free[:, :, None] & is_free[:, None, :])
    diagonal = np.einsum("pii->pi", matrices)
    # Coordinates that stay at zero are solved for as well, to zero.
    diagonal += np.where(is_free, l2[:, None], 1.0)
    # Dependent columns must not stop the others; the step is judged by its signs.
    diagonal += np.where(is_free, _EPS * diagonal, 0.0)
    try:
        return np.linalg.solve(matrices, right_sides.T[:, :, None])[:, :, 0].T
    except np.linalg.LinAlgError:
        return np.full_like(signs, np.nan)


def _solve_one_by_one(gram, signs, right_sides, l2):
    moved = np.zeros_like(signs)
    for point, strength in enumerate(l2):
        free = np.flatnonzero(signs[:, point])
        matrix = gram[free[:, None], free]
        matrix.flat[:: len(free) + 1] += strength
        try:
            moved[free, point] = np.linalg.solve(matrix, right_sides[free, point])
        except np.linalg.LinAlgError:
            moved[free, point] = np.nan
    return moved


def repair(loss: PathLoss, coefs, l1, l2, positive: bool = False):
    """Solve the problems whose coefficients are not optimal, in place.

    Parameters
    ----------
    loss : PathLoss
        Its slopes may be more accurate than its Gram matrix.
    coefs : ndarray of shape (n_features, n_points)
        NaN where nothing is known.
    l1, l2 : ndarray of shape (n_points,)
    positive : bool

    Returns
    -------
    n_repaired : int
    """
    broken = np.flatnonzero(~(_excess(loss, coefs, l1, l2, positive) <= 1))
    for point in broken:
        # The neighbour on the side of stronger penalties is solved already.
        start = coefs[:, point]
        if not np.isfinite(start).all():
            start = coefs[:, point - 1] if point else np.zeros(loss.n_features)
        coefs[:, point] = _minimize(loss, start, l1[point], l2[point], positive)
    return len(broken)


def _minimize(loss, start, l1, l2, positive):
    """Newton steps with the Gram matrix as metric, while they help."""
    matrix = loss.gram.copy()
    matrix.flat[:: loss.n_features + 1] += l2
    strengths = np.full(loss.n_features, l1)
    model = QuadraticModel(matrix, strengths, np.full(loss.n_features, positive))
    point, best, least = start, start, np.inf
    for _ in range(_MAX_STEPS):
        excess = _excess(loss, point[:, None], l1, l2, positive)[0]
        if not excess < 0.5 * least:
            break
        best, least = point, excess
        if excess <= 1:
            break
        slopes = loss.slopes(point[:, None])[:, 0] - l2 * point
        point = model.minimize(point, -slopes)
    return best if least < np.inf else point


def _excess(loss, coefs, l1, l2, positive):
    """Largest violation of the optimality conditions relative to what counts as none.

    Shape (n_points,); NaN where coefficients are.
    """
    with np.errstate(invalid="ignore"):
        distances = violations(loss.slopes(coefs), coefs, l1, l2, positive)
        # Rounding errors are hardly ever as large as their bounds.
        limits = loss.slope_errors(coefs) * (_ROUNDINGS * _EPS / loss.precision)
        limits += _MAX_VIOLATION * l1 + np.finfo(np.float64).tiny
        return (distances / limits).max(axis=0, initial=0.0)
