r"""Gram matrices of the same sparse rows with many weights.

The Gram matrix of CSR rows with weights :math:`w` is a linear function of them: the
entry of the columns :math:`(a, b)` is the sum of :math:`w_i\, x_{ia} x_{ib}` over the
rows that have both. So the pairs of columns of every row, numbered :math:`a\, n + b`,
are the pattern of a sparse matrix, made once, whose product with many weights gives
many Gram matrices. Of encoded categories, even in columns that are scaled, only the
pattern is kept.
"""

import numpy as np

from skcara.data._rows import csr_view, squared, transposed

# Pairs that are kept, four bytes each, or twelve with their products.
_MAX_PAIRS = 2**22
# A pair costs so much more than a term of a dense product that it pays only for rows
# with a smaller share of entries than this.
_MAX_SHARE = 0.15
# Pairs that are multiplied at a time: they, and ones as their products, stay in the
# cache, and a call is worth it.
_BLOCK_PAIRS = 2**18


class SparsePairs:
    """Pairs of entries of CSR rows.

    Parameters
    ----------
    rows : CSR array of shape (n_rows, n_columns)
    """

    def __init__(self, rows):
        self._n_columns = rows.shape[1]
        lengths = np.diff(rows.indptr)
        self._order = np.argsort(lengths, kind="stable")
        # The value of all entries of a column, where they have only one.
        self._scale = np.ones(self._n_columns)
        self._scale[rows.indices] = rows.data
        is_pattern = bool((rows.data == self._scale[rows.indices]).all())
        if not is_pattern:
            self._scale[:] = 1.0
        self._squares = transposed(squared(rows))
        most = max(_BLOCK_PAIRS, int(lengths.max(initial=0)) ** 2)
        self._ones = np.ones(most) if is_pattern else None
        self._blocks = [
            (part, self._block(rows, self._order[part], length))
            for part, length in _equal_parts(lengths[self._order])
        ]

    @staticmethod
    def fit(rows) -> bool:
        """Whether the pairs of these rows pay, and fit into memory."""
        n_rows, n_columns = rows.shape
        lengths = np.diff(rows.indptr).astype(np.int64)
        n_squares = np.square(lengths).sum()
        is_thin = n_squares <= n_rows * (_MAX_SHARE * n_columns) ** 2
        # The sums must not cost more than their terms.
        return bool(is_thin and n_columns**2 <= n_squares // 2 <= _MAX_PAIRS)

    def grams(self, weights) -> np.ndarray:
        """Gram matrices with some weights.

        Parameters
        ----------
        weights : ndarray of shape (n_rows, n_sums)

        Returns
        -------
        grams : ndarray of shape (n_sums, n_columns, n_columns)
        """
        n_columns, n_sums = self._n_columns, weights.shape[1]
        ordered, half = weights[self._order], np.zeros((n_columns**2, n_sums))
        for part, pairs in self._blocks:
            half += pairs @ ordered[part]
        half = half.T.reshape(n_sums, n_columns, n_columns)
        grams = half + half.transpose(0, 2, 1)
        grams *= self._scale[:, None] * self._scale
        diagonals = np.einsum("sjj->sj", grams)  # a view
        diagonals += (self._squares @ weights).T
        return grams

    def _block(self, rows, chosen, length):
        """Numbers of the pairs of rows of one length, (n_pairs of a matrix, n_rows)."""
        positions = rows.indptr[chosen][:, None] + np.arange(length)
        columns = rows.indices[positions].astype(np.int32)
        numbers = np.concatenate(
            [
                columns[:, entry, None] * np.int32(self._n_columns)
                + columns[:, entry + 1 :]
                for entry in range(length - 1)
            ],
            axis=1,
        )
        ends = np.arange(len(chosen) + 1, dtype=np.int32) * np.int32(numbers.shape[1])
        if self._ones is not None:
            terms = self._ones[: numbers.size]
        else:
            values = rows.data[positions]
            products = [
                values[:, entry, None] * values[:, entry + 1 :]
                for entry in range(length - 1)
            ]
            terms = np.concatenate(products, axis=1).ravel()
        return transposed(csr_view(terms, numbers.ravel(), ends, self._n_columns**2))


def _equal_parts(lengths):
    """Yield slices of as many rows of one length as a block has, and the length."""
    distinct, firsts = np.unique(lengths, return_index=True)
    stops = np.append(firsts[1:], len(lengths))
    for length, first, stop in zip(distinct, firsts, stops, strict=True):
        if length < 2:  # no pairs
            continue
        step = max(2 * _BLOCK_PAIRS // (length * (length - 1)), 1)
        for start in range(first, stop, step):
            yield slice(start, min(start + step, stop)), int(length)
