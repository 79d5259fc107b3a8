r"""Sums of parts without any rounding, so that their order does not matter.

Dask puts neighbouring parts on different workers. If the last bit of a sum depended on
the order of its terms, a worker could add up next to nothing before it sends its share
away. So a sum is kept as a few numbers :math:`t_1 + t_2 + \dots` whose exact sum is
that of all terms: :math:`a + b = s + e`, with the rounded sum :math:`s` and its error
:math:`e`, which is a floating point number itself (Knuth's two-sum). The errors are
added up in the same way. Rounding once, at the end, gives the same bits in any order.

References
----------
Donald E. Knuth, The Art of Computer Programming, volume 2, section 4.2.2.
Jonathan R. Shewchuk, Adaptive precision floating-point arithmetic and fast robust
geometric predicates, https://doi.org/10.1007/PL00009321.
"""

from math import fsum, prod
from typing import NamedTuple

import numpy as np


class ExactSums:
    """Results of tasks that are sums of real numbers.

    Parameters
    ----------
    results : list of lists of float or ndarray
        Floating point numbers, or integers below :math:`2^{53}`.
    """

    def __init__(self, results: list[list]):
        # One vector for all: it travels, and is added, at once.
        self._like = [[_Like.of(entry) for entry in result] for result in results]
        vectors = [np.ravel(entry) for result in results for entry in result]
        self._terms = [np.concatenate(vectors, dtype=np.float64, casting="unsafe")]

    @staticmethod
    def can_hold(entry) -> bool:
        """Whether an entry is a real number or an array of them."""
        is_array = isinstance(entry, np.ndarray | np.generic | int | float)
        return is_array and np.asarray(entry).dtype.kind in "iuf"

    def __iadd__(self, other: "ExactSums"):
        for term in other._terms:
            self._add(term)
        return self

    def _add(self, term):
        for place, total in enumerate(self._terms):
            self._terms[place], term = _two_sum(total, term)
            if not term.any():
                return
        self._terms.append(term)

    def rounded(self) -> list[list]:
        """Return the sums, in the shapes and types of the results."""
        total, *errors = self._terms
        if errors:
            # A single addition rounds right; few entries, if any, need more than one.
            total = total + errors[0]
            for entry in np.flatnonzero(np.any(errors[1:], axis=0)):
                total[entry] = fsum(term[entry] for term in self._terms)
        sizes = [like.size for result in self._like for like in result]
        parts = iter(np.split(total, np.cumsum(sizes)[:-1]))
        return [[like.shaped(next(parts)) for like in result] for result in self._like]


class _Like(NamedTuple):
    """Shape and type of an entry."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, entry):
        return cls(np.shape(entry), np.asarray(entry).dtype)

    @property
    def size(self):
        return prod(self.shape)

    def shaped(self, vector):
        """Entry with these numbers."""
        # Without dimensions a number, not an array.
        return vector.reshape(self.shape).astype(self.dtype)[()]


def _two_sum(left, right):
    """Rounded sum of two arrays, and what was lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = left + right
        share = total - left
        error = (left - (total - share)) + (right - share)
    # Nothing is to be added to an infinite sum.
    error[~np.isfinite(total)] = 0.0
    return total, error
