"""Data that are not in memory: sources and collections of Dask, given to estimators.

``fit`` reads a source as it reads arrays, once :func:`opened` has made one of what the
user gave. Methods that predict are decorated with :func:`or_lazily`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial, wraps
from typing import TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skcara.data import ArraySource, Source
from skcara.io import DataSource, from_dask
from skcara.io._mapped import from_memory_map, is_larger_than_memory
from skcara.io._predictions import is_lazy, predict_lazily
from skcara.io._watch import make_watch

#: Reads of a fit that takes steps: a survey, an evaluation after each of a few steps.
MANY_READS = 5

# What describes the fit and may be as long as a sample: predictions do not need it, and
# they travel with the estimator to every partition.
_UNNEEDED = (
    *("support_", "support_weights_", "history_"),
    *("coefs_paths_", "mse_path_", "n_iter_", "scores_"),
)

_Method = TypeVar("_Method", bound=Callable)


@contextmanager
def opened(
    estimator, X, y, sample_weight, *, expected_reads: int
) -> Iterator[DataSource]:
    """Yield a source for a fit, and let the estimator know its columns.

    Parameters
    ----------
    estimator : estimator
    X : DataSource or collection of Dask
    y, sample_weight
        For Dask; a source has its own.
    expected_reads : int
        About how often the rows will be read.

    Raises
    ------
    ValueError
        If targets or weights are missing, or given twice.
    """
    name = type(estimator).__name__
    rows = opened_rows(
        name, X, y, sample_weight, expected_reads, verbose=estimator.verbose
    )
    with rows as data:
        estimator.n_features_in_ = data.n_features
        vars(estimator).pop("feature_names_in_", None)
        if data.feature_names is not None:
            estimator.feature_names_in_ = np.array(data.feature_names, dtype=object)
        yield data


@contextmanager
def opened_rows(
    name: str, X, y, sample_weight, expected_reads: int, *, verbose=0
) -> Iterator[DataSource]:
    """Yield a source for whoever has this name, see :func:`opened`."""
    data = _as_source(name, X, y, sample_weight)
    watch = make_watch(name, expected_reads, verbose)
    with data.reading(expected_reads, watch):
        yield data


def _as_source(name, X, y, sample_weight) -> DataSource:
    if not isinstance(X, DataSource):
        if y is None:
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None."
            )
        return from_dask(X, y, sample_weight)
    refuse_targets(name, y, sample_weight)
    return X


def refuse_targets(name: str, y, sample_weight):
    """Refuse targets and weights beside a source, which has its own."""
    for what, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None:
            raise ValueError(
                f"{what} must be None when X is a source, whose rows have targets and "
                f"weights of their own: give {name} the source alone."
            )


def mean_over_rows(estimator, source: DataSource, compare) -> np.ndarray:
    """Weighted mean of a function of targets and predictions, in one read.

    Parameters
    ----------
    estimator : fitted estimator
    source : DataSource
    compare : callable
        Takes targets and predictions of some rows, returns numbers of the same shape.

    Returns
    -------
    means : ndarray of shape (n_targets,)
    """
    check_is_fitted(estimator)
    _check_columns(estimator, source)
    small, total = _without_names(estimator), 0.0
    sums = np.zeros(max(source.target_shape, default=1))
    for chunk in source.chunks():
        counted = slice(None) if chunk.weights is None else chunk.weights > 0
        weights = np.ones(chunk.n_rows) if chunk.weights is None else chunk.weights
        target, weights = chunk.target[counted], weights[counted]
        if len(target):
            values = compare(target, small.predict(chunk.rows[counted]))
            sums += weights @ values.reshape(len(target), -1)
            total += weights.sum()
    return sums / total


def _without_names(estimator):
    """Copy that takes rows without names; the columns were compared for all of them."""
    small = copy(estimator)
    vars(small).pop("feature_names_in_", None)
    return small


def array_source(X, target, weights=None, *, atom=None, n_jobs=None) -> Source:
    """Return a source of checked arrays.

    Parameters
    ----------
    X : ndarray, CSR matrix or table of columns
    target : ndarray
        Floats, or class codes.
    weights : sliceable of length n_rows, optional
    atom : labels, optional
        Atoms of the rows.
    n_jobs : int, optional
        Threads that read; a memory map that does not fit in memory is read by one,
        in order.

    Returns
    -------
    source : ArraySource or PartsSource
    """
    if not is_larger_than_memory(X):
        return ArraySource(X, target, weights, atom=atom, n_jobs=n_jobs)
    data = from_memory_map(X, target, weights)
    if target.dtype.kind == "f":
        return data.for_regression().with_atoms(atom)
    return data.for_classification()[1].with_atoms(atom)


def or_lazily(method: _Method) -> _Method:
    """Decorate a method of rows: lazy for Dask, an iterator of arrays for sources.

    Type checkers and editors see the method itself, which is for rows in memory.
    """

    @wraps(method)
    def decorated(self, X):
        if not is_lazy(X):
            return method(self, X)
        check_is_fitted(self)
        small = copy(self)
        if isinstance(X, DataSource):
            _check_columns(self, X)
            small = _without_names(self)
        for name in _UNNEEDED:
            vars(small).pop(name, None)
        predict = partial(method, small)
        return predict_lazily(predict, X, columns=getattr(self, "classes_", None))

    return cast(_Method, decorated)


def _check_columns(estimator, source: DataSource):
    """Refuse a source whose columns are not those of the fit."""
    if source.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is "
            f"expecting {estimator.n_features_in_} features as input."
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or source.feature_names is None:
        return
    for number, (expected, found) in enumerate(
        zip(fitted, source.feature_names, strict=True)
    ):
        if expected != found:
            raise ValueError(
                "The columns should be those of the fit, in the same order: column "
                f"{number} was {expected!r} then and is {found!r} now."
            )
