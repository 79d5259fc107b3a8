r"""Second moments of blocks by groups of rows, for second-order matching.

For the squared loss, a measure that matches :math:`g_B` and
:math:`\mathrm{vech}(\sum_i \mu_i x_{i,B} x_{i,B}^\top)` has the gradient of the full
data at *every* position of the block, not only at the anchor. Finding it needs the
products of the block's columns summed over the same groups of rows as the gradients.
Their total is the block's Hessian, so one pass gives both.
"""

import numpy as np
from scipy import sparse

from skcara.solvers._curvature import FEW_COLUMNS, BoundedCurvature

# Entries of the dense copy of the columns of a piece of a chunk.
_PIECE_ENTRIES = 2**20
# Bytes of the group sums that are kept from round to round.
_MAX_KEPT_BYTES = 2**24


class GroupedCurvature(BoundedCurvature):
    """Curvature of the squared loss that also knows every group's share of it.

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    group_rows : int
        Rows of a group, a divisor of ``problem.design.chunk_rows``.
    """

    def __init__(self, problem, group_rows):
        super().__init__(problem)
        self.group_rows = group_rows
        self._products = {}

    def moving_hessians(self, blocks):
        """H_B of the blocks that move, as totals of their group products."""
        if self.problem.n_params <= FEW_COLUMNS:
            missing = [np.arange(self.problem.n_params)] if not self._products else []
        else:
            missing = [b for b in blocks if b.tobytes() not in self._products]
        if missing:
            self._forget_if_full()
            products = self._read_products(missing)
            for columns, own_products in zip(missing, products, strict=True):
                self._products[columns.tobytes()] = own_products
        return [
            self._expand(block, block, self._total(self.group_products(block)))
            for block in blocks
        ]

    def group_products(self, block):
        """Sums of products of the block's columns over the groups of rows.

        Parameters
        ----------
        block : ndarray of shape (block_size,)
            A block whose Hessian was asked for in this round.

        Returns
        -------
        products : ndarray of shape (n_groups, block_size * (block_size + 1) / 2)
            Weighted sums of ``x_a * x_b`` for the pairs of :func:`column_pairs`.
        """
        if block.tobytes() in self._products:
            return self._products[block.tobytes()]
        # There are few columns, and the products of all of them are known.
        (everything,) = self._products.values()
        first, second = column_pairs(block.size)
        numbers = pair_numbers(self.problem.n_params)
        return everything[:, numbers[block[first], block[second]]]

    @staticmethod
    def _total(products):
        """Matrix of second moments from the group sums of the pairs."""
        totals = products.sum(axis=0)
        size = int(np.sqrt(2 * totals.size))
        numbers = pair_numbers(size)
        return totals[np.maximum(numbers, numbers.T)]

    def _forget_if_full(self):
        if sum(kept.nbytes for kept in self._products.values()) > _MAX_KEPT_BYTES:
            self._products = {}

    def _read_products(self, columns):
        reader = _ProductReader(self.problem, columns, self.group_rows)
        self.passes += reader.column_share
        return reader.read()


def column_pairs(n_columns):
    """Positions of the pairs of columns whose products are kept, first <= second."""
    return np.triu_indices(n_columns)


def pair_numbers(n_columns):
    """Number of the pair (first, second); -1 below the diagonal."""
    numbers = np.full((n_columns, n_columns), -1)
    numbers[column_pairs(n_columns)] = np.arange(n_columns * (n_columns + 1) // 2)
    return numbers


class _ProductReader:
    """One pass that sums products of columns over groups of rows.

    Parameters
    ----------
    problem : Problem
        The full data.
    columns : list of ndarray
        Sets of columns.
    group_rows : int
        Rows of a group.
    """

    def __init__(self, problem, columns, group_rows):
        self._problem = problem
        self._columns = columns
        self._group_rows = group_rows
        self._asked = np.unique(np.concatenate(columns))
        self._size = max(own.size for own in columns)
        # Smaller sets are filled up with a column of zeros, so that one product of
        # two selections of columns serves all sets.
        self._positions = np.full((len(columns), self._size), self._asked.size)
        for number, own in enumerate(columns):
            self._positions[number, : own.size] = np.searchsorted(self._asked, own)
        n_groups = -(-problem.n_rows // group_rows)
        n_pairs = self._size * (self._size + 1) // 2
        self._sums = np.zeros((n_groups, n_pairs, len(columns)))

    @property
    def column_share(self):
        return self._asked.size / self._problem.n_params

    def read(self):
        """Group sums (n_groups, n_pairs) for each set of columns."""
        self._problem.design.map_reduce(self._visit, explicit=True)
        numbers = pair_numbers(self._size)
        return [
            self._sums[:, numbers[column_pairs(own.size)], number]
            for number, own in enumerate(self._columns)
        ]

    def _visit(self, start, rows):
        group_rows = self._group_rows
        n_piece = max(_PIECE_ENTRIES // (self._asked.size * group_rows), 1) * group_rows
        for first in range(0, rows.shape[0], n_piece):
            self._add_piece(start + first, rows[first : first + n_piece])
        return ()

    def _add_piece(self, start, rows):
        n_rows = rows.shape[0]
        kept, chosen = self._dense_columns(rows)
        bounds = np.arange(0, n_rows + self._group_rows, self._group_rows)
        weights = self._problem.row_weights(slice(start, start + n_rows))[kept]
        adder = sparse.csr_array(
            (weights, np.arange(kept.size), np.searchsorted(kept, bounds)),
            shape=(bounds.size - 1, kept.size),
        )
        first_group = start // self._group_rows
        groups = slice(first_group, first_group + bounds.size - 1)
        for pair, (left, right) in enumerate(
            zip(*column_pairs(self._size), strict=True)
        ):
            left, right = self._positions[:, left], self._positions[:, right]
            self._sums[groups, pair] = adder @ (chosen[:, left] * chosen[:, right])

    def _dense_columns(self, rows):
        """Rows that matter, and their asked columns with a column of zeros behind."""
        n_features = self._problem.design.n_features
        features = self._asked[self._asked < n_features]
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
