r"""Gram matrix of sparse rows.

Rows of the same number of entries, as an encoder of categories makes them, form a
rectangle of column numbers. Its pairs of columns :math:`(a, b)` are counted as numbers
:math:`a\, n + b`, a few times faster than by a product of sparse matrices. A count
writes a whole matrix, which is large against the pairs of a chunk when there are many
columns: the pairs are therefore collected until they are worth it. Rows of different
lengths form several rectangles.
"""

import numpy as np

from skcara.data._rows import row_range

# A pair costs so much more than a term of a dense product that counting pays only for
# rows with a smaller share of entries than this.
_COUNTED_SHARE = 0.15
# Entries of dense rows that are made at a time: they stay in the cache. A product of
# fewer rows than these would not be worth a call.
_DENSE_ENTRIES, _MIN_DENSE_ROWS = 2**16, 128
# Pairs that are counted at a time: half as many as the matrix has entries, so that they
# need less memory than it, within what is worth a call and what fits in any memory.
_MIN_PAIRS, _MAX_PAIRS = 2**18, 2**23


class SparseGram:
    r"""Sum :math:`\sum_i x_i x_i^\top` of CSR rows.

    Such sums are added in place, and the total takes over the memory of both.

    Parameters
    ----------
    rows : CSR array of shape (n_rows, n_columns)

    Attributes
    ----------
    depth : int
        Most additions, one after the other, that a term of the sum went through.
    """

    def __init__(self, rows):
        n_rows, n_columns = rows.shape
        # The sum is this matrix plus its transpose, plus the squares.
        self._half: np.ndarray | None = None
        self._squares = np.zeros(n_columns)
        self.depth = 0
        self._pending: list = []
        self._n_pending = 0
        self._most_pairs = min(max(n_columns**2 // 2, _MIN_PAIRS), _MAX_PAIRS)
        lengths = np.diff(rows.indptr)
        if np.square(lengths).sum() > n_rows * (_COUNTED_SHARE * n_columns) ** 2:
            self._add(0.5 * _dense_product(rows), n_rows)
            return
        squares = np.square(rows.data)
        self._squares += np.bincount(rows.indices, squares, minlength=n_columns)
        for columns, values in _rectangles(rows, lengths, self._most_pairs):
            numbers, products = _numbered_pairs(columns, values, n_columns)
            self._append(numbers, products, len(columns))

    def __iadd__(self, other: "SparseGram"):
        for pending in other._pending:
            self._append(*pending)
        self._squares += other._squares
        if other._half is not None:
            self._add(other._half, other.depth)
        return self

    def toarray(self):
        """Return the sum as a dense matrix."""
        self._count()
        if self._half is None:
            return np.diag(self._squares)
        # The two halves, and the squares, each of which was added up by itself.
        self.depth += 2
        matrix = self._half + self._half.T
        matrix.flat[:: len(matrix) + 1] += self._squares
        return matrix

    def _append(self, numbers, products, n_rows):
        self._pending.append((numbers, products, n_rows))
        self._n_pending += len(numbers)
        if self._n_pending >= self._most_pairs:
            self._count()

    def _count(self):
        """Add the pending pairs to the matrix."""
        if not self._pending:
            return
        numbers, products, n_rows = zip(*self._pending, strict=True)
        self._pending, self._n_pending = [], 0
        n_columns = len(self._squares)
        counts = np.bincount(
            np.concatenate(numbers),
            _joined(products, [len(part) for part in numbers]),
            minlength=n_columns**2,
        )
        counts = counts.astype(np.float64, copy=False)
        self._add(counts.reshape(n_columns, n_columns), sum(n_rows))

    def _add(self, half, depth):
        if self._half is None:
            self._half, self.depth = half, depth
        else:
            self._half += half
            self.depth = max(self.depth, depth) + 1


def _rectangles(rows, lengths, most_pairs):
    """Yield columns and values of rows of the same length, (n_rows, length) each."""
    distinct = np.unique(lengths)
    for length in distinct[distinct > 1]:
        if len(distinct) == 1:
            columns = rows.indices.reshape(-1, length)
            values = rows.data.reshape(-1, length)
        else:
            firsts = rows.indptr[:-1][lengths == length]
            positions = firsts[:, None] + np.arange(length)
            columns, values = rows.indices[positions], rows.data[positions]
        step = max(2 * most_pairs // (length * (length - 1)), 1)
        for start in range(0, len(columns), step):
            yield columns[start : start + step], values[start : start + step]


def _numbered_pairs(columns, values, n_columns):
    """Pairs of entries of each row: numbers of their columns, and their products.

    Returns
    -------
    numbers : ndarray of int32
        Small, because they wait to be counted. A matrix with more entries than that
        would not fit in memory.
    products : ndarray or None
        None means that all are one.
    """
    n_rows, length = columns.shape
    columns = np.ascontiguousarray(columns.T, dtype=np.int32)
    bases = columns * np.int32(n_columns)
    n_pairs = length * (length - 1) // 2
    numbers = np.empty((n_pairs, n_rows), np.int32)
    products = None
    if not (values == 1.0).all():
        values = np.ascontiguousarray(values.T)
        products = np.empty((n_pairs, n_rows))
    first = 0
    for entry in range(length - 1):
        last = first + length - 1 - entry
        np.add(bases[entry], columns[entry + 1 :], out=numbers[first:last])
        if products is not None:
            np.multiply(values[entry], values[entry + 1 :], out=products[first:last])
        first = last
    return numbers.ravel(), None if products is None else products.ravel()


def _joined(products, sizes):
    """Products of all pending pairs, None if all are one."""
    if all(part is None for part in products):
        return None
    return np.concatenate(
        [
            np.ones(size) if part is None else part
            for part, size in zip(products, sizes, strict=True)
        ]
    )


def _dense_product(rows):
    """Gram matrix of rows that are dense enough to be written out."""
    n_rows, n_columns = rows.shape
    total = np.zeros((n_columns, n_columns))
    step = max(_DENSE_ENTRIES // n_columns, _MIN_DENSE_ROWS)
    for start in range(0, n_rows, step):
        part = row_range(rows, start, min(start + step, n_rows)).toarray()
        total += part.T @ part
    return total
