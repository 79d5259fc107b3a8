r"""Gram matrix, cross moments and mean square of squared-loss problems.

All sums are weighted means over the rows in the coordinates of the solver, intercept
column included. The rows themselves are read as they are: shift and scale are applied
to the sums (a rank-two correction), unless a column is so far from zero that the
correction would cancel its digits; then the rows of a chunk are shifted first.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from skcara.data import SparseGram, SumTask, gram, predictions, scaled_rows
from skcara.objective import Problem

# The correction for the shift loses the square of this factor in accuracy.
_MAX_IMPLICIT_SHIFT = 4.0
# Up to this many entries the correction takes longer than to shift them all.
_FEW_ENTRIES = 2**13
# Cells up to which sparse rows are multiplied as dense ones: to number their pairs of
# columns takes a third of a millisecond.
_MAX_EXPANDED_CELLS = 2**17
_EPS = np.finfo(np.float64).eps
# Roundings of a single term: conversion, shift, root of the weight and product for each
# of two factors; correction for the shift, scale and total weight of the sum.
_EXTRA = 32
# Columns from which rows are copied before they are multiplied: a copy reads one after
# the other, as products of panels of columns do not. With 130 columns both together
# take 0.85 of the time, with 50 1.15.
_MIN_COPIED_COLUMNS = 100


class GramSums(NamedTuple):
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
        return Gram, id(self.problem.coordinates)

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

    @property
    def _is_centred(self):
        """Whether rows are shifted before they are multiplied."""
        coordinates = self._problem.coordinates
        is_far = coordinates.largest_shift > _MAX_IMPLICIT_SHIFT
        is_short = self._problem.facts.n_entries <= _FEW_ENTRIES
        return coordinates.leaves_shift and (is_far or is_short)

    @property
    def _is_expanded(self):
        """Whether sparse rows are multiplied as dense ones."""
        facts = self._problem.facts
        n_cells = facts.n_rows * facts.n_features
        return facts.is_sparse and n_cells <= _MAX_EXPANDED_CELLS

    @cached_property
    def _shift_rows(self):
        # As many rows as a chunk: NumPy is slow at adding a short row to each of many.
        facts = self._problem.facts
        rows = np.empty((min(facts.chunk_rows, facts.n_rows), facts.n_features))
        rows[:] = self._problem.coordinates.implicit_shift
        return rows

    def _factors(self, chunk):
        """What rows are multiplied by, (n_requests + 1, n_rows): targets, and ones.

        The targets of all requests are those minus their levels.
        """
        factors = np.empty((len(self.requests) + 1, chunk.n_rows))
        factors[-1] = 1.0
        for factor, request in zip(factors[:-1], self.requests, strict=True):
            column = request.problem.column
            target = chunk.target if column is None else chunk.target[:, column]
            np.subtract(target, request.level, out=factor)
        return factors

    def visit(self, chunk):
        """Products of rows, of rows with targets and ones, and squares of targets."""
        rows, factors = self._problem.coordinates.rows(chunk.rows), self._factors(chunk)
        if self._is_expanded:
            rows = rows.toarray()
        if self._is_centred:
            rows = rows - self._shift_rows[: len(rows)]
        if chunk.weights is not None:
            roots = np.sqrt(chunk.weights)
            rows = scaled_rows(rows, roots)
            factors *= roots
        is_sparse = sparse.issparse(rows)
        if (
            rows is chunk.rows
            and not is_sparse
            and rows.shape[1] >= _MIN_COPIED_COLUMNS
        ):
            rows = rows.copy()
        matrix = SparseGram(rows) if is_sparse else gram(rows)
        # In this order BLAS reads the long side of both one after the other.
        sums = rows.T @ factors.T if is_sparse else (factors @ rows).T
        squares = np.array([factor @ factor for factor in factors[:-1]])
        return [matrix, sums, factors @ factors[-1], squares]

    def finish(self, total):
        """Return one answer for each request."""
        matrix, sums, masses, squares = total
        depth = self._problem.facts.depth
        if isinstance(matrix, SparseGram):
            collected, matrix = matrix, matrix.toarray()
            depth = max(depth, collected.depth)
        coordinates, weight = self._problem.coordinates, self._problem.total_weight
        shift, scale = coordinates.implicit_shift, coordinates.implicit_scale
        masses[-1] = weight  # without the rounding of its sum
        # The intercept, if there is one, is a column of ones behind the features.
        n_features, n_params = len(matrix), self._problem.n_params
        sizes, gram = np.empty(n_params), np.empty((n_params, n_params))
        sizes[:n_features] = np.sqrt(matrix.diagonal() / weight) / scale
        sizes[n_features:] = 1.0
        if coordinates.leaves_shift and not self._is_centred:
            matrix, sums = _centre(shift, matrix, sums, masses)
        cross = np.empty((n_params, len(masses)))
        cross[:n_features], cross[n_features:] = sums / scale[:, None], masses
        cross /= weight
        gram[:n_features, :n_features] = matrix / scale / (weight * scale)[:, None]
        gram[n_features:] = cross[:, -1]
        gram[:, n_features:] = cross[:, -1:]
        rounding = self._rounding(depth)
        return [
            GramSums(gram, cross[:, own], float(square / weight), sizes, rounding)
            for own, square in enumerate(squares)
        ]

    def _rounding(self, depth):
        """Bound of the error of a sum of products of two factors of size one.

        Additions of a term to a sum, operations on the term before, and those of two
        small products with the sums.
        """
        n_roundings = depth + 2 * self._problem.n_params + _EXTRA
        unit = 0.5 * _EPS
        return n_roundings * unit / (1 - n_roundings * unit)


@dataclass(frozen=True, eq=False)
class PreconditionedGram(SumTask):
    """Second moments of all rows multiplied by the inverse of a triangular factor.

    The answer are the Gram matrix and the cross moments.

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
        return [rows @ rows.T, rows @ residual]


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
        weights = chunk.weights
        return [products @ (products if weights is None else products * weights)]

    def finish(self, total):
        """Return the mean."""
        return total[0] / self.problem.total_weight


def _centre(shift, matrix, sums, masses):
    """Sums over rows minus ``shift``, from the sums over the rows as they are."""
    column_sums, weight, columns = sums[:, -1], masses[-1], shift[:, None]
    size = matrix.diagonal() + weight * shift**2
    cross = columns * (column_sums - 0.5 * weight * shift)
    matrix = matrix - cross - cross.T
    sums = sums - columns * masses
    # What is left of a constant column is rounding, which no scale must blow up.
    is_constant = matrix.diagonal() < 64 * _EPS * size
    if np.count_nonzero(is_constant):
        matrix[is_constant] = matrix[:, is_constant] = sums[is_constant] = 0.0
    return matrix, sums
