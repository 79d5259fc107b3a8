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

from skcara.data import group_sums, row_range
from skcara.solvers._quadratic import ScaledCholesky

# Tiles per matched moment: factors deviate from one by 1/6 (one standard deviation).
TILES_PER_MOMENT = 36
_MAX_TILE_ROWS = 64
# Moments of tiles computed at a time: there may be as many of them as entries of X.
_PART_ENTRIES = 2**15
# Rows may keep this small a share of their weight; smaller ones add noise only.
_MIN_FACTOR = 0.02
# The second solve removes the rounding of the first one, and the effect of the ridge
# with which linearly dependent moments are factorised.
_REFINEMENTS = 2
# Relative error of the matched moments that counts as rounding.
_RESIDUAL_TOLERANCE = 1e-11


def calibrate(rows, slopes, weights, moments):
    """Weights of the rows under which they have the given gradient and mass one.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    slopes : ndarray of shape (n_rows, n_outputs)
        Derivatives of the losses at the anchor, times the weights.
    weights : ndarray of shape (n_rows,)
        Positive, summing to about one.
    moments : ndarray of shape (n_params * n_outputs,)
        Gradient of the loss on the full data.

    Returns
    -------
    weights : ndarray of shape (n_rows,) or None
        ``None`` if no positive weights were found.
    """
    moments = np.append(moments, 1.0)
    tile_rows = len(weights) // (TILES_PER_MOMENT * len(moments))
    tile_rows = min(max(tile_rows, 1), _MAX_TILE_ROWS)
    tiles = _Tiles(rows, slopes, weights, tile_rows)
    gram, size = tiles.second_moments()
    # Errors are judged relative to the sum of what is added up, moment by moment.
    size += np.abs(moments)
    size[size == 0] = 1.0
    system = ScaledCholesky(gram)
    factors = np.ones(len(tiles.masses))
    for _ in range(_REFINEMENTS):
        multiplier = system.solve(moments - tiles.moments(factors))
        factors += tiles.products(multiplier) / tiles.masses
    # Written so that a NaN fails both tests.
    is_positive = factors.min() > _MIN_FACTOR
    error = (np.abs(tiles.moments(factors) - moments) / size).max()
    if not (is_positive and error <= _RESIDUAL_TOLERANCE):
        return None
    return weights * tiles.of_rows(factors)


class _Tiles:
    """Moments (gradient, one) of tiles of consecutive rows, never all at once.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    slopes : ndarray of shape (n_rows, n_outputs)
        Derivatives of the losses, times the weights.
    weights : ndarray of shape (n_rows,)
    tile_rows : int
    """

    def __init__(self, rows, slopes, weights, tile_rows):
        self._rows = rows
        self._slopes = slopes
        self._tile_rows = tile_rows
        self._edges = np.arange(0, len(weights), tile_rows)
        self.masses = np.add.reduceat(weights, self._edges)

    def of_rows(self, values):
        """Repeat the value of each tile for its rows."""
        return np.repeat(values, self._tile_rows)[: len(self._slopes)]

    def second_moments(self):
        r"""Matrix :math:`\sum_t b_t b_t^\top / W_t`, and :math:`\sum_t |b_t|`."""
        n_rows, n_params = self._rows.shape
        n_moments = n_params * self._slopes.shape[1] + 1
        matrix, size = np.zeros((n_moments, n_moments)), np.zeros(n_moments)
        n_tiles = max(_PART_ENTRIES // n_moments, 16)
        for first in range(0, len(self.masses), n_tiles):
            masses = self.masses[first : first + n_tiles]
            start = first * self._tile_rows
            stop = min(start + n_tiles * self._tile_rows, n_rows)
            tiles = np.empty((len(masses), n_moments))
            tiles[:, :-1] = group_sums(
                row_range(self._rows, start, stop),
                self._slopes[start:stop],
                self._tile_rows,
            ).reshape(len(masses), -1)
            tiles[:, -1] = masses
            size += np.abs(tiles).sum(axis=0)
            tiles /= np.sqrt(masses)[:, None]
            matrix += tiles.T @ tiles
        return matrix, size

    def moments(self, factors):
        """Moments of all tiles together, multiplied by these factors."""
        gradient = self._rows.T @ (self._slopes * self.of_rows(factors)[:, None])
        return np.append(gradient.ravel(), factors @ self.masses)

    def products(self, multiplier):
        """Scalar product of the moments of each tile with a vector."""
        direction = multiplier[:-1].reshape(self._rows.shape[1], -1)
        changes = np.einsum("ik,ik->i", self._rows @ direction, self._slopes)
        return np.add.reduceat(changes, self._edges) + multiplier[-1] * self.masses
