r"""Gram matrix, cross moments and mean square of a squared-loss problem.

All sums are weighted means over the rows in standardised coordinates, intercept column
included. The rows themselves are read as they are: shift and scale are applied to the
sums (a rank-two correction), unless a column is so far from zero that the correction
would cancel its digits; then the rows of a chunk are shifted first.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from skcara.data import append_ones, predictions, row_range, scaled_rows
from skcara.objective import ColumnMoments

# The correction for the shift loses the square of this factor in accuracy.
_MAX_IMPLICIT_SHIFT = {np.float64: 4.0, np.float32: 0.5}
# Entries of dense rows that are made at a time.
_TAKEN_ENTRIES = 2**18
# A sparse product of two rows costs so much more per entry than a dense one that it
# pays only for rows with a smaller share of entries than this.
_DENSE_SHARE = 0.06
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
        With the residual of the target at some anchor.
    square : float
        Of that residual.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float


def level(problem):
    """Params that predict a number near the targets, and nothing else."""
    params = np.zeros(problem.n_params)
    if problem.design.fit_intercept:
        params[-1] = problem.target[0]
    return params


def gram_of_all_rows(problem, anchor, dtype=np.float64) -> GramSums:
    """Sum over all rows, in one pass.

    Parameters
    ----------
    problem : Problem
    anchor : ndarray of shape (n_params,)
        Predicts what is subtracted from the target. The closer to the solution, the
        less the accuracy of the Gram matrix matters.
    dtype : numpy dtype
        Precision of the Gram matrix; float32 halves its cost. All other sums are
        in double precision.
    """
    design = problem.design
    shift, scale = design.chunk_shift, design.chunk_scale
    is_centred = bool((np.abs(shift) > _MAX_IMPLICIT_SHIFT[dtype] * scale).any())
    # As many rows as a chunk: NumPy is slow at adding a short row to each of many.
    most_rows = min(design.chunk_rows, design.n_rows)
    shift_rows = np.tile(shift, (most_rows, 1)) if is_centred else None
    coef, intercept = design.effective_params(anchor[:, None])

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        residual = problem.target[part] - intercept
        if coef.any():
            residual -= predictions(rows, coef)[:, 0]
        if is_centred:
            rows = rows - shift_rows[: len(rows)]
        roots = np.ones(len(residual))
        if problem.sample_weight is not None:
            roots = np.sqrt(problem.sample_weight[part])
            rows, residual = scaled_rows(rows, roots), residual * roots
        sums = _product(rows.T, np.column_stack([residual, roots]))
        return [_gram(rows, dtype), sums, roots @ residual, residual @ residual]

    gram, sums, mass, square = design.map_reduce(visit)
    total = problem.total_weight
    if not is_centred and shift.any():
        gram, sums = _centre(shift, gram, sums, mass, total)
    gram, sums = gram / scale / scale[:, None], sums / scale[:, None]
    if design.fit_intercept:
        sums = np.vstack([sums, [[mass, total]]])
        features, gram = gram, np.empty((len(sums), len(sums)))
        gram[:-1, :-1] = features
        gram[-1] = gram[:, -1] = sums[:, 1]
    return GramSums(gram / total, sums[:, 0] / total, square / total)


def gram_of_preconditioned_rows(problem, factor, anchor) -> GramSums:
    """Sum over all rows multiplied by the inverse of a triangular ``factor``."""
    design = problem.design

    def visit(start, rows):
        part = slice(start, start + rows.shape[0])
        rows = rows.toarray() if sparse.issparse(rows) else rows
        if design.fit_intercept:
            rows = append_ones(rows)
        roots = np.sqrt(problem.row_weights(part))
        residual = (problem.target[part] - rows @ anchor) * roots
        rows = linalg.solve_triangular(
            factor, (rows * roots[:, None]).T, trans="T", check_finite=False
        )
        return [rows @ rows.T, rows @ residual, residual @ residual]

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
    effective_rows : ndarray of shape (n_features,)
        Square of the sum of the squares of a centred column over the sum of their
        squares, estimated from a part of the sample.
    """
    n_params, n_features = problem.n_params, problem.design.n_features
    intercept = level(problem)[-1]
    gram, cross, square = np.zeros((n_params, n_params)), np.zeros(n_params), 0.0
    second, fourth = np.zeros(n_params), np.zeros(n_params)
    step = max(_TAKEN_ENTRIES // n_params, 1)
    for count, start in enumerate(range(0, len(indices), step)):
        part = slice(start, start + step)
        roots = np.sqrt(weights[part])
        rows = problem.design.take(indices[part])
        rows *= roots[:, None]
        target = (problem.target[indices[part]] - intercept) * roots
        cross += rows.T @ target
        square += target @ target
        gram += _gram(rows, dtype)
        if count % _CHECKED_PARTS == 0:
            # A shift must not pass for a value that all rows carry, nor its rounding.
            mean = rows.mean(axis=0)
            rows -= mean
            rows[np.abs(rows) <= len(rows) * _EPS * np.abs(mean)] = 0.0
            np.square(rows, out=rows)
            second += rows.sum(axis=0)
            fourth += np.einsum("ij,ij->j", rows, rows)
    effective_rows = np.zeros(n_params)
    np.divide(second**2, fourth, out=effective_rows, where=fourth > 0)
    effective_rows *= min(_CHECKED_PARTS, count + 1)
    return GramSums(gram, cross, float(square)), effective_rows[:n_features]


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


def _centre(shift, gram, sums, mass, total):
    """Sums over rows minus ``shift``, from the sums over the rows as they are."""
    column_sums, size = sums[:, 1], np.diagonal(gram) + total * shift**2
    cross = np.outer(shift, column_sums - 0.5 * total * shift)
    gram = gram - cross - cross.T
    sums = sums - np.outer(shift, [mass, total])
    # What is left of a constant column is rounding, which no scale must blow up.
    is_constant = np.diagonal(gram) < 64 * _EPS * size
    if is_constant.any():
        gram[is_constant] = gram[:, is_constant] = sums[is_constant] = 0.0
    return gram, sums


def _gram(rows, dtype):
    """Gram matrix, infinite where values are beyond the range of the precision."""
    if sparse.issparse(rows) and rows.nnz >= _DENSE_SHARE * np.prod(rows.shape):
        return _gram_of_dense_parts(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows.astype(dtype, copy=False)
        return _product(rows.T, rows).astype(np.float64, copy=False)


def _gram_of_dense_parts(rows):
    n_rows, n_columns = rows.shape
    gram, step = np.zeros((n_columns, n_columns)), max(_TAKEN_ENTRIES // n_columns, 1)
    for start in range(0, n_rows, step):
        part = row_range(rows, start, min(start + step, n_rows)).toarray()
        gram += part.T @ part
    return gram


def _product(left, right):
    product = left @ right
    return product.toarray() if sparse.issparse(product) else product
