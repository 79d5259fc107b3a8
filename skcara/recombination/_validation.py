"""Checks at the border of the package; behind it arrays are trusted."""

from __future__ import annotations

from functools import cached_property
from numbers import Integral

import numpy as np
from scipy.sparse import issparse


class RandomSource:
    """A checked ``random_state`` whose generator is built on first use.

    Building a generator costs more than a small recombination, and the
    deterministic methods never ask for one.
    """

    def __init__(self, random_state):
        is_valid = random_state is None or isinstance(
            random_state, (Integral, np.random.Generator, np.random.RandomState)
        )
        if not is_valid or isinstance(random_state, bool):
            raise TypeError(
                "random_state must be None, an int, a RandomState or a Generator; "
                f"got {type(random_state).__name__}."
            )
        if isinstance(random_state, Integral) and random_state < 0:
            raise ValueError(f"random_state must not be negative; got {random_state}.")
        self._random_state = random_state

    @cached_property
    def generator(self) -> np.random.Generator:
        """The generator; the same integer gives the same stream."""
        if isinstance(self._random_state, np.random.RandomState):
            return np.random.default_rng(self._random_state.randint(2**31, size=4))
        return np.random.default_rng(self._random_state)


def check_array(values, name: str, n_dimensions: int) -> np.ndarray:
    """Return `values` as a real array of the asked dimension, uncopied if it is one."""
    if issparse(values):
        raise TypeError(f"{name} must be a dense array; got a sparse matrix.")
    try:
        array = np.asarray(values)
    except ValueError as error:  # a ragged list
        raise ValueError(f"{name} must be a rectangular array: {error}") from error
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    if array.ndim != n_dimensions:
        raise ValueError(
            f"{name} must have {n_dimensions} dimension(s); got shape {array.shape}."
        )
    return array


def check_points(points, name: str = "points") -> np.ndarray:
    """Return `points` as a two-dimensional real array with at least one row."""
    points = check_array(points, name, 2)
    if points.shape[0] == 0:
        raise ValueError(f"{name} must have at least one row; got {points.shape}.")
    return points


def check_weights(
    weights, n_points: int, name: str = "weights", *, allow_zero_mass: bool = False
) -> np.ndarray:
    """Return `weights` as a float64 array of non-negative finite masses."""
    weights = check_array(weights, name, 1)
    if weights.shape[0] != n_points:
        raise ValueError(
            f"{name} must have one entry per row, {n_points}; got {weights.shape[0]}."
        )
    weights = weights.astype(np.float64, copy=False)
    # NaN makes the comparison false, so the negation catches it as well.
    if not weights.min(initial=0.0) >= 0.0:
        raise ValueError(f"{name} must not contain negative values or NaN.")
    largest = weights.max(initial=0.0)
    if largest == np.inf:
        raise ValueError(f"{name} must be finite; got infinity.")
    if largest == 0.0 and not allow_zero_mass:
        raise ValueError(f"{name} must not all be zero.")
    return weights


def check_target_size(target_size) -> int | None:
    """Return `target_size` as an int of at least one, or None."""
    if target_size is None:
        return None
    if not isinstance(target_size, Integral) or isinstance(target_size, bool):
        raise TypeError(
            f"target_size must be an int or None; got {type(target_size).__name__}."
        )
    if target_size < 1:
        raise ValueError(f"target_size must be at least 1; got {target_size}.")
    return int(target_size)


def check_offsets(offsets, n_groups: int) -> np.ndarray:
    """Return the boundaries of contiguous groups as an int64 array."""
    offsets = check_array(offsets, "offsets", 1)
    if offsets.dtype.kind not in "iu":
        raise TypeError(f"offsets must be integers; got dtype {offsets.dtype}.")
    if offsets.shape[0] != n_groups + 1:
        raise ValueError(
            f"offsets must have one entry more than there are groups, {n_groups + 1}; "
            f"got {offsets.shape[0]}."
        )
    offsets = offsets.astype(np.int64, copy=False)
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets must not be negative and must not decrease.")
    return offsets
