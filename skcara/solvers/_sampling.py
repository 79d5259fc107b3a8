"""Random rows that represent all the rows.

Rows are drawn by stratified sampling: the cumulative probability of the rows is cut
into equal parts and one point is drawn in each. Sorted, periodic or drifting data are
thus represented evenly, whatever their order, and a strided part of a sample is itself
a stratified sample. Rows whose probability exceeds one part are kept with their own
weight.
"""

import numpy as np

# Each scan sets aside the rows that are certain to be drawn; the rest then gets denser.
_CERTAIN_SCANS = 5


def draw_rows(n_draws, n_rows, rng, density=None, weights=None):
    """Draw rows and the weights with which they represent all rows.

    Parameters
    ----------
    n_draws : int
        Expected number of rows, up to ties.
    n_rows : int
    rng : numpy.random.RandomState
    density : ndarray of shape (n_rows,), optional
        Positive where a row matters, any total; default proportional to ``weights``.
    weights : ndarray of shape (n_rows,), optional
        Weights of all the rows, summing to one; default equal.

    Returns
    -------
    indices : ndarray of int, ascending and distinct
    sample_weights : ndarray of float
        Unbiased: their expected sum over any set of rows is that of ``weights``.
    """
    if density is None and weights is None:
        edges = np.arange(n_draws + 1) * n_rows // n_draws
        widths = np.diff(edges)
        offsets = (rng.uniform(size=n_draws) * widths).astype(np.intp)
        return edges[:-1] + offsets, widths / n_rows
    density = weights if density is None else density
    weights = np.full(n_rows, 1.0 / n_rows) if weights is None else weights
    is_kept = _certain_rows(density, n_draws)
    kept = np.flatnonzero(is_kept)
    drawn, expected = _stratified(np.where(is_kept, 0.0, density), n_draws, rng)
    drawn, counts = np.unique(drawn, return_counts=True)
    indices = np.concatenate([kept, drawn])
    sample_weights = np.concatenate(
        [weights[kept], weights[drawn] * counts / expected[drawn]]
    )
    order = np.argsort(indices)
    indices, sample_weights = indices[order], sample_weights[order]
    is_positive = sample_weights > 0
    return indices[is_positive], sample_weights[is_positive]


def _certain_rows(density, n_draws):
    """Rows that are so dense that at least one of ``n_draws`` is sure to hit them."""
    is_kept = np.zeros(len(density), dtype=bool)
    for _ in range(_CERTAIN_SCANS):
        total = density[~is_kept].sum()
        certain = density * n_draws >= total
        if not (certain & ~is_kept).any():
            break
        is_kept |= certain
    return is_kept


def _stratified(density, n_draws, rng):
    """Draws proportional to ``density``, and how often each row is expected."""
    cumulative = np.cumsum(density)
    total = cumulative[-1]
    if total == 0:
        return np.empty(0, dtype=np.intp), density
    points = (np.arange(n_draws) + rng.uniform(size=n_draws)) * (total / n_draws)
    drawn = np.searchsorted(cumulative, points, side="right")
    # Rounding may put the last point behind the last row.
    last = np.searchsorted(cumulative, total, side="left")
    return np.minimum(drawn, last), density * (n_draws / total)
