"""Checks at the border: what passes here is trusted by all the layers below."""

import math
from contextlib import contextmanager
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_X_y,
    column_or_1d,
    validate_data,
)

from skcara.io._column_table import ColumnTable, as_columns
from skcara.io._predictions import is_lazy
from skcara.io._refusals import refuse_unread

# Integer labels in a range of this size are encoded with a table instead of a sort.
_MAX_LABEL_RANGE = 1 << 16
# Up to this many entries X is searched for NaN and infinity before the fit. A larger
# one is not read for this alone: no such entry can hide from the first gradient.
_MAX_CHECKED_ENTRIES = 1 << 20
# What scikit-learn leaves as it is.
_PLAIN_TYPES = np.dtype(np.float64), np.dtype(np.int64)
# Squares of larger values overflow, or leave no room for their sum.
_LARGEST_VALUE = 1e150


def check_training_data(estimator, X, y, **options):
    """Return ``X`` as array or CSR matrix of any numeric type, and ``y`` as array."""
    if _is_clean(X, y):
        # What scikit-learn's function does for plain arrays: they have no names.
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    refuse_unread(X, "X", type(estimator).__name__)
    refuse_unread(y, "y", type(estimator).__name__)
    options = {"multi_output": True, "ensure_all_finite": False, **options}
    if (table := _large_table(X)) is not None:
        validate_data(estimator, X, skip_check_array=True)
        # No entry of this one is stored; it stands in for the length of the table.
        rows = np.broadcast_to(np.float64(0.0), (len(table), 1))
        _, y = check_X_y(rows, y, estimator=estimator, **options)
        return table, y
    X, y = validate_data(
        estimator, X, y, accept_sparse="csr", dtype="numeric", **options
    )
    if _is_checked_before(X):
        _assert_finite(X, type(estimator).__name__)
    return X, y


def single_target(y):
    """Return checked targets of shape (n_rows,); a column of them causes a warning."""
    return y if y.ndim == 1 else column_or_1d(y, warn=True)


def check_prediction_data(estimator, X):
    """Return ``X`` as array, table of columns, CSR or CSC matrix."""
    refuse_unread(X, "X", type(estimator).__name__)
    if (table := _large_table(X)) is not None:
        validate_data(estimator, X, skip_check_array=True, reset=False)
        return table
    return validate_data(
        estimator,
        X,
        accept_sparse=("csr", "csc"),
        dtype="numeric",
        reset=False,
        ensure_all_finite=False,
    )


def _large_table(X) -> ColumnTable | None:
    """Read a table by its columns if a copy of it would not be small."""
    n_entries = np.prod(getattr(X, "shape", 0))
    return as_columns(X) if n_entries > _MAX_CHECKED_ENTRIES else None


def _is_clean(X, y):
    """Whether scikit-learn would find nothing to convert, nor to refuse.

    Its checks of all that could be handed over take as long as a small fit.
    """
    are_plain = all(
        type(array) is np.ndarray and array.dtype in _PLAIN_TYPES for array in (X, y)
    )
    if not are_plain or X.ndim != 2 or y.shape != X.shape[:1] or not X.size:
        return False
    if _is_checked_before(X) and not math.isfinite(X.sum()):
        return False
    return math.isfinite(y.sum())


@contextmanager
def bad_values_explained(X, caller: str):
    """Turn a failure caused by NaN, infinity or overflow in ``X`` into a clear error.

    An objective that is not finite is an error in itself, so that warnings on the way
    to it would only be noise. What is not in memory was searched before the first pass.
    """
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            yield
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        if not is_lazy(X):
            _assert_finite(X, caller)
            _assert_moderate(X, caller)
        if isinstance(error, FloatingPointError):
            raise ValueError(str(error)) from error
        raise


def _is_checked_before(X):
    return sparse.issparse(X) or X.size <= _MAX_CHECKED_ENTRIES


def _assert_finite(X, caller: str):
    for values in _entries(X):
        assert_all_finite(values, estimator_name=caller, input_name="X")


def _entries(X):
    """Entries of ``X``, in parts if it is a table of columns."""
    table = _large_table(X)
    if table is None:
        yield X.data if sparse.issparse(X) else np.asarray(X)
        return
    for start in range(0, len(table), _MAX_LABEL_RANGE):
        yield table[start : start + _MAX_LABEL_RANGE]


def _assert_moderate(X, caller: str):
    """Refuse values whose squares overflow: no sum of squares would be finite."""
    parts = (part for part in _entries(X) if part.size and part.dtype.kind == "f")
    for value in (float(most) for v in parts for most in (v.max(), v.min())):
        if abs(value) > _LARGEST_VALUE:
            raise ValueError(
                f"X contains {value:.3g}, whose square overflows. "
                f"{caller} needs values of at most {_LARGEST_VALUE:.0e} in size: "
                "scale the column down, or give a row in which such a value stands "
                "for a missing one the weight zero."
            )


def check_sample_weight(sample_weight, n_rows: int):
    """Return the weights as float64, or None if all rows count the same.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, if all are zero, or if their number is
        not that of the rows.
    """
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_rows, sample_weight)
    weights = check_array(
        sample_weight,
        ensure_2d=False,
        dtype=np.float64,
        input_name="sample_weight",
    )
    if weights.ndim != 1 or len(weights) != n_rows:
        raise ValueError(
            f"sample_weight must have shape ({n_rows},), got {weights.shape}."
        )
    if weights.min() < 0:
        raise ValueError(
            "Negative values in data passed to `sample_weight`: "
            "weights must be non-negative."
        )
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if not np.isfinite(weights.sum()):
        raise ValueError("The sum of sample_weight overflows; divide it by its mean.")
    return weights


def make_seed(random_state) -> int | np.random.RandomState:
    """Return the seed of random numbers that users ask for; None is a fixed one."""
    if random_state is None or isinstance(random_state, Integral):
        return int(random_state or 0)
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**32))
    return check_random_state(random_state)


def encode_labels(y):
    """Return the sorted distinct labels and the code of each row.

    Raises
    ------
    ValueError
        If the labels are continuous numbers or of one class only.
    """
    y = np.asarray(y)
    classes, codes = _encode_integers(y)
    if classes is None:
        classes, codes = _encode_sorted(y)
    if len(classes) < 2:
        raise ValueError(
            "CaLogisticRegression needs samples of at least 2 classes, but y contains "
            f"only one class: {classes.tolist()[0]!r}."
        )
    return classes, codes


def _encode_integers(y):
    """Encode labels from a small range of integers in linear time, else (None, None).

    Sorting a million labels would take longer than a pass over a million rows. Chunks
    keep the temporary arrays small.
    """
    if y.dtype.kind not in "biuf" or not y.size:
        return None, None
    lowest, highest = y.min(), y.max()
    # Written so that NaN and infinity fail too.
    if not float(highest) - float(lowest) < _MAX_LABEL_RANGE:
        return None, None
    if lowest != highest and lowest % 1 == 0 and highest % 1 == 0:
        # Two classes, the most common case, need two comparisons.
        is_highest = y == highest
        if np.count_nonzero(is_highest) + np.count_nonzero(y == lowest) == y.size:
            return np.array([lowest, highest], dtype=y.dtype), is_highest.view(np.int8)
    lowest = int(lowest)
    present = np.zeros(_MAX_LABEL_RANGE + 1, dtype=bool)
    for chunk in _chunks(y):
        # Faster than a remainder, which is zero for numbers too large for this type.
        whole = chunk.astype(np.int64)
        if chunk.dtype.kind == "f" and (whole != chunk).any():
            return None, None
        present[whole - lowest] = True
    labels = np.flatnonzero(present)
    codes_of = np.zeros(_MAX_LABEL_RANGE + 1, dtype=_code_type(len(labels)))
    codes_of[labels] = np.arange(len(labels))
    codes = np.empty(len(y), dtype=codes_of.dtype)
    for chunk, coded in zip(_chunks(y), _chunks(codes), strict=True):
        coded[:] = codes_of[chunk.astype(np.int64) - lowest]
    return (labels + lowest).astype(y.dtype), codes


def _encode_sorted(y):
    """Encode labels of any type; sorting them all at once would copy them all."""
    _check_discrete(y)
    classes = np.unique(np.concatenate([np.unique(chunk) for chunk in _chunks(y)]))
    codes = np.empty(len(y), dtype=_code_type(len(classes)))
    for chunk, coded in zip(_chunks(y), _chunks(codes), strict=True):
        coded[:] = np.searchsorted(classes, chunk)
    return classes, codes


def _check_discrete(y):
    """Refuse labels that scikit-learn calls continuous or unknown."""
    if y.dtype.kind == "f":
        if any((chunk % 1).any() for chunk in _chunks(y)):
            raise ValueError(
                "Unknown label type: continuous. Maybe you are trying to fit a "
                "classifier, which expects discrete classes on a regression target "
                "with continuous values."
            )
        return
    # Strings and objects show their kind at once. Labels that occur once each would
    # make scikit-learn warn of a regression target.
    labels = y[:_MAX_LABEL_RANGE]
    check_classification_targets(np.concatenate([labels, labels]))


def _code_type(n_classes):
    return np.int8 if n_classes <= 127 else np.int32


def _chunks(array):
    for start in range(0, len(array), _MAX_LABEL_RANGE):
        yield array[start : start + _MAX_LABEL_RANGE]
