"""What a recombination hands back, and how it says that it failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


class RecombinationError(RuntimeError):
    """Raised when no method, fallbacks included, met the accuracy contract."""


@dataclass(frozen=True, eq=False)
class Recombination:
    """A measure on a few of the points with the mass and the mean of all of them.

    Unpacks as ``indices, weights``.

    Attributes
    ----------
    indices : ndarray of shape (n_atoms,), dtype int64
        Rows of the points that survive, ascending.
    weights : ndarray of shape (n_atoms,)
        Their masses, strictly positive; they add up to the mass of the input.
    residual : float
        Largest column error of the weighted sum, relative to the mass times the
        largest absolute entry of that column. Measured on the returned arrays.
    method : str
        The method that answered, after any fallback: one of those that `recombine`
        lists, never "auto", or "nnls", the last resort.
    """

    indices: np.ndarray
    weights: np.ndarray
    residual: float
    method: str

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.indices, self.weights))


class MethodFailed(Exception):  # noqa: N818 - a signal to try the next method
    """Raised by a method that gives up; the next one of the chain takes over."""
