"""Steps that several methods share: the ratio test and the exchange in a basis."""

from __future__ import annotations

import numpy as np

# Entries of a direction this small relative to its largest carry no sign.
NEGLIGIBLE = 1e-14


def move_to_boundary(weights: np.ndarray, direction: np.ndarray) -> int:
    r"""Move the masses along a direction until one of them vanishes, in place.

    With :math:`\sum_i d_i = 0` and :math:`\sum_i d_i z_i = 0` the masses
    :math:`w - \alpha d` have the same total and mean for every :math:`\alpha`; the
    largest step that keeps them non-negative is
    :math:`\alpha = \min_{d_i > 0} w_i / d_i`.

    Parameters
    ----------
    weights : ndarray of shape (n_atoms,)
        Non-negative masses; overwritten.
    direction : ndarray of shape (n_atoms,)

    Returns
    -------
    vanished : int
        The atom whose mass is now exactly zero.
    """
    floor = NEGLIGIBLE * np.abs(direction).max()
    candidates = np.flatnonzero(direction > floor)
    if candidates.size == 0:
        direction = -direction
        candidates = np.flatnonzero(direction > floor)
    ratios = weights[candidates] / direction[candidates]
    nearest = ratios.argmin()
    weights -= ratios[nearest] * direction
    np.maximum(weights, 0.0, out=weights)
    vanished = int(candidates[nearest])
    weights[vanished] = 0.0
    return vanished


def exchange(inverse: np.ndarray, coefficients: np.ndarray, position: int) -> None:
    r"""Replace one basis vector and update the inverse of the basis, in place.

    Sherman–Morrison: if ``coefficients`` :math:`a = B^{-1}x` are those of the entering
    vector and :math:`B'` is :math:`B` with column ``position`` :math:`p` replaced by
    :math:`x`, then with :math:`u = a - e_p`

    .. math:: B'^{-1} = B^{-1} - u\, e_p^\top B^{-1} / a_p .

    Parameters
    ----------
    inverse : ndarray of shape (n, n) or (n, n_vectors)
        :math:`B^{-1}`, or :math:`B^{-1}` times any matrix; overwritten.
    coefficients : ndarray of shape (n,)
    position : int
    """
    pivot_row = inverse[position] / coefficients[position]
    inverse -= coefficients[:, None] * pivot_row
    inverse[position] = pivot_row
