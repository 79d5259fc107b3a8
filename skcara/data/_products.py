"""Products of a chunk of rows with coefficients and with themselves."""

from scipy import sparse

from skcara.data._sparse_gram import SparseGram


def predictions(rows, coef):
    """Product of rows with coefficients.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_columns)
    coef : ndarray of shape (n_columns, n_outputs)

    Returns
    -------
    predictions : ndarray of shape (n_rows, n_outputs)
        A new array; outputs one after the other in memory, as the losses like it best.
    """
    if sparse.issparse(rows):
        return rows @ coef
    if coef.shape[1] == 1:
        return (rows @ coef[:, 0])[:, None]
    return (coef.T @ rows.T).T


def gram(rows):
    r"""Sum :math:`\sum_i x_i x_i^\top` of dense or sparse rows, as a dense matrix."""
    return SparseGram(rows).toarray() if sparse.issparse(rows) else rows.T @ rows
