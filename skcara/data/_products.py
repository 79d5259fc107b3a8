"""Products of a chunk of rows with coefficients and with themselves."""

import numpy as np
from scipy import sparse

from skcara.data._rows import transposed
from skcara.data._sparse_gram import SparseGram

# With so many columns BLAS reads rows slower than memory could give them: its kernel
# walks along several of them at a time, which defeats prefetching. The product that
# meets the rows first had better read one after the other: a pass then takes 0.6 of the
# time with 100 columns, but 1.1 with 20 or 1000 (table 2 of ``bench_inner.py``).
_MIN_STREAMED_COLUMNS, _MAX_STREAMED_COLUMNS = 32, 512
# Up to this many entries rows are still in a cache from the read before, where BLAS is
# at its best: both products of a pass then take half of the time. (16 MB; with 100
# columns BLAS takes 0.5 of the time at 8 MB and 1.4 times as much at 24 MB.)
_CACHED_ENTRIES = 2**21
# BLAS multiplies small matrices as they are, and copies large ones into panels first,
# which takes as long as the product itself if there are few columns. A million of terms
# is small. So products are made for a few rows at a time: with 54 columns and seven
# outputs those of a pass take 0.4 of the time. Half of the products of the matrix with
# itself need not be formed, which a panel of some columns with those behind it makes
# use of.
_PRODUCT_TERMS, _PANEL_COLUMNS = 2**19, 24
# With more columns BLAS makes up for its copies, and with fewer entries there are none:
# a single product takes a quarter of the time with 500 rows of 10 columns, nine tenths
# with 1000 of 20, and 1.1 to 1.4 times as much from twice as many on.
_MAX_PANELLED_COLUMNS = 256
_MIN_PANELLED_ENTRIES = 2**15
# Where the rows of a small product are few, a call takes as long as the product.
_MIN_GROUP_ROWS = 256


def stays_in_cache(n_entries: int) -> bool:
    """Whether so many entries, read again and again, come from a cache."""
    return n_entries <= _CACHED_ENTRIES


def predictions(rows, coef, *, is_cached=False):
    """Product of rows with coefficients.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_columns)
    coef : ndarray of shape (n_columns, n_outputs)
    is_cached : bool
        Whether the rows are in a cache, see :func:`stays_in_cache`.

    Returns
    -------
    predictions : ndarray of shape (n_rows, n_outputs)
        A new array; outputs one after the other in memory, as the losses like it best.
    """
    if sparse.issparse(rows):
        return rows @ coef
    n_columns, n_outputs = coef.shape
    if n_outputs > 1:
        dtype, coef = np.result_type(rows, coef), coef.T
        products = np.empty((n_outputs, len(rows)), dtype=dtype)
        for group in _groups(len(rows), coef.size):
            np.matmul(coef, rows[group].T, out=products[:, group])
        return products.T
    is_streamed = _MIN_STREAMED_COLUMNS <= n_columns <= _MAX_STREAMED_COLUMNS
    if is_streamed and not is_cached and rows.flags.c_contiguous:
        return np.einsum("ij,j->i", rows, coef[:, 0])[:, None]
    return (rows @ coef[:, 0])[:, None]


def weighted_sums(rows, weights):
    r"""Sums :math:`\sum_i w_{ik} x_i` of rows in the cache, one for each output.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_columns)
    weights : ndarray of shape (n_rows, n_outputs)

    Returns
    -------
    sums : ndarray of shape (n_columns, n_outputs)
    """
    if sparse.issparse(rows) or weights.shape[1] == 1:
        return transposed(rows) @ weights
    weights, (n_rows, n_columns) = weights.T, rows.shape
    size = _group_size(len(weights) * n_columns)
    n_grouped = n_rows - n_rows % size if size >= _MIN_GROUP_ROWS else 0
    sums = weights[:, n_grouped:] @ rows[n_grouped:]
    if n_grouped:
        # One call for all groups.
        stack = weights[:, :n_grouped].reshape(len(weights), -1, size)
        groups = rows[:n_grouped].reshape(-1, size, n_columns)
        products = np.matmul(stack.transpose(1, 0, 2), groups)
        sums = sums + products.sum(axis=0, dtype=np.float64)
    return sums.T


def _groups(n_rows, n_terms):
    """Slices of rows whose product with ``n_terms`` numbers is small."""
    size = _group_size(n_terms)
    if size < _MIN_GROUP_ROWS:
        size = max(n_rows, 1)
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def _group_size(n_terms):
    """Rows of a small product, a power of two as the rows of most chunks."""
    return 1 << (max(_PRODUCT_TERMS // n_terms, 1).bit_length() - 1)


def gram(rows):
    r"""Sum :math:`\sum_i x_i x_i^\top` of dense or sparse rows, as a dense matrix."""
    if sparse.issparse(rows):
        return SparseGram(rows).toarray()
    has_few_columns = 1 < rows.shape[1] <= _MAX_PANELLED_COLUMNS
    is_panelled = has_few_columns and rows.size >= _MIN_PANELLED_ENTRIES
    if is_panelled and rows.flags.c_contiguous:
        return _panelled_gram(rows)
    return rows.T @ rows


def _panelled_gram(rows):
    """Gram matrix from products of a few columns of a few rows with those behind."""
    n_rows, n_columns = rows.shape
    width = min(_PANEL_COLUMNS, -(-n_columns // 2))
    n_group = min(_group_size(width * n_columns), n_rows)
    n_grouped = n_rows - n_rows % n_group
    groups = rows[:n_grouped].reshape(-1, n_group, n_columns)
    total = np.empty((n_columns, n_columns))
    for start in range(0, n_columns, width):
        stop = min(start + width, n_columns)
        # Never a matrix with its own transpose, for which NumPy calls another routine.
        first = start if stop < n_columns else start - 1
        panels = groups[:, :, start:stop].transpose(0, 2, 1)
        panel = np.matmul(panels, groups[:, :, first:]).sum(axis=0)
        if n_grouped < n_rows:
            panel += rows[n_grouped:, start:stop].T @ rows[n_grouped:, first:]
        total[start:stop, first:], total[first:, start:stop] = panel, panel.T
    # The two halves of a square were added in different orders.
    last = total[start:, start:]
    last[:] = (last + last.T) / 2
    return total
