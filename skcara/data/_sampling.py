r"""Random rows that represent all the rows.

Rows of equal weight are drawn by stratified sampling: the rows are cut into equal parts
and one is drawn in each. Sorted, periodic or drifting data are thus represented evenly,
whatever their order, and a strided part of a sample is itself a stratified sample.

Rows of unequal density :math:`d_i` are drawn by *priority sampling* [1]_: with a number
:math:`u_i` in (0, 1) that depends on the seed and the number of the row alone, the
:math:`k` rows of the largest priorities :math:`d_i / u_i` are kept, and with the next
priority :math:`\tau` the row ``i`` stands for :math:`\max(1, \tau / d_i)` rows like it.
That is unbiased, keeps rows that are certain to matter with their own weight, and needs
one read in any order: neither the total density nor an array of the length of the data.

References
----------
.. [1] N. Duffield, C. Lund and M. Thorup, "Priority sampling for estimation of
   arbitrary subset sums", Journal of the ACM 54 (2007), doi:10.1145/1314690.1314696.
"""

from typing import NamedTuple

import numpy as np

# Constants of the finaliser of a 64-bit mixing generator (splitmix64).
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))

# A number and the quotient that it is compared with are rounded, by less than this.
_UNIFORM_SLACK = 2.0**-49

# Candidates of a sample may outnumber it by this factor before they are sorted out.
_CROWDED = 1.25


def random_generator(seed) -> np.random.RandomState:
    """Return the generator of an integer seed; a generator is its own."""
    if isinstance(seed, np.random.RandomState):
        return seed
    # Seeding this one takes a tenth of the time of the usual one, a quarter of a
    # millisecond, which a small fit would notice.
    return np.random.RandomState(np.random.PCG64(seed))


def stratified_rows(n_draws: int, n_rows: int, rng):
    """Draw one row of each of ``n_draws`` parts of equal length.

    Returns
    -------
    indices : ndarray of int of shape (n_draws,), ascending and distinct
    weights : ndarray of shape (n_draws,)
        Shares of the parts, summing to one.
    """
    edges = np.arange(n_draws + 1) * n_rows // n_draws
    widths = np.diff(edges)
    offsets = (rng.uniform(size=n_draws) * widths).astype(np.intp)
    return edges[:-1] + offsets, widths / n_rows


def row_uniforms(seed: int, start: int, n_rows: int):
    """Numbers in (0, 1), a function of the seed and the number of the row alone."""
    return _uniforms(_row_bits(seed, start, n_rows))


def rare_uniforms(seed: int, start: int, n_rows: int, most: float):
    """Those of the same numbers that are small, without making the others.

    Parameters
    ----------
    seed, start, n_rows : int
        As of :func:`row_uniforms`.
    most : float
        Largest number that is wanted. Some that are larger by a rounding error may be
        among the answers.

    Returns
    -------
    rows : ndarray of int
        Which rows have them, counted from ``start``.
    uniforms : ndarray of float
        The numbers.
    """
    bits = _row_bits(seed, start, n_rows)
    if most + _UNIFORM_SLACK >= 1:
        return np.arange(n_rows), _uniforms(bits)
    rows = np.flatnonzero(bits <= np.uint64((most + _UNIFORM_SLACK) * 2.0**64))
    return rows, _uniforms(bits[rows])


def _row_bits(seed, start, n_rows):
    """Random 64 bits for each row."""
    bits = np.arange(n_rows, dtype=np.uint64)
    shifted = np.empty_like(bits)
    with np.errstate(over="ignore"):
        # In place: memory that is new for every step would cost more than the step.
        bits *= _INCREMENT
        bits += (np.uint64(start) + np.uint64(1)) * _INCREMENT
        bits += np.uint64(seed) * _MULTIPLIERS[0]
        for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, None), strict=True):
            np.right_shift(bits, shift, out=shifted)
            bits ^= shifted
            if multiplier is not None:
                bits *= multiplier
    return bits


def _uniforms(bits):
    # 53 bits, in the middle of their interval: never zero or one.
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


class PriorityRows(NamedTuple):
    """Rows that may be in a sample, a value that can be merged.

    Single precision is enough for what decides about a random choice, and for weights
    that represent other rows: there may be as many candidates as rows in a sample.

    Attributes
    ----------
    indices : ndarray of int
    priorities : ndarray of float32
    weights : ndarray of float32
        What the row itself weighs.
    ratios : ndarray of float32
        Weights divided by densities.
    """

    indices: np.ndarray
    priorities: np.ndarray
    weights: np.ndarray
    ratios: np.ndarray

    @classmethod
    def of_chunk(cls, start, densities, weights, *, n_draws, seed) -> "PriorityRows":
        """Candidates among consecutive rows; a density of zero is never drawn."""
        priorities = densities / row_uniforms(seed, start, len(densities))
        priorities = priorities.astype(np.float32)
        found = np.flatnonzero(priorities)
        rows = cls(
            start + found,
            priorities[found],
            weights[found].astype(np.float32),
            (weights[found] / densities[found]).astype(np.float32),
        )
        return rows._largest(n_draws + 1)

    def merge(self, other: "PriorityRows", n_draws: int) -> "PriorityRows":
        """Candidates among the rows of both."""
        rows = PriorityRows(
            *(np.concatenate(pair) for pair in zip(self, other, strict=True))
        )
        # Sorting out now and then costs less than at every merge.
        is_crowded = len(rows.indices) > _CROWDED * (n_draws + 1)
        return rows._largest(n_draws + 1) if is_crowded else rows

    def _largest(self, n_kept):
        if len(self.indices) <= n_kept:
            return self
        kept = np.argpartition(-self.priorities, n_kept - 1)[:n_kept]
        return PriorityRows(*(values[kept] for values in self))

    def sample(self, n_draws: int):
        """Rows of the sample and the weights with which they represent all rows.

        Returns
        -------
        indices : ndarray of int, ascending and distinct
        weights : ndarray of float
            Unbiased: their expected sum over any set of rows is that of the weights.
        """
        rows, threshold = self, np.float32(0.0)
        if len(self.indices) > n_draws:
            rows = self._largest(n_draws + 1)
            last = np.argmin(rows.priorities)
            threshold = rows.priorities[last]
            rows = PriorityRows(*(np.delete(values, last) for values in rows))
        order = np.argsort(rows.indices)
        weights = np.maximum(rows.weights, threshold * rows.ratios)[order]
        return rows.indices[order], weights.astype(np.float64)
