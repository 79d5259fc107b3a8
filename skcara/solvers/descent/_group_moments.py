r"""Second moments of blocks by groups of rows, for second-order matching.

For the squared loss, a measure that matches :math:`g_B` and
:math:`\mathrm{vech}(\sum_i \mu_i x_{i,B} x_{i,B}^\top)` has the gradient of the full
data at *every* position of the block, not only at the anchor. Finding it needs the
products of the block's columns summed over the same groups of rows as the gradients.
Their total is the block's Hessian, so one pass gives both.
"""

import numpy as np

from skcara.passes import GroupProducts, column_pairs, pair_numbers
from skcara.solvers.descent._curvature import FEW_COLUMNS, BoundedCurvature

# Bytes of the group sums that are kept from round to round.
_MAX_KEPT_BYTES = 2**24


class GroupedCurvature(BoundedCurvature):
    """Curvature of the squared loss that also knows every group's share of it.

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    group_rows : int
        Rows of a group, a divisor of ``problem.facts.chunk_rows``.
    """

    def __init__(self, problem, group_rows):
        super().__init__(problem)
        self.group_rows = group_rows
        self._products = {}

    def load_moving(self, blocks):
        """Read the group products of the blocks that move."""
        if self.problem.n_params <= FEW_COLUMNS:
            missing = [np.arange(self.problem.n_params)] if not self._products else []
        else:
            missing = [b for b in blocks if b.tobytes() not in self._products]
        if not missing:
            return
        self._forget_if_full()
        products = yield GroupProducts(self.problem, tuple(missing), self.group_rows)
        for columns, own_products in zip(missing, products, strict=True):
            self._products[columns.tobytes()] = own_products

    def moving_hessians(self, blocks):
        """H_B of the blocks that move, as totals of their group products."""
        return [
            self._expand(block, block, self._total(self.group_products(block)))
            for block in blocks
        ]

    def group_products(self, block):
        """Sums of products of the block's columns over the groups of rows.

        Parameters
        ----------
        block : ndarray of shape (block_size,)
            A block that moves in this round.

        Returns
        -------
        products : ndarray of shape (n_groups, block_size * (block_size + 1) / 2)
            Weighted sums of ``x_a * x_b`` for the pairs of
            :func:`~skcara.passes.column_pairs`.
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
