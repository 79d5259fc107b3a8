"""Random rows that represent all the rows.

Rows are drawn by stratified sampling: the cumulative probability of the rows is cut
into equal parts and one point is drawn in each. Sorted, periodic or drifting data are
thus represented evenly, whatever their order, and a strided part of a sample is itself
a stratified sample. Rows whose probability exceeds one part are kept with their own
weight.

Densities and weights are read in chunks, so that nothing of the length of the data is
allocated and they need not be arrays: slices are all that is asked of them.
"""

import numpy as np

# Each scan sets aside the rows that are certain to be drawn; the rest then gets denser.
_CERTAIN_SCANS = 5
_CHUNK_ROWS = 2**14


def draw_rows(n_draws, n_rows, rng, density=None, weights=None):
    """Draw rows and the weights with which they represent all rows.

    Parameters
    ----------
    n_draws : int
        Expected number of rows, up to ties.
    n_rows : int
    rng : numpy.random.RandomState
    density : sliceable of length n_rows, optional
        Positive where a row matters, any total; default proportional to ``weights``.
    weights : sliceable of length n_rows, optional
        Weights of all the rows, any total; default equal, summing to one.

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
    certain, total = _certain_density(density, n_draws, n_rows)
    points = (np.arange(n_draws) + rng.uniform(size=n_draws)) * (total / n_draws)
    samples, mass, first = [], 0.0, 0
    for chunk in _chunks(n_rows):
        part = density[chunk]
        is_certain = part >= certain
        cumulative = mass + np.cumsum(np.where(is_certain, 0.0, part))
        mass = cumulative[-1]
        # Points and chunks ascend together. Rounding may leave the last point behind
        # the last row, where it is lost.
        last = np.searchsorted(points, mass, side="left")
        drawn = np.searchsorted(cumulative, points[first:last], side="right")
        first = last
        counts = np.bincount(drawn, minlength=len(part))
        rows = np.flatnonzero(is_certain | (counts > 0))
        factors = np.ones(len(rows))
        is_drawn = ~is_certain[rows]
        drawn = rows[is_drawn]
        factors[is_drawn] = counts[drawn] * total / (n_draws * part[drawn])
        factors *= 1.0 / n_rows if weights is None else weights[chunk][rows]
        is_positive = factors > 0
        samples.append((chunk.start + rows[is_positive], factors[is_positive]))
    indices, sample_weights = zip(*samples, strict=True)
    return np.concatenate(indices), np.concatenate(sample_weights)


def _certain_density(density, n_draws, n_rows):
    """Density from which a draw is sure to hit a row, and the total of the others."""
    certain, total = np.inf, _total_below(np.inf, density, n_rows)
    for _ in range(_CERTAIN_SCANS):
        certain, previous = total / n_draws, total
        total = _total_below(certain, density, n_rows)
        if total == previous:
            break
    return certain, total


def _total_below(bound, density, n_rows):
    parts = (density[chunk] for chunk in _chunks(n_rows))
    return float(sum(part.sum(where=part < bound) for part in parts))


def _chunks(n_rows):
    for start in range(0, n_rows, _CHUNK_ROWS):
        yield slice(start, min(start + _CHUNK_ROWS, n_rows))
