"""Which way ``solver="auto"`` goes: one table, read from top to bottom.

The way depends on the shape of the data, the loss and the penalty alone, so that it is
known before the first pass. Five ways may turn into another one when they meet the
data: a sample that does not represent all rows, secant steps where a few rows decide
about several outputs, coordinate descent that takes too long, rows whose factors are
not accurate enough, and measures that stop making progress.
"""

from enum import Enum

import numpy as np

# Up to this many entries of X a copy costs less than anything else.
_SMALL_ENTRIES = 2**20
# Smallest number of rows per coordinate for which a sample is worth its trouble.
_TALL_ROWS_PER_COORD = 500
# Up to this many columns the Gram matrix of all rows costs less than the passes it
# replaces, three to six: with 100 columns of 600 000 rows 0.85 of the time for least
# squares, 0.7 and 1.2 for a Lasso to 1e-7 and to 1e-4, in one read. Two threads share
# it better, too. For sparse data the entries per row count as well.
_MAX_DENSE_COLUMNS = 100
_MAX_SPARSE_COLUMNS, _MAX_SPARSE_ENTRIES = 4000, 32
# Columns from which working sets pay. With many rows per column a copy of columns costs
# more than the Gram matrix of all, unless that is huge.
_MIN_FEATURES, _HUGE_FEATURES = 200, 1000
_MAX_ROWS_PER_FEATURE = 30
# For the squared loss all columns at once, or their Gram matrix, cost less than working
# sets of 220 to 400 columns from five rows per column on: 0.5 to 0.8 of the time, 1.2
# where hardly any coefficient is left; with 900 columns up to four times as much.
_GRAM_FEATURES, _GRAM_ROWS_PER_FEATURE = 400, 5
# Columns from which, and rows per column up to which, coordinate descent on a copy
# costs less than the Gram matrix and the search for zeros in it: 0.5 to 0.8 of the time
# with 2000 rows of 300 columns, 0.8 to 1.2 with 5000 and 0.8 to 1.7 with 10 000; as
# much with 1000 rows of 150 columns.
_MIN_DESCENT_COLUMNS, _MAX_DESCENT_ROWS = 150, 20
# Of sparse columns a change of a coefficient costs a step through all rows, for the
# means, and the Gram matrix costs less. With 300 columns of 600 to 2100 rows descent
# takes 0.1 to 0.9 of the time, or twice as much where it is given up at last; with 3600
# rows it is given up more often.
_MAX_SPARSE_DESCENT_ROWS = 8
# Cells of a sparse matrix up to which coordinate descent starts with all columns: the
# first epoch steps through all of them, in a few milliseconds. With fewer rows for each
# column the search for zeros in the Gram matrix would take long, should descent fail: 8
# times as long as working sets with 53 rows of 531 columns, 1.2 times with 474 of 716.
# The same for dense columns: 1442 rows of 400 columns take 0.2 to 0.7 of the time of
# working sets, 2000 of 1000 columns 0.35 to 0.65, 1.25 if hardly any of them matters.
_MAX_SPARSE_DESCENT_CELLS, _MIN_SPARSE_DESCENT_ROWS = 2**22, 0.5
_MAX_DENSE_DESCENT_CELLS, _MIN_DENSE_DESCENT_ROWS = 2**21, 1.0
# scikit-learn's coordinate descent numbers the entries by 32 bits.
_MAX_DESCENT_ENTRIES = 2**31 - 1
# Columns from which steps with exact gradients beat Hessians for a smooth loss. With 64
# columns of 500 000 rows both ways take the same time, with 128 of 300 000 secant steps
# take three quarters of it, and one half with 200 of 5000; with five classes it is so
# with 30 and 60 columns of 200 000 rows.
_MANY_COLUMNS = 100
# Rows per column up to which they do so for fewer columns as well: a sample, a small
# share of the rows, then has about a hundred of them per column, and rounds on it
# contract no faster than secant steps, which cost less. Of 100 000 rows these take half
# of the time with 80 columns and two thirds with 40, but as much with 20.
_FEW_ROWS_PER_COLUMN = 2500
# Products behind a Hessian up to which it costs so little that nothing else is tried:
# 500 rows of 100 columns take 0.8 of the time of secant steps, 2000 of 100 columns 0.85
# and 1000 of 50 columns in four classes 0.7, but 5000 of 100 columns 1.3 of it. What a
# step does with it counts as the cube of its order, and decides alone where that is
# too much: with Hessians 120 rows of 260 columns in three classes take ten times as
# long, 5000 rows of 20 columns in twenty classes five times, 200 000 of 10 columns in
# forty classes seven times as long.
_FEW_HESSIAN_TERMS = 3 * 2**23
# Columns, and columns per row, from which the space of the rows is the better place for
# a problem without L1 term. Least squares of 30 rows take 2 ms there, and 155 ms with a
# Gram matrix of 917 columns; 500 rows of 1000 columns one half of the time, 172 of 260
# as much. Hessians of other losses must be a matter of half a millisecond there: two
# classes of 57 rows of 499 columns take a quarter of the time, of 172 rows two thirds,
# three classes of these four times as much. Secant steps need too many of them there.
_MIN_WIDE_COLUMNS, _MIN_COLUMNS_PER_ROW = 100, 1.5
_FEW_ROW_SPACE_TERMS = 2**23
# Coordinates up to which steps that contract slowly may ask for a Hessian.
_MAX_HESSIAN_COORDS = 4096
# Largest Hessian or Gram matrix.
_MAX_MATRIX_BYTES = 2**32


class Way(Enum):
    """What the default solver does; the value is shown to users."""

    WORKING_SETS = "working sets"
    COORDINATE_DESCENT = "coordinate descent"
    ROW_SPACE = "row space"
    STATISTICS = "statistics"
    SAMPLE_METRIC = "sample metric"
    ALL_ROWS = "all rows"
    NEWTON = "newton"
    SECANT_STEPS = "secant steps"
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
    is_tall = _is_tall(problem)
    if has_all_columns and has_many_columns(problem) and not is_tall:
        if _wants_all_columns(problem):
            return Way.COORDINATE_DESCENT
        return Way.WORKING_SETS
    if _has_small_row_space(problem):
        return Way.ROW_SPACE
    return choose_column_way(problem, recombination, has_all_columns=has_all_columns)


def choose_column_way(problem, recombination, *, has_all_columns=True) -> Way:
    """Return the way for a problem whose columns are all there is to solve for.

    Parameters
    ----------
    problem, recombination, has_all_columns
        As for :func:`choose_way`.
    """
    is_tall = _is_tall(problem)
    if recombination in ("auto", None) and _wants_secant_steps(problem):
        return Way.SECANT_STEPS
    _check_matrix_size(problem)
    is_small = _is_small(problem)
    has_measures = is_tall and not is_small and recombination not in ("auto", None)
    if problem.loss.is_quadratic and not has_measures:
        # The sum of the statistics is the exact answer; where it costs too much, a
        # sample of them is the metric of steps with exact gradients. Measures are for
        # those who ask for them, but not on rows too few to be reduced: steps with
        # Hessians would lose what nearly dependent columns differ by.
        if has_all_columns and _wants_descent(problem):
            return Way.COORDINATE_DESCENT
        has_statistics = not is_tall or has_cheap_gram(problem)
        return Way.STATISTICS if has_statistics else Way.SAMPLE_METRIC
    if is_small:
        return Way.ALL_ROWS
    if recombination is None or not is_tall:
        return Way.NEWTON
    if recombination in ("auto", "calibration"):
        return Way.CALIBRATED_SAMPLE
    return Way.RECOMBINED_GROUPS


def _has_small_row_space(problem) -> bool:
    """Whether few rows span all that a smooth penalty lets coefficients be."""
    n_rows, n_features = problem.n_rows, problem.n_features
    if n_features < max(_MIN_COLUMNS_PER_ROW * n_rows, _MIN_WIDE_COLUMNS):
        return False
    n_terms = _hessian_terms(problem, n_rows) + (n_rows * problem.n_outputs) ** 3
    return (
        (problem.loss.is_quadratic or n_terms <= _FEW_ROW_SPACE_TERMS)
        and 8 * n_rows * n_features <= _MAX_MATRIX_BYTES
        and _can_copy_rows(problem)
        and problem.penalty.is_smooth
        and np.ptp(problem.user_penalty.l2[:n_features]) == 0
        and problem.units is None
        and not problem.may_be_unbounded
    )


def _wants_secant_steps(problem) -> bool:
    """Whether Hessians of a smooth loss cost too much, or samples say too little."""
    if problem.loss.is_quadratic or not problem.penalty.is_smooth:
        return False
    if _has_quick_hessian(problem):
        return False
    has_many_coords = problem.n_coords**3 > _FEW_HESSIAN_TERMS
    root = np.sqrt(problem.n_outputs)
    if has_many_coords or problem.n_features * root >= _MANY_COLUMNS:
        return True
    has_few_rows = problem.n_rows <= _FEW_ROWS_PER_COLUMN * problem.n_features
    return has_few_rows and not _is_small(problem)


def _wants_descent(problem) -> bool:
    """Whether coordinate descent beats the statistics of an elastic net."""
    n_features = problem.n_features
    return (
        n_features > _MIN_DESCENT_COLUMNS
        and problem.n_rows <= _MAX_DESCENT_ROWS * n_features
        and _can_copy_rows(problem)
        and _has_l1_everywhere(problem)
        and can_descend(problem, n_features)
    )


def _can_copy_rows(problem) -> bool:
    """Whether all rows may be held, which memory forbids of some sources."""
    n_drawable = problem.facts.n_drawable
    return n_drawable is None or problem.n_rows <= n_drawable


def _wants_all_columns(problem) -> bool:
    """Whether coordinate descent on all columns beats working sets."""
    n_rows, n_features = problem.n_rows, problem.n_features
    max_cells, min_rows = _MAX_DENSE_DESCENT_CELLS, _MIN_DENSE_DESCENT_ROWS
    if problem.facts.is_sparse:
        max_cells, min_rows = _MAX_SPARSE_DESCENT_CELLS, _MIN_SPARSE_DESCENT_ROWS
    return (
        n_rows * n_features <= max_cells
        and min_rows * n_features <= n_rows
        and _wants_descent(problem)
    )


def _has_quick_hessian(problem) -> bool:
    """Whether the Hessian of a few dense rows is a matter of a millisecond."""
    n_terms = _hessian_terms(problem, problem.n_params) + problem.n_coords**3
    return not problem.facts.is_sparse and n_terms <= _FEW_HESSIAN_TERMS


def _hessian_terms(problem, n_params):
    """Products behind the Hessian of all rows with so many columns."""
    n_pairs = max(problem.n_outputs * (problem.n_outputs - 1) // 2, 1)
    return n_pairs * problem.n_rows * n_params**2


def may_be_measured(problem) -> bool:
    """Whether reduced measures are an alternative to secant steps.

    They are for several outputs of few columns: on seven forest cover types secant
    steps take more than a hundred passes, on Gaussian rows measures take twice the
    time. Rows that a sample hardly represents decide.
    """
    return problem.n_features < _MANY_COLUMNS and _is_tall(problem)


def _is_small(problem) -> bool:
    return problem.n_rows * problem.n_params <= _SMALL_ENTRIES


def _is_tall(problem) -> bool:
    return problem.n_rows >= _TALL_ROWS_PER_COORD * problem.n_coords


def has_small_hessian(problem) -> bool:
    """Whether the Hessian of all rows may be worth more than steps without it.

    It is never worth it for more columns than rows: it would be singular, and solving
    with it would cost more than a pass. With several outputs each row adds a matrix of
    nearly as many ranks, so there may be more coordinates than rows.
    """
    has_rows = problem.n_params <= problem.n_rows
    return has_rows and problem.n_coords <= _MAX_HESSIAN_COORDS


def can_descend(problem, n_columns: int) -> bool:
    """Whether coordinate descent is a good way for some columns of a problem.

    It is for an elastic net, the same for all columns; of sparse columns there must not
    be too few.
    """
    penalty, facts, n_features = problem.user_penalty, problem.facts, problem.n_features
    has_columns = not facts.is_sparse or (
        problem.n_rows <= _MAX_SPARSE_DESCENT_ROWS * n_columns
        and facts.n_entries <= _MAX_DESCENT_ENTRIES
    )
    return (
        problem.loss.is_quadratic
        and has_columns
        and all(
            np.ptp(strengths[:n_features]) == 0
            for strengths in (penalty.l1, penalty.l2, penalty.positive.view(np.int8))
        )
    )


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
    n_features, least = problem.n_features, _MIN_FEATURES
    if problem.n_rows > _MAX_ROWS_PER_FEATURE * n_features:
        least = _HUGE_FEATURES
    elif problem.loss.is_quadratic:
        has_rows = problem.n_rows >= _GRAM_ROWS_PER_FEATURE * n_features
        least = _GRAM_FEATURES if has_rows else _MIN_FEATURES
    if n_features <= least:
        return False
    return _has_l1_everywhere(problem)


def _has_l1_everywhere(problem) -> bool:
    return bool(problem.penalty.l1[: problem.n_features].all())


def fits_matrix(problem) -> bool:
    """Whether a Hessian or Gram matrix is of a size that memory has."""
    return 8 * problem.n_coords**2 <= _MAX_MATRIX_BYTES


def _check_matrix_size(problem):
    if not fits_matrix(problem):
        raise ValueError(
            f"solver='canewton' would need a matrix of {problem.n_coords} x "
            f"{problem.n_coords} numbers: this problem is too wide for it. Choose "
            "solver='cabcd', a stronger L1 penalty, or an estimator for wide data."
        )
