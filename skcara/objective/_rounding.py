r"""What rounding can do to the sums of a pass over squared losses.

With the unit round-off :math:`u`, a chain of ``k`` operations is wrong by a factor of
at most :math:`1 \pm \gamma_k`, :math:`\gamma_k = k u / (1 - k u)`. In the norm
:math:`\|\cdot\|` of the weighted mean square over the rows, let :math:`D_j` be the size
of column ``j`` as it is read, ``b`` and ``b_0`` the coefficients that are applied to it
and ``r`` the residual. The inequalities of the triangle and of Cauchy and Schwarz then
give, whatever the data and the order of the additions,

* for the residual, an error of norm at most
  :math:`e = \gamma_{p}\,(\sum_j D_j |b_j| + |b_0| + \|y\|) + u \|r\|`, with ``p`` the
  number of columns and some operations on each entry;
* for its sum and its products with columns, errors of at most
  :math:`e + \gamma_n \|r\|` times one and :math:`D_j`, with ``n`` the depth of the sum;
* for its mean square, an error of at most
  :math:`\gamma_n \|r\|^2 + e\,(2 \|r\| + e)`.
"""

from dataclasses import dataclass

import numpy as np

_EPS = np.finfo(np.float64).eps
# Operations on an entry before it enters a prediction: conversion, shift, scale,
# product, addition of the intercept, rounding of the coefficients of the user.
_ENTRY_OPERATIONS = 8
# Operations on a term of a sum (weight, product) and on the sum (shift, scale, total
# weight, which is itself a sum, added in pairs).
_TERM_OPERATIONS = 64


def gamma(n_operations):
    """Relative error of a chain of so many operations, at most."""
    error = 0.5 * _EPS * n_operations
    return error / (1.0 - error)


@dataclass(frozen=True)
class PassRounding:
    """Bounds of the errors of a pass, and what is to be expected of them.

    Attributes
    ----------
    square : float
        Bound for the mean square of the residual.
    gradient : ndarray of shape (n_params,)
        Bound for the gradient.
    residual : float
        Bound for the residual, ``e`` above.
    expected : float
        Size of the error of a sum of residuals, where roundings are as good as random.
    columns, means : ndarray of shape (n_features,)
        Sizes of the columns of ``X``, and bounds for their means.
    """

    square: float
    gradient: np.ndarray
    residual: float
    expected: float
    columns: np.ndarray
    means: np.ndarray


def pass_rounding(problem, params, loss) -> PassRounding:
    """Bound the errors of an evaluation of a squared-loss problem.

    Parameters
    ----------
    problem : Problem
        Knows the moments of its columns.
    params : ndarray of shape (n_params, 1)
    loss : float
        Mean loss that the pass returned.
    """
    coordinates, moments = problem.coordinates, problem.column_moments
    shift, scale = coordinates.implicit_shift, coordinates.implicit_scale
    columns = np.sqrt(moments.variance + moments.mean**2)
    sizes = columns
    if coordinates.is_explicit:
        offset = moments.mean - coordinates.shift
        sizes = np.sqrt(moments.variance + offset**2) / coordinates.scale
    coef, intercept = coordinates.effective_params(params)
    predicted = sizes @ np.abs(coef[:, 0]) + abs(intercept[0])
    if coordinates.is_explicit:
        # The intercept of the user is rounded as well.
        user_coef, user_intercept = coordinates.to_user(params)
        predicted += np.abs(coordinates.shift) @ np.abs(user_coef[:, 0])
        predicted += abs(user_intercept[0])
    size = np.sqrt(2.0 * loss)
    predicted += np.sqrt(problem.target_moments.mean_square)
    residual = gamma(problem.n_params + _ENTRY_OPERATIONS) * predicted + _EPS * size
    in_sums = gamma(problem.facts.depth + _TERM_OPERATIONS)
    gradient = np.full(problem.n_params, residual + in_sums * size)
    gradient[: problem.n_features] *= (sizes + np.abs(shift)) / scale
    square = in_sums * size**2 + residual * (2 * size + residual)
    expected = residual + _EPS * (32 + np.sqrt(problem.n_rows)) * size
    origins = np.abs(coordinates.shift) + np.abs(problem.facts.reference_row)
    means = in_sums * (columns + origins)
    return PassRounding(square, gradient, residual, expected, columns, means)
