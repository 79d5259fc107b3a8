"""Second moments of columns and of blocks of columns."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from skcara.data import SumTask, scaled_rows, squared
from skcara.objective import Problem

# Entries of the dense copy of the columns of a piece of a chunk.
_PIECE_ENTRIES = 2**20


@dataclass(frozen=True, eq=False)
class ColumnSquares(SumTask):
    """Weighted mean square of every feature."""

    problem: Problem

    def visit(self, chunk):
        """Sums of squares."""
        rows = self.problem.coordinates.standardised_rows(chunk.rows)
        weights = self.problem.shares_of(chunk)
        if sparse.issparse(rows):
            return [squared(rows).T @ weights]
        return [np.einsum("i,ij,ij->j", weights, rows, rows)]

    def finish(self, total):
        """Return the mean squares."""
        return total[0]


@dataclass(frozen=True, eq=False)
class BlockGrams(SumTask):
    """Weighted second moments of sets of columns, the intercept being the last one.

    Attributes
    ----------
    problem : Problem
    columns : tuple of ndarray of int
        Sets of columns, each ascending.
    """

    problem: Problem
    columns: tuple[np.ndarray, ...]

    @cached_property
    def _asked(self):
        return np.unique(np.concatenate(self.columns))

    @property
    def cost(self):
        """Reading some columns counts as their share."""
        return self._asked.size / self.problem.n_params

    def visit(self, chunk):
        """Products of columns."""
        rows = self.problem.coordinates.design_rows(chunk.rows)
        weights = self.problem.shares_of(chunk)
        if sparse.issparse(rows):
            return [self._sparse_products(rows, weights)]
        grams = []
        for own in self.columns:
            chosen = rows if own.size == rows.shape[1] else rows[:, own]
            grams.append((chosen * weights[:, None]).T @ chosen)
        return grams

    def finish(self, total):
        """Return one matrix for each set."""
        if not self.problem.facts.is_sparse:
            return total
        return [total[0][np.searchsorted(self._wanted, one)] for one in self._codes]

    # Of sparse rows only the pairs of columns that are asked for are added up, so that
    # the memory is that of the answer, whatever the number of columns.

    @cached_property
    def _codes(self):
        """One number for every ordered pair of columns of a set."""
        return [own[:, None] * self.problem.n_params + own for own in self.columns]

    @cached_property
    def _wanted(self):
        return np.unique(np.concatenate([codes.ravel() for codes in self._codes]))

    def _sparse_products(self, rows, weights):
        rows = rows[:, self._asked]
        products = (rows.T @ scaled_rows(rows, weights)).tocoo()
        left, right = self._asked[products.row], self._asked[products.col]
        codes = left * self.problem.n_params + right
        place = np.searchsorted(self._wanted, codes)
        place = np.minimum(place, self._wanted.size - 1)
        hit = self._wanted[place] == codes
        sums = np.bincount(
            place[hit], weights=products.data[hit], minlength=self._wanted.size
        )
        # Of nothing NumPy makes integers.
        return sums.astype(np.float64, copy=False)


def column_pairs(n_columns):
    """Positions of the pairs of columns whose products are kept, first <= second."""
    return np.triu_indices(n_columns)


def pair_numbers(n_columns):
    """Number of the pair (first, second); -1 below the diagonal."""
    numbers = np.full((n_columns, n_columns), -1)
    numbers[column_pairs(n_columns)] = np.arange(n_columns * (n_columns + 1) // 2)
    return numbers


@dataclass(frozen=True, eq=False)
class GroupProducts(SumTask):
    """Products of the columns of each set, summed over groups of rows.

    The answer is an array of shape (n_groups, n_pairs) for each set of columns.

    Attributes
    ----------
    problem : Problem
    columns : tuple of ndarray of int
        Sets of columns, each ascending.
    group_rows : int
        Rows of a group, a divisor of ``problem.facts.chunk_rows``.
    """

    problem: Problem
    columns: tuple[np.ndarray, ...]
    group_rows: int

    @cached_property
    def _asked(self):
        return np.unique(np.concatenate(self.columns))

    @property
    def cost(self):
        """Reading some columns counts as their share."""
        return self._asked.size / self.problem.n_params

    @property
    def _size(self):
        return max(own.size for own in self.columns)

    @cached_property
    def _positions(self):
        # Smaller sets are filled up with a column of zeros, so that one product of
        # two selections of columns serves all sets.
        positions = np.full((len(self.columns), self._size), self._asked.size)
        for number, own in enumerate(self.columns):
            positions[number, : own.size] = np.searchsorted(self._asked, own)
        return positions

    def visit(self, chunk):
        """Sums over the groups of a chunk."""
        rows = self.problem.coordinates.standardised_rows(chunk.rows)
        weights, group_rows = self.problem.shares_of(chunk), self.group_rows
        n_piece = max(_PIECE_ENTRIES // (self._asked.size * group_rows), 1) * group_rows
        pieces = []
        for first in range(0, rows.shape[0], n_piece):
            piece = slice(first, first + n_piece)
            pieces.append(self._piece_sums(rows[piece], weights[piece]))
        return [pieces]

    def finish(self, total):
        """Return the sums of each set of columns."""
        sums, numbers = np.concatenate(total[0]), pair_numbers(self._size)
        return [
            sums[:, numbers[column_pairs(own.size)], number]
            for number, own in enumerate(self.columns)
        ]

    def _piece_sums(self, rows, weights):
        """Sums of all pairs over the groups of some rows, (n_groups, n_pairs, sets)."""
        kept, chosen = self._dense_columns(rows)
        bounds = np.arange(0, rows.shape[0] + self.group_rows, self.group_rows)
        adder = sparse.csr_array(
            (weights[kept], np.arange(kept.size), np.searchsorted(kept, bounds)),
            shape=(bounds.size - 1, kept.size),
        )
        pairs = list(zip(*column_pairs(self._size), strict=True))
        sums = np.empty((bounds.size - 1, len(pairs), len(self.columns)))
        for pair, (left, right) in enumerate(pairs):
            left, right = self._positions[:, left], self._positions[:, right]
            sums[:, pair] = adder @ (chosen[:, left] * chosen[:, right])
        return sums

    def _dense_columns(self, rows):
        """Rows that matter, and their asked columns with a column of zeros behind."""
        features = self._asked[self._asked < self.problem.n_features]
        has_intercept = features.size < self._asked.size
        entries, kept = rows[:, features], np.arange(rows.shape[0])
        if sparse.issparse(entries):
            if not has_intercept:
                kept = np.flatnonzero(np.diff(entries.indptr))
                entries = entries[kept]
            entries = entries.toarray()
        chosen = np.zeros((kept.size, self._asked.size + 1))
        chosen[:, : features.size] = entries
        if has_intercept:
            chosen[:, features.size] = 1.0
        return kept, chosen
