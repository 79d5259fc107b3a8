"""Dual values are bounds for all sums within the errors that are claimed for them."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from skcara.objective._criteria import _dual_value

ERROR = 1e-6


@pytest.mark.parametrize(("l1", "l2"), [(0.3, 0.0), (0.3, 0.2), (0.0, 0.2)])
def test_dual_value_is_below_the_minimum_whatever_rounding_did(l1, l2):
    """Of orthonormal columns the minimum is known; there is no gap to hide in."""
    products = np.array([1.0, -0.7, 0.2, 0.5, 0.0])
    coef = np.sign(products) * np.maximum(np.abs(products) - l1, 0.0) / (1 + l2)
    square = 3.0 - 2 * products @ coef + coef @ coef
    minimum = 0.5 * square + l1 * np.abs(coef).sum() + 0.5 * l2 * coef @ coef
    values = []
    for first, second in product((-1, 0, 1), repeat=2):
        residual = SimpleNamespace(
            coef=coef,
            coef_sizes=np.abs(coef),
            is_positive=np.zeros(5, dtype=bool),
            covariance=products - coef + first * ERROR * np.sign(products),
            covariance_error=np.full(5, ERROR),
            square=square + second * ERROR,
            square_error=ERROR,
        )
        values.append(_dual_value(residual, l1, l2))
    assert max(values) <= minimum + 1e-15
    assert min(values) >= minimum - 30 * ERROR
