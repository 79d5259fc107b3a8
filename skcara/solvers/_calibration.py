r"""Reweight sampled rows so that they carry the full gradient exactly.

Let a sample of rows with weights ``w`` be cut into tiles of consecutive sampled rows,
and let :math:`b_t` be the sum over tile ``t`` of the weighted moments (one, gradient at
the anchor). The moments :math:`m` of all the rows differ from :math:`\sum_t b_t` by the
sampling error. *Calibration* multiplies the weights of tile ``t`` by a factor
:math:`f_t` with :math:`\sum_t f_t b_t = m`, changing the weights as little as possible:

.. math::

    \min_f \sum_t W_t (f_t - 1)^2
    \;\Rightarrow\; f_t = 1 + b_t^\top \lambda / W_t, \quad
    \Big(\sum_t b_t b_t^\top / W_t\Big) \lambda = m - \sum_t b_t ,

with the mass :math:`W_t` of the tile. One small linear system, so it costs far less
than eliminating rows one by one. The factors deviate from one by about
:math:`\sqrt{d / n_{tiles}}` for ``d`` moments; with enough tiles they are positive.
Where they are not (heavy tails, too few rows) there is no calibrated measure, and the
caller corrects the gradient by a linear term instead.
"""

import numpy as np

from skcara.data import group_sums
from skcara.solvers._quadratic import ScaledCholesky

# Tiles per matched moment: factors deviate from one by 1/6 (one standard deviation).
TILES_PER_MOMENT = 36
_MAX_TILE_ROWS = 64
# Rows may keep this small a share of their weight; smaller ones add noise only.
_MIN_FACTOR = 0.02
# The second solve removes the rounding of the first one, and the effect of the ridge
# with which linearly dependent moments are factorised.
_REFINEMENTS = 2
# Relative error of the matched moments that counts as rounding.
_RESIDUAL_TOLERANCE = 1e-11


def calibrate(rows, derivative, weights, moments):
    """Weights of the rows under which they have the given gradient and mass one.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    derivative : ndarray of shape (n_rows, n_outputs)
        Derivatives of the losses at the anchor.
    weights : ndarray of shape (n_rows,)
        Positive, summing to about one.
    moments : ndarray of shape (n_params * n_outputs,)
        Gradient of the loss on the full data.

    Returns
    -------
    weights : ndarray of shape (n_rows,) or None
        ``None`` if no positive weights were found.
    """
    n_rows, n_moments = len(weights), len(moments) + 1
    tile_rows = n_rows // (TILES_PER_MOMENT * n_moments)
    tile_rows = min(max(tile_rows, 1), _MAX_TILE_ROWS)
    edges = np.arange(0, n_rows, tile_rows)
    masses = np.add.reduceat(weights, edges)
    sums = group_sums(rows, derivative * weights[:, None], tile_rows)
    tiles = np.column_stack([sums.reshape(len(masses), -1), masses])
    factors = matching_factors(tiles, masses, np.append(moments, 1.0))
    if factors is None:
        return None
    return weights * np.repeat(factors, tile_rows)[:n_rows]


def matching_factors(tiles, masses, moments):
    """Positive factors with ``factors @ tiles == moments``, or None.

    Parameters
    ----------
    tiles : ndarray of shape (n_tiles, n_moments)
    masses : ndarray of shape (n_tiles,)
    moments : ndarray of shape (n_moments,)
    """
    # Errors are judged relative to the sum of what is added up, moment by moment.
    size = np.abs(tiles).sum(axis=0) + np.abs(moments)
    size[size == 0] = 1.0
    roots = np.sqrt(masses)
    scaled = tiles / roots[:, None]
    system = ScaledCholesky(scaled.T @ scaled)
    factors = np.ones(len(tiles))
    for _ in range(_REFINEMENTS):
        factors += scaled @ system.solve(moments - factors @ tiles) / roots
    # Written so that a NaN fails both tests.
    is_positive = factors.min() > _MIN_FACTOR
    error = (np.abs(factors @ tiles - moments) / size).max()
    return factors if is_positive and error <= _RESIDUAL_TOLERANCE else None
