"""How many rows are drawn: the one home of the sizes of samples and measures.

A sample of m rows leaves an error of about n_coords / m in what is learned from it. It
costs m / n_rows passes for each gradient on it and m n_coords / n_rows for each
Hessian, and its copy must stay small against the data. In ``examples/benchmarks``,
``bench_profile.py`` shows what share of a fit the sample takes, ``bench_growth.py`` the
memory.
"""

import numpy as np

# Rows of a reduced measure: this share of all rows, divided by n_coords where these are
# many, and within these bounds.
_ROWS_SHARE = 1 / 32
_MIN_ROWS, _MIN_ROWS_PER_COORD, _MAX_ROWS_PER_COORD = 8_000, 64, 4000
# A measure has at most this share of the rows, and the copy of a sample must stay small
# against the data, unless it is smaller than a chunk of a pass.
_MAX_SHARE = 1 / 8
_MAX_COPIED_SHARE, _FREE_BYTES = 1 / 24, 2**21
_GROWTH = 3
# Uneven rows need this many of them per coordinate, and twice the copied share to have
# them: with half of them rounds on seven forest cover types (385 coordinates) stop
# contracting at 1e-6, and Hessians of all rows have to take over.
_UNEVEN_ROWS_PER_COORD, _MAX_UNEVEN_SHARE = 128, 1 / 12
# Rows whose Gram matrix stands in for that of all rows.
_METRIC_SHARE = 1 / 20
_MIN_METRIC_ROWS_PER_COLUMN, _MAX_METRIC_ROWS_PER_COLUMN = 64, 1000
# Rows per column whose minimiser is the start of many columns; with fewer rows than
# that at hand, so many are enough for the intercept alone.
_START_ROWS_PER_COLUMN, _LEVEL_ROWS = 50, 4096
# Rows per column whose correlations are summed, and the least number worth it.
_CORRELATED_ROWS_PER_COLUMN, _MIN_CORRELATED_ROWS_PER_COLUMN = 50, 4
# Columns whose correlations fit in the memory of a sample, and operations of their
# factorisation in the time in which a pass handles one entry.
_MAX_CORRELATED_COLUMNS, _FACTOR_OPERATIONS = 4096, 512
# Bytes of an entry of sparse rows (value and column) and of the end of a row.
_SPARSE_ENTRY_BYTES, _ROW_END_BYTES = 12, 4


def measure_rows(problem) -> int:
    """Rows of the first reduced measure."""
    n_coords = problem.n_coords
    return int(
        np.clip(
            int(min(_ROWS_SHARE, 1 / n_coords) * problem.n_rows),
            _MIN_ROWS + _MIN_ROWS_PER_COORD * n_coords,
            _MAX_ROWS_PER_COORD * n_coords,
        )
    )


def uneven_rows(problem, size: int, hessian_cost: float) -> int:
    """Rows of a measure where few rows carry much.

    Parameters
    ----------
    problem : Problem
    size : int
        Rows of a measure where they do not. Uneven rows need more of them, as long as
        their Hessian costs less than a pass.
    hessian_cost : float
        Price of a Hessian in gradients.
    """
    size = max(size, min(int(problem.n_rows / hessian_cost), grown(size)))
    size = min(size, max_sampled_rows(problem))
    needed = _UNEVEN_ROWS_PER_COORD * problem.n_coords
    most = min(int(_MAX_UNEVEN_SHARE * problem.n_rows), _n_drawable(problem))
    return max(size, min(needed, most))


def metric_rows(problem) -> int:
    """Rows of a sample whose Gram matrix is the metric of steps on all rows."""
    rows = int(
        np.clip(
            int(_METRIC_SHARE * problem.n_rows),
            _MIN_METRIC_ROWS_PER_COLUMN * problem.n_params,
            _MAX_METRIC_ROWS_PER_COLUMN * problem.n_params,
        )
    )
    return min(rows, _n_drawable(problem))


def start_rows(problem) -> int:
    """Rows on which a start is sought for a problem of many columns."""
    affordable = max(max_sampled_rows(problem), 1)
    if affordable < _MIN_CORRELATED_ROWS_PER_COLUMN * problem.n_params:
        return min(affordable, _LEVEL_ROWS)
    return min(affordable, _START_ROWS_PER_COLUMN * problem.n_params)


def max_correlation_rows(problem) -> int:
    """Most rows whose correlations are summed; 0 if they cost too much."""
    n_features, n_rows = problem.n_features, int(_MAX_SHARE * problem.n_rows)
    n_entries = problem.facts.n_entries * problem.n_outputs
    is_small = n_features**3 / 3 <= _FACTOR_OPERATIONS * n_entries
    is_tall = n_rows >= _MIN_CORRELATED_ROWS_PER_COLUMN * n_features
    if n_features > _MAX_CORRELATED_COLUMNS or not (is_small and is_tall):
        return 0
    return n_rows


def correlation_rows(problem) -> int:
    """Rows whose correlations are summed where nothing is known about them."""
    return min(
        max_correlation_rows(problem), _CORRELATED_ROWS_PER_COLUMN * problem.n_features
    )


def max_sampled_rows(problem, *, copied: bool = True, free_bytes: int = 0) -> int:
    """Most rows of a measure, and of one whose rows are copied.

    Parameters
    ----------
    problem : Problem
    copied : bool
        Whether the rows are copied.
    free_bytes : int
        Memory of a copy that does not count, because as much is in use anyway.
    """
    rows = _MAX_SHARE * problem.n_rows
    if copied:
        free_rows = max(_FREE_BYTES, free_bytes) / _row_bytes(problem)
        rows = min(rows, max(_MAX_COPIED_SHARE * problem.n_rows, free_rows))
        rows = min(rows, _n_drawable(problem))
    return int(rows)


def grown(size: int) -> int:
    """Size of the next larger sample."""
    return _GROWTH * size


def can_grow(size: int, max_size: int) -> bool:
    """Whether a larger sample would be worth its while."""
    return 2 * size <= max_size


def _n_drawable(problem):
    """Most rows of a sample, which is all that memory holds of some sources."""
    n_drawable = problem.facts.n_drawable
    return problem.n_rows if n_drawable is None else n_drawable


def _row_bytes(problem):
    """Memory of a copied row, on average."""
    facts = problem.facts
    if not facts.is_sparse:
        return 8 * problem.n_params
    n_entries = facts.n_entries / facts.n_rows + problem.coordinates.fit_intercept
    return _SPARSE_ENTRY_BYTES * n_entries + _ROW_END_BYTES
