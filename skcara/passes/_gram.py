r"""Gram matrix, cross moments and mean square of squared-loss problems.

All sums are weighted means over the rows in the coordinates of the solver, intercept
column included. The rows themselves are read as they are: shift and scale are applied
to the sums (a rank-two correction), unless a column is so far from zero that the
correction would cancel its digits; then the rows of a chunk are shifted first.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from skcara.data import SparseGram, SumTask, predictions, scaled_rows
from skcara.objective import Problem

# The correction for the shift loses the square of this factor in accuracy.
_MAX_IMPLICIT_SHIFT = 4.0
_EPS = np.finfo(np.float64).eps
# Roundings of a single term: conversion, shift, root of the weight and product for each
# of two factors; correction for the shift, scale and total weight of the sum.
_EXTRA = 32


@dataclass(frozen=True)
class GramSums:
    """Second moments of rows and target.

    Attributes
    ----------
    gram : ndarray of shape (n_params, n_params)
    cross : ndarray of shape (n_params,)
        With the target minus its level.
    square : float
        Of that difference.
    sizes : ndarray of shape (n_params,)
        Root mean squares of the columns as they were added up.
    rounding : float
        Bound of the error of every sum, relative to the sizes of its two factors.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float
    sizes: np.ndarray
    rounding: float


@dataclass(frozen=True, eq=False)
class Gram:
    """Sum the second moments of rows and target; the answer is a :class:`GramSums`.

    Requests that differ in their targets only share the Gram matrix.

    Attributes
    ----------
    problem : Problem
    level : float
        A number near the targets, which is subtracted from them.
    """

    problem: Problem
    level: float

    cost = 1.0

    @property
    def stack_key(self):
        """What requests must share to be answered together."""
        return Gram, id(self.problem.coordinates), id(self.problem.included)

    @staticmethod
    def stacked(requests):
        """One task for several requests of the same key."""
        return _GramTask(tuple(requests))


@dataclass(frozen=True, eq=False)
class _GramTask(SumTask):
    requests: tuple[Gram, ...]

    @property
    def _problem(self):
        return self.requests[0].problem

    @cached_property
    def _is_centred(self):
        """Whether rows are shifted before they are multiplied."""
        coordinates = self._problem.coordinates
        shift, scale = coordinates.implicit_shift, coordinates.implicit_scale
        return bool((np.abs(shift) > _MAX_IMPLICIT_SHIFT * scale).any())

    @cached_property
    def _shift_rows(self):
        # As many rows as a chunk: NumPy is slow at adding a short row to each of many.
        facts = self._problem.facts
        n_rows = min(facts.chunk_rows, facts.n_rows)
        return np.tile(self._problem.coordinates.implicit_shift, (n_rows, 1))

    @cached_property
    def _levels(self):
        facts = self._problem.facts
        levels = np.array([request.level for request in self.requests])
        return np.tile(levels, (min(facts.chunk_rows, facts.n_rows), 1))

    def _differences(self, chunk):
        """Targets of all requests minus their levels, (n_rows, n_requests)."""
        columns = [request.problem.column for request in self.requests]
        levels = self._levels[: chunk.n_rows]
        if columns == [None]:
            return chunk.target[:, None] - levels
        if columns == list(range(chunk.target.shape[1])):
            return chunk.target - levels
        return chunk.target[:, columns] - levels

    def visit(self, chunk):
        """Products of rows, of rows with targets and ones, and squares of targets."""
        rows = self._problem.coordinates.rows(chunk.rows)
        differences = self._differences(chunk)
        if self._is_centred:
            rows = rows - self._shift_rows[: len(rows)]
        roots, weights = np.ones(chunk.n_rows), self._problem.weights_of(chunk)
        if weights is not None:
            roots = np.sqrt(weights)
            rows = scaled_rows(rows, roots)
            differences *= roots[:, None]
        sums = _products(rows, differences, roots)
        squares = np.einsum("ij,ij->j", differences, differences)
        matrix = SparseGram(rows) if sparse.issparse(rows) else rows.T @ rows
        return [matrix, sums, roots @ differences, squares]

    def finish(self, total):
        """Return one answer for each request."""
        matrix, sums, masses, squares = total
        depth = self._problem.facts.depth
        if isinstance(matrix, SparseGram):
            collected, matrix = matrix, matrix.toarray()
            depth = max(depth, collected.depth)
        coordinates, weight = self._problem.coordinates, self._problem.total_weight
        shift, scale = coordinates.implicit_shift, coordinates.implicit_scale
        sizes = np.sqrt(np.diagonal(matrix) / weight) / scale
        if not self._is_centred and shift.any():
            matrix, sums = _centre(shift, matrix, sums, masses, weight)
        matrix, sums = matrix / scale / scale[:, None], sums / scale[:, None]
        if coordinates.fit_intercept:
            sums = np.vstack([sums, [[*masses, weight]]])
            features, matrix = matrix, np.empty((len(sums), len(sums)))
            matrix[:-1, :-1] = features
            matrix[-1] = matrix[:, -1] = sums[:, -1]
            sizes = np.append(sizes, 1.0)
        matrix /= weight
        rounding = self._rounding(depth)
        return [
            GramSums(
                matrix, sums[:, own] / weight, squares[own] / weight, sizes, rounding
            )
            for own in range(len(self.requests))
        ]

    def _rounding(self, depth):
        """Bound of the error of a sum of products of two factors of size one.

        Additions of a term to a sum, operations on the term before, and those of the
        small products that use the sums.
        """
        n_roundings = depth + self._problem.n_params + _EXTRA
        unit = 0.5 * _EPS
        return n_roundings * unit / (1 - n_roundings * unit)


@dataclass(frozen=True, eq=False)
class PreconditionedGram(SumTask):
    """Second moments of all rows multiplied by the inverse of a triangular factor.

    The answer are the Gram matrix, the cross moments and the mean square.

    Attributes
    ----------
    problem : Problem
    factor : ndarray of shape (n_params, n_params)
    level : float
        Subtracted from the targets.
    """

    problem: Problem
    factor: np.ndarray
    level: float

    def visit(self, chunk):
        """Products of preconditioned rows, with themselves and with the targets."""
        problem = self.problem
        rows = problem.coordinates.design_rows(chunk.rows)
        rows = rows.toarray() if sparse.issparse(rows) else rows
        roots = np.sqrt(problem.shares_of(chunk))
        residual = (problem.target_of(chunk) - self.level) * roots
        rows = linalg.solve_triangular(
            self.factor, (rows * roots[:, None]).T, trans="T", check_finite=False
        )
        return [rows @ rows.T, rows @ residual, residual @ residual]


@dataclass(frozen=True, eq=False)
class DirectionSquare(SumTask):
    """Mean square of the rows' products with one direction.

    Attributes
    ----------
    problem : Problem
    direction : ndarray of shape (n_params,)
    """

    problem: Problem
    direction: np.ndarray

    def visit(self, chunk):
        """Sum of the squares of a chunk."""
        coordinates = self.problem.coordinates
        coef, intercept = coordinates.effective_params(self.direction[:, None])
        products = predictions(coordinates.rows(chunk.rows), coef)[:, 0] + intercept
        weights = self.problem.weights_of(chunk)
        return [products @ (products if weights is None else products * weights)]

    def finish(self, total):
        """Return the mean."""
        return total[0] / self.problem.total_weight


def _products(rows, differences, roots):
    """Product of the columns with some differences and, last, with ``roots``."""
    if sparse.issparse(rows):
        return rows.T @ np.column_stack([differences, roots])
    # In this order BLAS reads the long side of both one after the other.
    return np.vstack([differences.T @ rows, roots @ rows]).T


def _centre(shift, matrix, sums, masses, weight):
    """Sums over rows minus ``shift``, from the sums over the rows as they are."""
    column_sums, size = sums[:, -1], np.diagonal(matrix) + weight * shift**2
    cross = np.outer(shift, column_sums - 0.5 * weight * shift)
    matrix = matrix - cross - cross.T
    sums = sums - np.outer(shift, [*masses, weight])
    # What is left of a constant column is rounding, which no scale must blow up.
    is_constant = np.diagonal(matrix) < 64 * _EPS * size
    if is_constant.any():
        matrix[is_constant] = matrix[:, is_constant] = sums[is_constant] = 0.0
    return matrix, sums
