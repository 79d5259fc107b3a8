r"""Gram matrix, cross moments and mean square of a squared-loss problem.

All sums are weighted means over the rows in standardised coordinates, intercept column
included. The rows themselves are read as they are: shift and scale are applied to the
sums (a rank-two correction), unless a column is so far from zero that the correction
would cancel its digits.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from skcara.objective import ColumnMoments

# The correction for the shift loses the square of this factor in accuracy.
_MAX_IMPLICIT_SHIFT = 30.0
# Rows of a sample taken at a time.
_TAKEN_ENTRIES = 2**18
# One of so many parts of a sample is searched for columns that few rows carry.
_CHECKED_PARTS = 8
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class GramSums:
    """Second moments of rows and target.

    Attributes
    ----------
    gram : ndarray of shape (n_params, n_params)
    cross : ndarray of shape (n_params,)
        With the shifted target.
    square : float
        Of the shifted target.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float


def target_shift(problem):
    """Return a number near the targets, so that their squares do not cancel."""
    return float(problem.target[0]) if problem.design.fit_intercept else 0.0


def gram_of_all_rows(problem) -> GramSums:
    """Sum over all rows, in one pass."""
    design = problem.design
    is_explicit = bool(
        (np.abs(design.shift) > _MAX_IMPLICIT_SHIFT * design.scale).any()
    )
    shift = target_shift(problem)

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        target = problem.target[part] - shift
        roots = np.ones(len(target))
        if problem.sample_weight is not None:
            roots = np.sqrt(problem.sample_weight[part])
            rows, target = _scale_rows(rows, roots), target * roots
        sums = _product(rows.T, np.column_stack([target, roots]))
        return [_product(rows.T, rows), sums, roots @ target, target @ target]

    gram, sums, mass, square = design.map_reduce(visit, explicit=is_explicit)
    total = problem.total_weight
    if not is_explicit:
        gram, sums = _standardise(design, gram, sums, mass, total)
    if design.fit_intercept:
        gram = np.block([[gram, sums[:, 1:]], [sums[:, 1:].T, total]])
        sums = np.vstack([sums, [[mass, total]]])
    return GramSums(gram / total, sums[:, 0] / total, square / total)


def gram_of_preconditioned_rows(problem, factor) -> GramSums:
    """Sum over all rows multiplied by the inverse of a triangular ``factor``."""
    design, shift = problem.design, target_shift(problem)

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        rows = rows.toarray() if sparse.issparse(rows) else rows
        if design.fit_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        roots = np.sqrt(problem.row_weights(part))
        target = (problem.target[part] - shift) * roots
        rows = linalg.solve_triangular(
            factor, (rows * roots[:, None]).T, trans="T", check_finite=False
        )
        return [rows @ rows.T, rows @ target, target @ target]

    return GramSums(*design.map_reduce(visit, explicit=True))


def gram_of_sample(problem, indices, weights, dtype=np.float64):
    """Sum over a sample, and how many rows carry each column.

    Parameters
    ----------
    problem : Problem
    indices, weights : ndarray of shape (n_sampled,)
    dtype : numpy dtype
        Precision of the products; float32 halves their cost.

    Returns
    -------
    sums : GramSums
    effective_rows : ndarray of shape (n_params,)
        Square of the sum of the squares of a column over the sum of their squares,
        estimated from a part of the sample.
    """
    n_params, shift = problem.n_params, target_shift(problem)
    gram, cross, square = np.zeros((n_params, n_params)), np.zeros(n_params), 0.0
    second, fourth = np.zeros(n_params), np.zeros(n_params)
    step = max(_TAKEN_ENTRIES // n_params, 1)
    for count, start in enumerate(range(0, len(indices), step)):
        part = slice(start, start + step)
        roots = np.sqrt(weights[part])
        rows = problem.design.take(indices[part])
        rows *= roots[:, None]
        target = (problem.target[indices[part]] - shift) * roots
        cross += rows.T @ target
        square += target @ target
        products = rows.astype(dtype, copy=False)
        gram += products.T @ products
        if count % _CHECKED_PARTS == 0:
            np.square(rows, out=rows)
            second += rows.sum(axis=0)
            fourth += np.einsum("ij,ij->j", rows, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective_rows = np.where(fourth > 0, second**2 / fourth, 0.0)
    share = min(_CHECKED_PARTS, count + 1)
    return GramSums(gram, cross, float(square)), share * effective_rows


def column_moments(problem, gram) -> ColumnMoments:
    """Mean and variance of the columns of ``X`` from the Gram matrix."""
    design = problem.design
    square = np.diagonal(gram)[: design.n_features] * design.scale**2
    if not design.fit_intercept:
        return ColumnMoments(np.zeros(design.n_features), square)
    offset = gram[: design.n_features, -1] * design.scale
    variance = np.maximum(square - offset**2, 0.0)
    # What is left of a constant column after the subtraction is rounding.
    variance[variance <= 64 * _EPS * square] = 0.0
    return ColumnMoments(design.shift + offset, variance)


def _standardise(design, gram, sums, mass, total):
    shift, scale = design.shift, design.scale
    column_sums = sums[:, 1]
    gram = gram - np.outer(shift, column_sums) - np.outer(column_sums, shift)
    gram += total * np.outer(shift, shift)
    sums = (sums - np.outer(shift, [mass, total])) / scale[:, None]
    return gram / scale / scale[:, None], sums


def _scale_rows(rows, factors):
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.diags_array(factors) @ rows)
    return rows * factors[:, None]


def _product(left, right):
    product = left @ right
    return product.toarray() if sparse.issparse(product) else product
