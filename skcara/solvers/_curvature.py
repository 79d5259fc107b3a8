r"""Bounds of the Hessian of coordinates and blocks, from counted passes.

The Hessian of the mean loss is bounded, at every point, by

.. math:: H_{(j,k),(j',k')} = C_{kk'} \sum_i \mu_i\, x_{ij} x_{ij'}
   + [j = j', k = k']\, l2_j ,

where :math:`C` bounds the second derivative of the loss in the predictions: 1 for the
squared loss (then the bound is exact), 1/4 for the logistic loss and
:math:`\tfrac12 (I - 11^\top / K)` for K classes. The bound does not depend on the
point, so every sum is read from the data once and kept.
"""

import numpy as np
from scipy import sparse

from skcara.data import append_ones, scaled_rows, squared
from skcara.objective import SquaredLoss

# Up to this many columns all second moments are read at once, in one pass that costs
# a few gradient passes; new blocks of a variable partition are then free.
FEW_COLUMNS = 32
# Largest number of blocks whose moments are kept when there are many columns.
_MAX_KEPT_BLOCKS = 2048
# Below this multiple of the rounding of a shifted column it is a constant column.
_COLUMN_NOISE = 64 * np.finfo(np.float64).eps


def output_bound(loss):
    """Bound C of the second derivative of the loss, (n_outputs, n_outputs)."""
    n_outputs = loss.n_outputs
    if n_outputs == 1:
        return np.array([[loss.curvature_bound]])
    return loss.curvature_bound * (np.eye(n_outputs) - 1.0 / n_outputs)


class BoundedCurvature:
    """Curvature bounds of a problem; satisfies :class:`skcara.blocks.Curvature`.

    Parameters
    ----------
    problem : Problem
        In the coordinates of the solver.

    Attributes
    ----------
    passes : float
        Reads of the data so far; reading some columns counts as their share.
    """

    def __init__(self, problem):
        self.problem = problem
        self.passes = 0.0
        self.output_bound = output_bound(problem.loss)
        self.is_exact = isinstance(problem.loss, SquaredLoss)
        self._l2 = np.repeat(problem.penalty.l2[:, 0], problem.n_outputs)
        # A constant column that was shifted to zero is rounding, not curvature.
        design = problem.design
        self._noise = np.zeros(problem.n_params)
        self._noise[: design.n_features] = (
            _COLUMN_NOISE * design.shift / design.scale
        ) ** 2
        self._column_moments = None
        self._gram = None
        self._kept = {}

    # ---- what rules and steps ask for --------------------------------------------

    def lipschitz(self):
        """L_i: bounds of the diagonal of the Hessian, shape (n_coords,)."""
        if self._column_moments is None:
            self._column_moments = self._second_moments_of_columns()
        bounds = self._column_moments[:, None] * self.output_bound.diagonal()
        return bounds.ravel() + self._l2

    def block_hessians(self, blocks):
        """H_B: bounds of the Hessian of each block."""
        n_outputs = self.problem.n_outputs
        columns = [np.unique(block // n_outputs) for block in blocks]
        grams = self._grams(columns)
        return [
            self._expand(block, own, gram)
            for block, own, gram in zip(blocks, columns, grams, strict=True)
        ]

    def moving_hessians(self, blocks):
        """H_B of the blocks that move in a round."""
        return self.block_hessians(blocks)

    def hessian(self):
        """H: bound of the whole Hessian, shape (n_coords, n_coords)."""
        return self.block_hessians([np.arange(self.problem.n_coords)])[0]

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

    def _grams(self, columns):
        """Second moments of each set of columns, read from the data if not kept."""
        n_params = self.problem.n_params
        everything = np.arange(n_params)
        if self._gram is None and (
            n_params <= FEW_COLUMNS or any(own.size == n_params for own in columns)
        ):
            (self._gram,) = self._read_grams([everything])
        if self._gram is not None:
            return [self._gram[np.ix_(own, own)] for own in columns]
        keys = [own.tobytes() for own in columns]
        missing = {
            key: own
            for key, own in zip(keys, columns, strict=True)
            if key not in self._kept
        }
        if missing:
            if len(self._kept) + len(missing) > _MAX_KEPT_BLOCKS:
                self._kept = {key: self._kept[key] for key in keys if key in self._kept}
            grams = self._read_grams(list(missing.values()))
            self._kept.update(zip(missing, grams, strict=True))
        return [self._kept[key] for key in keys]

    def _read_grams(self, columns):
        problem = self.problem
        visitor = (
            _SparseGrams(problem, columns)
            if problem.design.is_sparse
            else _DenseGrams(problem, columns)
        )
        self.passes += np.unique(np.concatenate(columns)).size / problem.n_params
        return visitor.read()

    def _second_moments_of_columns(self):
        problem, design = self.problem, self.problem.design
        moments = problem.column_moments
        if moments is not None:
            mean = moments.mean - design.shift
            squares = (moments.variance + mean**2) / design.scale**2
        else:
            self.passes += 1
            squares = _read_squares(problem)
        if design.fit_intercept:
            squares = np.append(squares, 1.0)
        return np.where(squares <= self._noise, 0.0, squares)


def _read_squares(problem):
    """Weighted mean square of every feature."""

    def visit(start, rows):
        weights = problem.row_weights(slice(start, start + rows.shape[0]))
        if sparse.issparse(rows):
            return (squared(rows).T @ weights,)
        return (np.einsum("i,ij,ij->j", weights, rows, rows),)

    (squares,) = problem.design.map_reduce(visit, explicit=True)
    return squares


class _DenseGrams:
    """Weighted second moments of sets of columns of a dense design."""

    def __init__(self, problem, columns):
        self._problem = problem
        self._columns = columns

    def read(self):
        return self._problem.design.map_reduce(self._visit, explicit=True)

    def _visit(self, start, rows):
        weights = self._problem.row_weights(slice(start, start + len(rows)))
        if self._problem.design.fit_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        grams = []
        for own in self._columns:
            chosen = rows if own.size == rows.shape[1] else rows[:, own]
            grams.append((chosen * weights[:, None]).T @ chosen)
        return grams


class _SparseGrams:
    """The same for a sparse design: products of entries that share a row.

    Only the pairs of columns that are asked for are added up, so that the memory is
    that of the answer, whatever the number of columns.
    """

    def __init__(self, problem, columns):
        self._problem = problem
        self._codes = [self._pair_codes(own) for own in columns]
        self._wanted = np.unique(np.concatenate([c.ravel() for c in self._codes]))
        self._asked = np.unique(np.concatenate(columns))

    def read(self):
        (moments,) = self._problem.design.map_reduce(self._visit, explicit=True)
        return [moments[np.searchsorted(self._wanted, c)] for c in self._codes]

    def _pair_codes(self, columns):
        """One number for every ordered pair of columns."""
        return columns[:, None] * self._problem.n_params + columns

    def _visit(self, start, rows):
        problem = self._problem
        weights = problem.row_weights(slice(start, start + rows.shape[0]))
        rows = append_ones(rows) if problem.design.fit_intercept else rows
        rows = rows[:, self._asked]
        products = (rows.T @ scaled_rows(rows, weights)).tocoo()
        left, right = self._asked[products.row], self._asked[products.col]
        codes = left * problem.n_params + right
        place = np.searchsorted(self._wanted, codes)
        place = np.minimum(place, self._wanted.size - 1)
        hit = self._wanted[place] == codes
        return (
            np.bincount(
                place[hit],
                weights=products.data[hit],
                minlength=self._wanted.size,
            ),
        )
