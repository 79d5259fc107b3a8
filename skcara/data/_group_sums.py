"""Sums of weighted rows over consecutive groups."""

import numpy as np
from scipy import sparse

# Up to this many rows a group is summed row by row over all groups at once: products of
# tiny matrices are slow.
_MAX_LOOPED_ROWS = 8


def group_sums(rows, factors, group_rows: int):
    r"""Sum :math:`x_i f_i^\top` over groups of consecutive rows.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_columns)
    factors : ndarray of shape (n_rows, n_outputs)
    group_rows : int
        Rows of a group; the last one may have fewer.

    Returns
    -------
    sums : ndarray of shape (n_groups, n_columns, n_outputs)
    """
    n_rows, n_columns = rows.shape
    n_groups = -(-n_rows // group_rows)
    # Columns last in memory: there are more of them than outputs, and NumPy is slow at
    # many short rows.
    sums = np.zeros((n_groups, factors.shape[1], n_columns))
    if sparse.issparse(rows):
        _add_sparse(sums, rows, factors, group_rows)
    elif group_rows <= _MAX_LOOPED_ROWS:
        for first in range(group_rows):
            part, part_factors = rows[first::group_rows], factors[first::group_rows]
            sums[: len(part)] += part_factors[:, :, None] * part[:, None, :]
    else:
        _add_stacked(sums, rows, factors, group_rows)
    return sums.transpose(0, 2, 1)


def _add_sparse(sums, rows, factors, group_rows):
    n_groups, n_rows = len(sums), rows.shape[0]
    starts = np.append(np.arange(0, n_rows, group_rows), n_rows)
    for output in range(factors.shape[1]):
        adder = sparse.csr_array(
            (factors[:, output], np.arange(n_rows), starts), shape=(n_groups, n_rows)
        )
        sums[:, output] = (adder @ rows).toarray()


def _add_stacked(sums, rows, factors, group_rows):
    n_full = len(rows) // group_rows
    full = n_full * group_rows
    # A chunk may be shorter than a group: an empty array has no "remaining" axis.
    stacked_rows = rows[:full].reshape(n_full, group_rows, rows.shape[1])
    stacked = factors[:full].reshape(n_full, group_rows, factors.shape[1])
    np.matmul(stacked.transpose(0, 2, 1), stacked_rows, out=sums[:n_full])
    if full < len(rows):
        sums[n_full] = factors[full:].T @ rows[full:]
