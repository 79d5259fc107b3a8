"""Which way ``solver="auto"`` goes: one table, read from top to bottom.

The way depends on the shape of the data, the loss and the penalty alone, so that it is
known before the first pass. Two ways may turn into another one when they meet the data:
a sample that does not represent all rows, and measures that stop making progress.
"""

from enum import Enum

# Up to this many entries of X a copy costs less than anything else.
_SMALL_ENTRIES = 2**20
# Smallest number of rows per coordinate for which a sample is worth its trouble.
_TALL_ROWS_PER_COORD = 500
# Up to this many columns the Gram matrix of all rows costs less than the passes it
# replaces; for sparse data the entries per row count as well.
_MAX_DENSE_COLUMNS = 80
_MAX_SPARSE_COLUMNS, _MAX_SPARSE_ENTRIES = 4000, 32
# Columns from which working sets pay. With many rows per column a copy of columns costs
# more than the Gram matrix of all, unless that is huge.
_MIN_FEATURES, _HUGE_FEATURES = 200, 1000
_MAX_ROWS_PER_FEATURE = 30
# Largest Hessian or Gram matrix.
_MAX_MATRIX_BYTES = 2**32


class Way(Enum):
    """What the default solver does; the value is shown to users."""

    WORKING_SETS = "working sets"
    STATISTICS = "statistics"
    SAMPLE_METRIC = "sample metric"
    ALL_ROWS = "all rows"
    NEWTON = "newton"
    CALIBRATED_SAMPLE = "calibrated sample"
    RECOMBINED_GROUPS = "recombined groups"
    DESCENT = "descent"


def choose_way(problem, recombination, *, has_all_columns=True) -> Way:
    """Return the way for a problem.

    Parameters
    ----------
    problem : Problem
    recombination : str or None
        How measures are reduced, None meaning not at all.
    has_all_columns : bool
        Whether the problem is not itself restricted to a working set.
    """
    is_tall = problem.n_rows >= _TALL_ROWS_PER_COORD * problem.n_coords
    if has_all_columns and has_many_columns(problem) and not is_tall:
        return Way.WORKING_SETS
    _check_matrix_size(problem)
    if problem.loss.is_quadratic and recombination in ("auto", None):
        # The sum of the statistics is the exact answer; where it costs too much, a
        # sample of them is the metric of steps with exact gradients.
        has_statistics = not is_tall or has_cheap_gram(problem)
        return Way.STATISTICS if has_statistics else Way.SAMPLE_METRIC
    if problem.n_rows * problem.n_params <= _SMALL_ENTRIES:
        return Way.ALL_ROWS
    if recombination is None or not is_tall:
        return Way.NEWTON
    if recombination in ("auto", "calibration"):
        return Way.CALIBRATED_SAMPLE
    return Way.RECOMBINED_GROUPS


def has_cheap_gram(problem) -> bool:
    """Whether the Gram matrix of all rows costs less than a few passes."""
    facts = problem.facts
    if problem.n_features <= _MAX_DENSE_COLUMNS:
        return True
    if not facts.is_sparse or problem.n_features > _MAX_SPARSE_COLUMNS:
        return False
    return facts.n_entries / facts.n_rows <= _MAX_SPARSE_ENTRIES


def has_many_columns(problem) -> bool:
    """Whether the penalty makes most of many coefficients zero."""
    n_features = problem.n_features
    is_wide = problem.n_rows <= _MAX_ROWS_PER_FEATURE * n_features
    if n_features <= (_MIN_FEATURES if is_wide else _HUGE_FEATURES):
        return False
    return bool(problem.penalty.l1[:n_features].all())


def _check_matrix_size(problem):
    if 8 * problem.n_coords**2 > _MAX_MATRIX_BYTES:
        raise ValueError(
            f"solver='canewton' would need a matrix of {problem.n_coords} x "
            f"{problem.n_coords} numbers: this problem is too wide for it. Choose "
            "solver='cabcd', a stronger L1 penalty, or an estimator for wide data."
        )
