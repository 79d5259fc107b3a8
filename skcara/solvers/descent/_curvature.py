r"""Bounds of the Hessian of coordinates and blocks.

The Hessian of the mean loss is bounded, at every point, by

.. math:: H_{(j,k),(j',k')} = C_{kk'} \sum_i \mu_i\, x_{ij} x_{ij'}
   + [j = j', k = k']\, l2_j ,

where :math:`C` bounds the second derivative of the loss in the predictions: 1 for the
squared loss (then the bound is exact), 1/4 for the logistic loss and
:math:`\tfrac12 (I - 11^\top / K)` for K classes. The bound does not depend on the
point, so every sum is read from the data once and kept.
"""

import numpy as np

from skcara.passes import BlockGrams, ColumnSquares

# Up to this many columns all second moments are read at once, in one pass that costs
# a few gradient passes; new blocks of a variable partition are then free.
FEW_COLUMNS = 32
# Largest number of blocks whose moments are kept when there are many columns.
_MAX_KEPT_BLOCKS = 2048
# Below this multiple of the rounding of a shifted column it is a constant column.
_COLUMN_NOISE = 64 * np.finfo(np.float64).eps


class BoundedCurvature:
    """Curvature bounds of a problem; satisfies :class:`skcara.blocks.Curvature`.

    Bounds are loaded by generators of requests, as solvers are, and can then be asked
    for as often as needed.

    Parameters
    ----------
    problem : Problem
        In the coordinates of the solver.
    """

    def __init__(self, problem):
        self.problem = problem
        self.output_bound = problem.loss.curvature_bound
        _, self._l2, _ = problem.penalty.flat(problem.n_outputs)
        # A constant column that was shifted to zero is rounding, not curvature.
        coordinates = problem.coordinates
        self._noise = np.zeros(problem.n_params)
        self._noise[: problem.n_features] = (
            _COLUMN_NOISE * coordinates.shift / coordinates.scale
        ) ** 2
        self._squares: np.ndarray | None = None
        self._gram = None
        self._kept = {}

    # ---- what rules and steps ask for --------------------------------------------

    def lipschitz(self):
        """L_i: bounds of the diagonal of the Hessian, shape (n_coords,)."""
        assert self._squares is not None, "load_lipschitz comes first"
        bounds = self._squares[:, None] * self.output_bound.diagonal()
        return bounds.ravel() + self._l2

    def block_hessians(self, blocks):
        """H_B: bounds of the Hessian of each block."""
        columns = [np.unique(block // self.problem.n_outputs) for block in blocks]
        return [
            self._expand(block, own, self._gram_of(own))
            for block, own in zip(blocks, columns, strict=True)
        ]

    def hessian(self):
        """H: bound of the whole Hessian, shape (n_coords, n_coords)."""
        return self.block_hessians([np.arange(self.problem.n_coords)])[0]

    def _gram_of(self, columns):
        if self._gram is not None:
            return self._gram[np.ix_(columns, columns)]
        return self._kept[columns.tobytes()]

    def _expand(self, block, columns, gram):
        """Hessian of flat coordinates from the second moments of their columns."""
        position = np.searchsorted(columns, block // self.problem.n_outputs)
        output = block % self.problem.n_outputs
        hessian = gram[np.ix_(position, position)]
        is_flat = hessian.diagonal() <= self._noise[block // self.problem.n_outputs]
        hessian[is_flat], hessian[:, is_flat] = 0.0, 0.0
        hessian = hessian * self.output_bound[np.ix_(output, output)]
        hessian[np.diag_indices_from(hessian)] += self._l2[block]
        return hessian

    # ---- sums over rows -----------------------------------------------------------

    def load_lipschitz(self):
        """Read the second moments of the columns."""
        if self._squares is not None:
            return
        problem, coordinates = self.problem, self.problem.coordinates
        moments = problem.column_moments
        if moments is not None:
            mean = moments.mean - coordinates.shift
            squares = (moments.variance + mean**2) / coordinates.scale**2
        else:
            squares = yield ColumnSquares(problem)
        if coordinates.fit_intercept:
            squares = np.append(squares, 1.0)
        self._squares = np.where(squares <= self._noise, 0.0, squares)

    def load_blocks(self, blocks):
        """Read the second moments of blocks, as far as they are not known."""
        if self._gram is not None or not blocks:
            return
        columns = [np.unique(block // self.problem.n_outputs) for block in blocks]
        n_params = self.problem.n_params
        if n_params <= FEW_COLUMNS or any(own.size == n_params for own in columns):
            (self._gram,) = yield BlockGrams(self.problem, (np.arange(n_params),))
            return
        keys = [own.tobytes() for own in columns]
        missing = {
            key: own
            for key, own in zip(keys, columns, strict=True)
            if key not in self._kept
        }
        if missing:
            if len(self._kept) + len(missing) > _MAX_KEPT_BLOCKS:
                self._kept = {key: self._kept[key] for key in keys if key in self._kept}
            grams = yield BlockGrams(self.problem, tuple(missing.values()))
            self._kept.update(zip(missing, grams, strict=True))

    def load_moving(self, blocks):
        """Read what the Hessians of blocks that move in a round need."""
        yield from self.load_blocks(blocks)

    def moving_hessians(self, blocks):
        """H_B of the blocks that move in a round."""
        return self.block_hessians(blocks)
