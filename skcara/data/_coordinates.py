r"""Coordinates of the columns in which a solver works.

.. math:: \tilde x_{ij} = (x_{ij} - \mathrm{shift}_j) / \mathrm{scale}_j

turns badly scaled columns, and columns far from zero next to an intercept, into a
well-conditioned problem *without touching the data*: with
``params = (coef * scale, intercept + shift @ coef)`` the predictions are the same, and
all sums over rows need only a rank-one correction,

.. math:: \tilde X^\top d = (X^\top d - \mathrm{shift}\, 1^\top d) / \mathrm{scale}.

The correction cancels digits when a shift is much larger than the spread of its column;
such columns are shifted explicitly, chunk by chunk.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from skcara.data._rows import append_ones, with_entries

# Ratio shift / scale from which the rank-one correction would lose more than half of
# the digits that matter at a tight tolerance.
_EXPLICIT_SHIFT_RATIO = 1e3


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Shift and scale of the columns, with or without an intercept behind them.

    Attributes
    ----------
    shift, scale : ndarray of shape (n_features,)
        Sparse rows cannot be shifted, nor rows without an intercept.
    fit_intercept : bool
        Whether a column of ones stands behind the features.
    """

    shift: np.ndarray
    scale: np.ndarray
    fit_intercept: bool

    @classmethod
    def of_user(cls, n_features: int, fit_intercept: bool) -> "Coordinates":
        """Columns as the user has them."""
        return cls(np.zeros(n_features), np.ones(n_features), fit_intercept)

    @property
    def n_features(self) -> int:
        """Number of columns without the intercept."""
        return len(self.shift)

    @property
    def n_params(self) -> int:
        """Number of columns with the intercept."""
        return len(self.shift) + bool(self.fit_intercept)

    # ---- parameters and gradients ----------------------------------------------

    def to_user(self, params):
        """Translate ``params`` into ``coef`` (n_features, n_outputs) and ``intercept``.

        Returns
        -------
        coef : ndarray of shape (n_features, n_outputs)
        intercept : ndarray of shape (n_outputs,)
        """
        return self._undo(params, self.shift, self.scale)

    def _undo(self, params, shift, scale):
        coef = params[: self.n_features] / scale[:, None]
        if not self.fit_intercept:
            return coef, np.zeros(params.shape[1])
        return coef, params[-1] - shift @ coef

    def from_user(self, coef, intercept):
        """Inverse of :meth:`to_user`."""
        params = np.empty((self.n_params, coef.shape[1]))
        params[: self.n_features] = coef * self.scale[:, None]
        if self.fit_intercept:
            params[-1] = intercept + self.shift @ coef
        return params

    def gradient_to_user(self, gradient):
        """Gradient with respect to ``(coef, intercept)`` from that for ``params``."""
        user_gradient = gradient.copy()
        user_gradient[: self.n_features] *= self.scale[:, None]
        if self.fit_intercept:
            user_gradient[: self.n_features] += self.shift[:, None] * gradient[-1]
        return user_gradient

    def gradient_from_user(self, gradient):
        """Inverse of :meth:`gradient_to_user`."""
        own_gradient = gradient.copy()
        if self.fit_intercept:
            own_gradient[: self.n_features] -= self.shift[:, None] * gradient[-1]
        own_gradient[: self.n_features] /= self.scale[:, None]
        return own_gradient

    # ---- rows as they are ------------------------------------------------------

    @cached_property
    def largest_shift(self) -> float:
        """Largest ratio of shift and scale."""
        return float((np.abs(self.shift) / self.scale).max(initial=0.0))

    @property
    def is_explicit(self) -> bool:
        """Whether rows must be shifted before they are added up."""
        return self.largest_shift > _EXPLICIT_SHIFT_RATIO

    @property
    def leaves_shift(self) -> bool:
        """Whether :meth:`rows` leaves a shift to its caller."""
        return 0 < self.largest_shift and not self.is_explicit

    @property
    def implicit_shift(self) -> np.ndarray:
        """Shift that :meth:`rows` leaves to its caller."""
        return np.zeros_like(self.shift) if self.is_explicit else self.shift

    @property
    def implicit_scale(self) -> np.ndarray:
        """Scale that :meth:`rows` leaves to its caller."""
        return np.ones_like(self.scale) if self.is_explicit else self.scale

    def rows(self, raw):
        """Rows in float64, not copied where possible.

        The caller accounts for what is left of shift and scale, ``implicit_shift`` and
        ``implicit_scale``, by :meth:`effective_params` and :meth:`correct_sums`.
        """
        if sparse.issparse(raw):
            return with_entries(raw, raw.data.astype(np.float64, copy=False))
        if self.is_explicit:
            return self.standardised_rows(raw)
        return raw.astype(np.float64, copy=False)

    def standardised_rows(self, raw):
        """Rows shifted and scaled, as a copy; without the intercept column."""
        if sparse.issparse(raw):
            data = raw.data.astype(np.float64, copy=False)
            return with_entries(raw, data / self.scale[raw.indices])
        rows = np.subtract(raw, self.shift, dtype=np.float64)
        rows /= self.scale
        return rows

    def design_rows(self, raw):
        """Rows shifted and scaled, as a copy, with the intercept column if any."""
        rows = self.standardised_rows(raw)
        return append_ones(rows) if self.fit_intercept else rows

    def effective_params(self, params):
        """Coefficients and intercept to apply to the rows given by :meth:`rows`."""
        return self._undo(params, self.implicit_shift, self.implicit_scale)

    def correct_sums(self, sums, masses):
        r"""Turn sums over rows given by :meth:`rows` into these coordinates.

        Parameters
        ----------
        sums : ndarray of shape (..., n_features, n_outputs)
            :math:`\sum_i d_i x_i` for some numbers :math:`d_i`; overwritten.
        masses : ndarray of shape (..., n_outputs)
            :math:`\sum_i d_i`.

        Returns
        -------
        sums : ndarray of shape (..., n_params, n_outputs)
        """
        if self.leaves_shift:
            sums -= self.implicit_shift[:, None] * masses[..., None, :]
        sums /= self.implicit_scale[:, None]
        if not self.fit_intercept:
            return sums
        return np.concatenate([sums, masses[..., None, :]], axis=-2)

    def restrict(self, features) -> "Coordinates":
        """Coordinates of some of the columns."""
        return Coordinates(
            self.shift[features], self.scale[features], self.fit_intercept
        )
