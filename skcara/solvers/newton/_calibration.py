r"""Reweight sampled rows so that they carry the full gradient exactly.

A sample is cut into tiles of consecutive sampled rows, and the masses of the tiles are
calibrated (:func:`skcara.recombination.calibrate`) such that mass and gradient at the
anchor are those of all the rows, exactly. With ``d`` moments the masses change by about
:math:`\sqrt{d / n_{tiles}}`; with enough tiles they stay positive. Where they do not
(heavy tails, too few rows) there is no calibrated measure, and the caller corrects the
gradient by a linear term instead.
"""

import numpy as np

from skcara.data import group_sums, predictions, row_range, weighted_sums
from skcara.recombination import calibrate

# Tiles per matched moment: factors deviate from one by 1/6 (one standard deviation).
TILES_PER_MOMENT = 36
_MAX_TILE_ROWS = 64
# Moments of tiles computed at a time: there may be as many of them as entries of X.
_PART_ENTRIES = 2**15
# Rows may keep this small a share of their weight; smaller ones add noise only.
_MIN_FACTOR = 0.02


def calibrate_rows(rows, slopes, weights, moments):
    """Weights of the rows under which they have the given gradient and mass one.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    slopes : ndarray of shape (n_rows, n_outputs)
        Derivatives of the losses at the anchor, times the weights, in outputs that do
        not depend on one another.
    weights : ndarray of shape (n_rows,)
        Positive, summing to about one.
    moments : ndarray of shape (n_params * n_outputs,)
        Gradient of the loss on the full data, in these outputs.

    Returns
    -------
    weights : ndarray of shape (n_rows,) or None
        ``None`` if no positive weights were found.
    """
    moments = np.append(moments, 1.0)
    tile_rows = len(weights) // (TILES_PER_MOMENT * len(moments))
    tiles = _Tiles(rows, slopes, weights, min(max(tile_rows, 1), _MAX_TILE_ROWS))
    masses = calibrate(tiles, tiles.base, moments, least_factor=_MIN_FACTOR)
    return None if masses is None else weights * tiles.factors_of_rows(masses)


class _Tiles:
    """Moments (gradient, one) of tiles of consecutive rows, never all at once.

    Satisfies :class:`skcara.recombination.Columns`.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    slopes : ndarray of shape (n_rows, n_outputs)
        Derivatives of the losses, times the weights.
    weights : ndarray of shape (n_rows,)
    tile_rows : int

    Attributes
    ----------
    base : ndarray of shape (n_tiles,)
        Masses of the tiles.
    """

    def __init__(self, rows, slopes, weights, tile_rows):
        self._rows = rows
        self._slopes = slopes
        self._tile_rows = tile_rows
        self._edges = np.arange(0, len(weights), tile_rows)
        self.base = np.add.reduceat(weights, self._edges)

    def factors_of_rows(self, masses):
        """Factor by which the weight of each row changes with its tile."""
        return np.repeat(masses / self.base, self._tile_rows)[: len(self._slopes)]

    def second_moments(self, masses):
        """Second moments of the tiles, and sums of absolute values."""
        n_rows, n_params = self._rows.shape
        n_moments = n_params * self._slopes.shape[1] + 1
        matrix, size = np.zeros((n_moments, n_moments)), np.zeros(n_moments)
        n_tiles = max(_PART_ENTRIES // n_moments, 16)
        for first in range(0, len(self.base), n_tiles):
            part = slice(first, first + n_tiles)
            base, factors = self.base[part], masses[part] / self.base[part]
            start = first * self._tile_rows
            stop = min(start + n_tiles * self._tile_rows, n_rows)
            tiles = np.empty((len(base), n_moments))
            tiles[:, :-1] = group_sums(
                row_range(self._rows, start, stop),
                self._slopes[start:stop],
                self._tile_rows,
            ).reshape(len(base), -1)
            tiles[:, -1] = base
            size += factors @ np.abs(tiles)
            tiles *= np.sqrt(factors / base)[:, None]
            matrix += tiles.T @ tiles
        return matrix, size

    def moments(self, masses):
        """Moments of all tiles together."""
        factors = self.factors_of_rows(masses)[:, None]
        gradient = weighted_sums(self._rows, self._slopes * factors)
        return np.append(gradient.ravel(), masses.sum())

    def products(self, multiplier):
        """Scalar product of the moments of each tile, per mass, with a vector."""
        direction = multiplier[:-1].reshape(self._rows.shape[1], -1)
        products = predictions(self._rows, direction)
        # Outputs first, as they are in memory.
        changes = np.einsum("ki,ki->i", products.T, self._slopes.T)
        return np.add.reduceat(changes, self._edges) / self.base + multiplier[-1]
