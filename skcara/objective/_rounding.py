r"""What rounding can do to the sums of a pass over squared losses.

With the unit round-off :math:`u`, a chain of ``k`` operations is wrong by a factor of
at most :math:`1 \pm \gamma_k`, :math:`\gamma_k = k u / (1 - k u)`. In the norm
:math:`\|\cdot\|` of the weighted mean square over the rows, let :math:`D_j` be the size
of column ``j`` as it is read, ``b`` and ``b_0`` the coefficients that are applied to it
and ``r`` the residual. The inequalities of the triangle and of Cauchy and Schwarz then
give, whatever the data and the order of the additions,

* for the residual, an error of norm at most
  :math:`e = \gamma_{p}\,(\sum_j D_j |b_j| + |b_0|) + u\,(\|y\| + \|r\|)`, with
  ``p`` the number of columns and some operations on each entry;
* for its sum and its products with columns, errors of at most
  :math:`e + \gamma_n \|r\|` times one and :math:`D_j`, with ``n`` the depth of the sum;
* for its mean square, an error of at most
  :math:`\gamma_n \|r\|^2 + e\,(2 \|r\| + e)`.
"""

import math

import numpy as np

_EPS = float(np.finfo(np.float64).eps)
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


class PassRounding:
    """Bounds of the errors of an evaluation of a squared-loss problem.

    Parameters
    ----------
    problem : Problem
        Knows the moments of its columns.
    params : ndarray of shape (n_params, 1)
    loss : float
        Mean loss that the pass returned.

    Attributes
    ----------
    residual : float
        Bound for the residual, ``e`` above.
    expected : float
        Size of the error of a sum of residuals, where roundings are as good as random.
    columns : ndarray of shape (n_features,)
        Sizes of the columns of ``X``.
    coef, coef_sizes : ndarray of shape (n_features,)
        Coefficients of the user, and their absolute values.
    """

    def __init__(self, problem, params, loss):
        coordinates, moments = problem.coordinates, problem.column_moments
        user_coef, user_intercept = coordinates.to_user(params)
        self.coef = user_coef[:, 0]
        self.coef_sizes = applied = np.abs(self.coef)
        self.columns = np.sqrt(moments.variance + moments.mean**2)
        self._sizes, intercept = self.columns, user_intercept[0]
        predicted = 0.0
        if coordinates.is_explicit:
            # The intercept of the user is rounded as well.
            predicted = np.abs(coordinates.shift) @ applied + abs(intercept)
            offset = moments.mean - coordinates.shift
            self._sizes = np.sqrt(moments.variance + offset**2) / coordinates.scale
            applied = np.abs(params[: problem.n_features, 0])
            intercept = params[-1, 0]
        predicted += self._sizes @ applied + abs(intercept)
        self._problem, self._size = problem, math.sqrt(2.0 * loss)
        read = math.sqrt(problem.target_moments.mean_square) + self._size
        chain = problem.n_params + _ENTRY_OPERATIONS
        self.residual = float(gamma(chain) * predicted + _EPS * read)
        random = _EPS * (32 + math.sqrt(problem.n_rows)) * self._size
        self.expected = self.residual + random
        self._in_sums = gamma(problem.facts.depth + _TERM_OPERATIONS)

    @property
    def square(self) -> float:
        """Bound for the mean square of the residual."""
        own = self.residual * (2 * self._size + self.residual)
        return self._in_sums * self._size * self._size + own

    @property
    def gradient(self) -> np.ndarray:
        """Bound for the gradient, of shape (n_params,)."""
        coordinates = self._problem.coordinates
        shift, scale = coordinates.implicit_shift, coordinates.implicit_scale
        bound = self.residual + self._in_sums * self._size
        gradient = np.full(self._problem.n_params, bound)
        gradient[: len(scale)] *= (self._sizes + np.abs(shift)) / scale
        return gradient

    @property
    def means(self) -> np.ndarray:
        """Bounds for the means of the columns of ``X``, of shape (n_features,)."""
        shift, facts = self._problem.coordinates.shift, self._problem.facts
        origins = np.abs(shift) + np.abs(facts.reference_row)
        return self._in_sums * (self.columns + origins)
