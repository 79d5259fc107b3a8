r"""The separable penalty :math:`\sum_c l1_c |p_c| + \tfrac12 l2_c p_c^2`, p maybe >= 0.

Strengths are given per coordinate: 0 for the intercept and divided by the scale of the
column in standardised coordinates, so that no solver needs a special case for either.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Coefficients under this penalty are zero, and a few of them can be added up.
_STRONGEST = 1e300


def violation(params, slope, l1, positive):
    """Distance of ``-slope`` to the subdifferential, per coordinate.

    At zero the subdifferential of the L1 part is ``[-l1, l1]``; under positivity it
    also contains everything below.
    """
    if np.count_nonzero(positive):
        slope = np.where((params == 0) & positive, np.minimum(slope, 0.0), slope)
    pull = np.sign(params) * l1
    # What is subtracted is the strength at zero, and nothing elsewhere.
    return np.maximum(np.abs(slope + pull) - (l1 - np.abs(pull)), 0.0)


@dataclass(frozen=True)
class SeparablePenalty:
    """Elastic net with optional positivity, coordinate by coordinate.

    Parameters
    ----------
    l1, l2 : ndarray of shape (n_params, 1)
        Non-negative strengths.
    positive : ndarray of bool of shape (n_params, 1)
        Coordinates that must not be negative.
    """

    l1: np.ndarray
    l2: np.ndarray
    positive: np.ndarray

    @cached_property
    def is_smooth(self) -> bool:
        """Whether there is neither an L1 term nor a constraint."""
        return not (np.count_nonzero(self.l1) or np.count_nonzero(self.positive))

    @cached_property
    def is_zero(self) -> bool:
        """Whether no coordinate is penalised, whatever the constraints."""
        return not (np.count_nonzero(self.l1) or np.count_nonzero(self.l2))

    def value(self, params) -> float:
        """Penalty at feasible ``params``."""
        size = np.abs(params)
        return float(((self.l1 + 0.5 * self.l2 * size) * size).sum())

    def violation(self, params, smooth_gradient):
        """Distance of ``-smooth_gradient`` to the subdifferential, per coordinate."""
        return violation(params, smooth_gradient, self.l1, self.positive)

    def scaled(self, scale) -> "SeparablePenalty":
        """Penalty for ``params = user_params * scale`` (one scale per row)."""
        scale = scale[:, None]
        # An infinite strength would be multiplied by coefficients that are zero.
        l1 = self.l1 / np.maximum(scale, self.l1 / _STRONGEST)
        l2 = self.l2 / np.maximum(scale**2, self.l2 / _STRONGEST)
        return SeparablePenalty(l1, l2, self.positive)

    def flat(self, n_outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Strengths ``l1`` and ``l2`` and ``positive`` of the flat coordinates."""
        l1, l2, positive = self.l1[:, 0], self.l2[:, 0], self.positive[:, 0]
        if n_outputs > 1:
            l1, l2, positive = (np.repeat(a, n_outputs) for a in (l1, l2, positive))
        return l1, l2, positive

    def restrict(self, rows) -> "SeparablePenalty":
        """Penalty of some rows of ``params``."""
        return SeparablePenalty(self.l1[rows], self.l2[rows], self.positive[rows])
