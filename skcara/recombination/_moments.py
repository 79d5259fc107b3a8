r"""One pass over the rows: group sums, group masses and the size of the columns.

The rows are cut into contiguous groups of equal size (the last one may be shorter).
A pass reads them in blocks that fit in cache, so no temporary is larger than a block,
and each block is used for everything while it is there:

* group sums :math:`\sum_{i \in g} w_i p_i`, one matrix product per block;
* the largest absolute entry of each column, for the measure of accuracy.

A NaN or an infinity in the rows always reaches the column maxima (also in a row of mass
zero, because :math:`0 \cdot \infty` is NaN), so no separate scan is needed.

Exponents
---------
Sums of values near the limits of float64 overflow, products with small masses lose
digits. Both are avoided by scaling columns with powers of two, which is exact; but
scaling costs a copy of the block, so it is done only when the maxima found by an
unscaled pass ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Entries per block: half a megabyte of float64, within the second-level cache.
BLOCK_ENTRIES = 1 << 16

# Magnitudes for which products and sums of any realistic number of rows are safe.
SAFE_MIN, SAFE_MAX = 1e-120, 1e120

# Length of the rows that a maximum over columns is fastest for, and number of rows for
# which their length does not matter.
FOLDED_ENTRIES = 2048
FEW_ROWS = 16


@dataclass(frozen=True)
class Rows:
    """The caller's points and masses, read block by block and never copied whole.

    Attributes
    ----------
    points : ndarray of shape (n_rows, n_columns)
        Any real dtype and memory layout.
    weights : ndarray of shape (n_rows,) or None
        Masses, at most of order one; None stands for one each.
    exponents : ndarray of shape (n_columns,) or None
        Columns are read multiplied by two to this power; None reads them as they are.
    """

    points: np.ndarray
    weights: np.ndarray | None
    exponents: np.ndarray | None = None

    def read(self, selection) -> np.ndarray:
        """Return some rows as a C-ordered float64 array, a view where possible."""
        block = np.ascontiguousarray(self.points[selection], dtype=np.float64)
        return block if self.exponents is None else np.ldexp(block, self.exponents)

    def masses(self, selection) -> np.ndarray:
        """Return a copy of the masses of the selected row numbers."""
        if self.weights is None:
            return np.ones(len(selection))
        return self.weights[selection]


@dataclass(frozen=True)
class GroupMoments:
    """Sums over contiguous groups of `group_size` rows.

    Attributes
    ----------
    sums : ndarray of shape (n_groups, n_columns)
    masses : ndarray of shape (n_groups,)
    peak : ndarray of shape (n_columns,)
        Largest absolute entry of each column among the rows with positive mass.
    group_size : int
    """

    sums: np.ndarray
    masses: np.ndarray
    peak: np.ndarray
    group_size: int


class Totals(NamedTuple):
    """Moments of the measure that is to be matched.

    Attributes
    ----------
    sums : ndarray of shape (n_columns,)
    mass : float
    peak : ndarray of shape (n_columns,)
        Largest absolute entry of each column.
    """

    sums: np.ndarray
    mass: float
    peak: np.ndarray


@dataclass(frozen=True)
class Summary:
    """The measure to reduce, with what one read of its rows has found.

    Attributes
    ----------
    rows : Rows
    moments : GroupMoments
        Of the groups of the first level.
    totals : Totals
    """

    rows: Rows
    moments: GroupMoments
    totals: Totals


def column_peak(block: np.ndarray) -> np.ndarray:
    """Return the largest absolute entry of each column of a C-ordered block."""
    highest = reduce_columns(np.maximum, block)
    lowest = reduce_columns(np.minimum, block)
    return np.maximum(highest, -lowest)


def reduce_columns(operation: np.ufunc, block: np.ndarray) -> np.ndarray:
    """Apply a maximum or minimum down the columns of a C-ordered block.

    NumPy reduces long rows many times faster than short ones, so rows are laid side by
    side before they are compared.
    """
    n_rows, n_columns = block.shape
    while n_rows > FEW_ROWS and n_columns:
        fold = max(1, min(n_rows // FEW_ROWS, FOLDED_ENTRIES // n_columns))
        if fold == 1:
            break
        n_rest = n_rows % fold
        folded = block[: n_rows - n_rest].reshape(-1, fold * n_columns)
        reduced = operation.reduce(folded, axis=0).reshape(fold, n_columns)
        operation(reduced[:n_rest], block[n_rows - n_rest :], out=reduced[:n_rest])
        block, n_rows = reduced, fold
    return operation.reduce(block, axis=0)


def group_moments(rows: Rows, group_size: int) -> GroupMoments:
    """Sum the rows over contiguous groups in one pass."""
    n_rows, n_columns = rows.points.shape
    n_groups = -(-n_rows // group_size)
    groups_per_block = max(1, BLOCK_ENTRIES // (group_size * max(1, n_columns)))
    sums = np.empty((n_groups, n_columns))
    masses = np.empty(n_groups)
    peak = np.zeros(n_columns)
    # Overflow is not an error here: it shows in the maxima, and the caller repeats
    # the pass with scaled columns.
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, n_groups, groups_per_block):
            last = min(first + groups_per_block, n_groups)
            span = slice(first * group_size, min(last * group_size, n_rows))
            block = rows.read(span)
            weights = None if rows.weights is None else rows.weights[span]
            sum_groups(block, weights, group_size, sums[first:last], masses[first:last])
            if weights is not None and not weights.all():
                block = block * (weights > 0.0)[:, None]
            np.maximum(peak, column_peak(block), out=peak)
    return GroupMoments(sums, masses, peak, group_size)


def sum_groups(block, weights, group_size, sums, masses) -> None:
    """Write the sums and masses of the groups of one block into the given arrays."""
    n_rows, n_columns = block.shape
    n_whole = n_rows // group_size
    whole = n_whole * group_size
    stacked = block[:whole].reshape(n_whole, group_size, n_columns)
    if weights is None:
        np.matmul(np.ones(group_size), stacked, out=sums[:n_whole])
        masses[:n_whole] = group_size
        if whole < n_rows:
            sums[n_whole] = block[whole:].sum(axis=0)
            masses[n_whole] = n_rows - whole
        return
    grouped = weights[:whole].reshape(n_whole, 1, group_size)
    np.matmul(grouped, stacked, out=sums[:n_whole, None, :])
    grouped.sum(axis=(1, 2), out=masses[:n_whole])
    if whole < n_rows:
        sums[n_whole] = weights[whole:] @ block[whole:]
        masses[n_whole] = weights[whole:].sum()


def column_sums(values: np.ndarray, masses: np.ndarray | float = 1.0) -> np.ndarray:
    """Add up rows times masses, with an error that hardly grows with their number.

    Rows that are added one after the other round alike where they are alike; NumPy
    adds pairs of pairs, but along contiguous memory only.
    """
    return np.multiply(values.T, masses, order="C").sum(axis=1)


def safe_exponents(peak: np.ndarray) -> np.ndarray | None:
    """Return powers of two that bring the columns to order one.

    None if there is nothing to scale, or columns that cannot be scaled.
    """
    is_safe = (peak == 0.0) | ((peak > SAFE_MIN) & (peak < SAFE_MAX))
    if is_safe.all() or not np.isfinite(peak).all():
        return None
    _, exponents = np.frexp(peak)
    return -exponents


def group_rows(groups, group_size: int, n_rows: int) -> np.ndarray:
    """Return the row numbers of the given groups, group after group."""
    rows = (groups[:, None] * group_size + np.arange(group_size)).ravel()
    return rows[rows < n_rows]
