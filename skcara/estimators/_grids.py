"""Checks of the penalties that users ask for."""

from numbers import Integral, Real

import numpy as np


def check_l1_ratios(l1_ratio) -> tuple[float, ...]:
    """Return one or several ratios as floats.

    Raises
    ------
    ValueError
        If there is none, or one of them is not in [0, 1].
    """
    ratios = [l1_ratio] if isinstance(l1_ratio, Real) else list(l1_ratio)
    if not ratios or not all(isinstance(ratio, Real) for ratio in ratios):
        raise ValueError(
            f"l1_ratio must be a number or a list of numbers, got {l1_ratio!r}."
        )
    values = tuple(map(float, ratios))
    if not all(0 <= value <= 1 for value in values):
        raise ValueError(f"l1_ratio must be in [0, 1], got {l1_ratio!r}.")
    return values


def check_alphas(alphas):
    """Return the number of penalties, or the penalties in descending order.

    Raises
    ------
    TypeError
        If one of them is not a number.
    ValueError
        If there is none, or one of them is negative or not finite.
    """
    if isinstance(alphas, Integral):
        if alphas < 1:
            raise ValueError(f"alphas must be at least 1 or a list, got {alphas!r}.")
        return int(alphas)
    for index, alpha in enumerate(alphas):
        if not isinstance(alpha, Real):
            raise TypeError(f"alphas[{index}] must be a number, got {alpha!r}.")
        if not 0 <= float(alpha) < np.inf:
            raise ValueError(
                f"alphas[{index}] must be non-negative and finite, got {alpha!r}."
            )
    values = np.sort(np.asarray(alphas, dtype=np.float64))[::-1].copy()
    if not values.size:
        raise ValueError("alphas must have at least one entry, got none.")
    return values
