r"""How good coefficients are, from the second moments alone.

For the objective :math:`\tfrac12 (v - 2 q^\top b + b^\top G b) + l_1 \|b\|_1 + \tfrac12
l_2 \|b\|^2` with the correlations :math:`c = q - G b` of the residual, two points of
the dual are at hand (see :class:`skcara.objective.DualGap`). Written as a difference
the gap would be as wrong as its two parts; written out, everything that cancels has
gone.
With :math:`s = \min(1, l_1 / \max_j |c_j - l_2 b_j|)` and the mean square ``m`` of the
residual,

.. math:: \text{gap}_2 = \tfrac12 (1 - s)^2 (m + l_2 \|b\|^2)
          + \sum_j l_1 |b_j| - s\, b_j (c_j - l_2 b_j) ,

and with the soft threshold ``S`` and :math:`C(c) = c - S(c)`, for :math:`l_2 > 0`,

.. math:: \text{gap}_1 = \sum_j \frac{(l_2 b_j - S(c_j))^2}{2\, l_2}
          + l_1 |b_j| - b_j C(c_j) .

All terms are non-negative. The worst that rounding may do to ``c`` and ``m`` is added
to each of them, so that the gap of the sums bounds that of the rows.
"""

import numpy as np

from skcara.solvers.paths._basis import FactoredLoss, PathLoss
from skcara.solvers.paths._moments import gamma


def violations(slopes, coefs, l1, l2, positive=False):
    """Distance of the gradient to the subdifferential, shape (n_features, n_points).

    Parameters
    ----------
    slopes, coefs : ndarray of shape (n_features, n_points)
        Correlations of the residual, and coefficients.
    l1, l2 : ndarray of shape (n_points,)
    positive : bool
    """
    slopes = slopes - l2 * coefs
    at_zero = np.maximum((slopes if positive else np.abs(slopes)) - l1, 0.0)
    return np.where(coefs == 0, at_zero, np.abs(slopes - np.sign(coefs) * l1))


def dual_gaps(loss: PathLoss, coefs, l1, l2, positive=False):
    """Bounds on the duality gaps, rounding of the moments included.

    Parameters
    ----------
    loss : PathLoss
    coefs : ndarray of shape (n_features, n_points)
        With ``positive``, none of them negative.
    l1, l2 : ndarray of shape (n_points,)
        Strengths of the penalty.
    positive : bool

    Returns
    -------
    gaps : ndarray of shape (n_points,)
        NaN where there is no penalty.
    """
    slopes, errors = loss.slopes(coefs), loss.slope_errors(coefs)
    gaps = np.full(coefs.shape[1], np.nan)
    for points, gap in (
        (np.flatnonzero(l2 > 0), _conjugate_gap),
        (np.flatnonzero(l1 > 0), _feasible_gap),
        (np.flatnonzero((l1 == 0) & (l2 > 0) & (not positive)), _smooth_gap),
    ):
        if points.size:
            part = coefs[:, points], slopes[:, points], errors[:, points]
            found = gap(loss, *part, l1[points], l2[points], positive)
            gaps[points] = np.fmin(gaps[points], found)
    return gaps


def _conjugate_gap(loss, coefs, slopes, errors, l1, l2, positive):
    reach = np.maximum((slopes if positive else np.abs(slopes)) - l1, 0.0)
    thresholded = np.copysign(reach, slopes)
    misfit = np.abs(l2 * coefs - thresholded) + errors
    linear = l1 * np.abs(coefs) - coefs * (slopes - thresholded)
    linear = np.maximum(linear, 0.0) + np.abs(coefs) * errors
    return (misfit**2 / (2 * l2) + linear).sum(axis=0)


def _feasible_gap(loss, coefs, slopes, errors, l1, l2, positive):
    shrunk = slopes - l2 * coefs
    reach = (shrunk if positive else np.abs(shrunk)) + errors
    largest = reach.max(axis=0, initial=0.0)
    share = l1 / np.maximum(largest, l1)
    norms = l2 * np.einsum("ij,ij->j", coefs, coefs)
    linear = np.maximum(l1 * np.abs(coefs) - share * coefs * shrunk, 0.0).sum(axis=0)
    linear += share * loss.product_errors(coefs)
    linear += gamma(len(coefs) + 4) * l1 * np.abs(coefs).sum(axis=0)
    square = loss.squares(coefs) + loss.square_errors(coefs) + norms
    return 0.5 * (1.0 - share) ** 2 * square + linear


def _smooth_gap(loss, coefs, slopes, errors, l1, l2, positive):
    if not isinstance(loss, FactoredLoss):
        return np.full(coefs.shape[1], np.inf)
    return loss.smooth_gaps(coefs, l2)
