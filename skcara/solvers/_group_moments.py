r"""Second moments of blocks by groups of rows, for second-order matching.

For the squared loss, a measure that matches :math:`g_B` and
:math:`\mathrm{vech}(\sum_i \mu_i x_{i,B} x_{i,B}^\top)` has the gradient of the full
data at *every* position of the block, not only at the anchor. Finding it needs the
products of the block's columns summed over the same groups of rows as the gradients.
Their total is the block's Hessian, so one pass gives both.
"""

import numpy as np
from scipy import sparse

from skcara.solvers._curvature import BoundedCurvature


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
        self._groups = {}

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
        if self._gram is None:
            return self._groups[block.tobytes()]
        (everything,) = self._groups.values()
        left, right = column_pairs(self.problem.n_params)
        number = np.empty((left.max() + 1, left.max() + 1), dtype=np.intp)
        number[left, right] = np.arange(left.size)
        first, second = column_pairs(block.size)
        return everything[:, number[block[first], block[second]]]

    def _read_grams(self, columns):
        self.passes += 1
        sums = _read_products(self.problem, columns, self.group_rows)
        self._groups = {
            key: sums_of_set
            for key, sums_of_set in self._groups.items()
            if key in self._kept
        }
        grams = []
        for own, own_sums in zip(columns, sums, strict=True):
            self._groups[own.tobytes()] = own_sums
            left, right = column_pairs(own.size)
            gram = np.empty((own.size, own.size))
            gram[left, right] = gram[right, left] = own_sums.sum(axis=0)
            grams.append(gram)
        return grams


def column_pairs(n_columns):
    """Positions of the pairs of columns whose products are kept, first <= second."""
    return np.triu_indices(n_columns)


def _read_products(problem, columns, group_rows):
    """Group sums of products, one array (n_groups, n_pairs) for each set of columns."""
    design = problem.design
    asked = np.unique(np.concatenate(columns))
    size = max(own.size for own in columns)
    left, right = column_pairs(size)
    # Smaller sets are filled up with a column of zeros, so that one product of two
    # selections of columns serves all sets.
    positions = np.full((len(columns), size), asked.size)
    for number, own in enumerate(columns):
        positions[number, : own.size] = np.searchsorted(asked, own)
    n_groups = -(-problem.n_rows // group_rows)
    sums = np.empty((n_groups, left.size, len(columns)))

    def visit(start, rows):
        n_rows = rows.shape[0]
        chosen = np.zeros((n_rows, asked.size + 1))
        features = asked[asked < design.n_features]
        entries = rows[:, features]
        chosen[:, : features.size] = (
            entries.toarray() if sparse.issparse(entries) else entries
        )
        chosen[:, features.size : asked.size] = 1.0
        weighted = chosen * problem.weights[start : start + n_rows, None]
        starts = np.arange(0, n_rows, group_rows)
        groups = slice(start // group_rows, start // group_rows + starts.size)
        for pair, (first, second) in enumerate(zip(left, right, strict=True)):
            product = weighted[:, positions[:, first]] * chosen[:, positions[:, second]]
            np.add.reduceat(product, starts, axis=0, out=sums[groups, pair])
        return (0,)

    design.map_reduce(visit, explicit=True)
    pair_number = np.empty((size, size), dtype=np.intp)
    pair_number[left, right] = np.arange(left.size)
    return [
        sums[:, pair_number[column_pairs(own.size)], number]
        for number, own in enumerate(columns)
    ]
