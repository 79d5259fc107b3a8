"""logistic_path: logistic regression for many penalties from a few reads."""

import warnings
from contextlib import contextmanager
from numbers import Real
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from skcara._sklearn_compat import Interval, validated
from skcara.data import (
    Coordinates,
    FoldBatch,
    FoldSets,
    one_blas_thread,
    random_generator,
)
from skcara.estimators._class_weight import ClassWeights
from skcara.estimators._inputs import array_source, opened_rows
from skcara.estimators._logistic_cv import CaLogisticRegressionCV
from skcara.estimators._logistic_grid import LogisticGrid, check_cs
from skcara.estimators._logistic_search import solve_columns, stacked_coef
from skcara.estimators._validation import (
    bad_values_explained,
    check_sample_weight,
    encode_labels,
    make_seed,
)
from skcara.io._predictions import is_lazy
from skcara.solvers import drive_search

# Reads of a source: a survey and one after each of some steps.
_READS = 8


class LogisticPath(NamedTuple):
    """What :func:`logistic_path` returns.

    Attributes
    ----------
    Cs : ndarray of shape (n_cs,)
    coefs : ndarray of shape (n_cs, n_classes or 1, n_features [+ 1])
    optimalities : ndarray of shape (n_cs,)
    """

    Cs: np.ndarray
    coefs: np.ndarray
    optimalities: np.ndarray


@validated(
    CaLogisticRegressionCV._parameter_constraints,
    l1_ratio=[Interval(Real, 0, 1, closed="both")],
    sample_weight=["array-like", Real, None],
)
def logistic_path(
    X,
    y=None,
    *,
    Cs=10,
    l1_ratio=0.0,
    fit_intercept=True,
    class_weight=None,
    sample_weight=None,
    tol=1e-4,
    max_iter=100,
    n_jobs=None,
    random_state=None,
) -> LogisticPath:
    """Coefficients of logistic regression for many penalties.

    The objective is that of :class:`CaLogisticRegression`. Every read of the data
    serves all penalties.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data, read as it is in chunks; or a Dask array or DataFrame, or a
        source of :mod:`skcara.io`.
    y : array-like of shape (n_samples,)
        Class labels; None for a source, which has its own.
    Cs : int or array-like, default=10
        Inverse strengths of the penalty, or how many of them on a logarithmic grid
        between 1e-4 and 1e4.
    l1_ratio : float in [0, 1], default=0.0
        Share of the L1 term.
    fit_intercept : bool, default=True
        Whether there is an intercept; it is the last column of `coefs`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights of the losses.
    tol : float, default=1e-4
        Largest violation of the optimality conditions of the mean objective.
    max_iter : int, default=100
        Most rounds, each of which reads the data once for all penalties.
    n_jobs : int, default=None
        Threads that read the data, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator instance or None, default=None
        Seed of the choice of the rows in a sample. None is a fixed seed.

    Returns
    -------
    Cs : ndarray of shape (n_cs,)
        Inverse penalties, as given.
    coefs : ndarray of shape (n_cs, n_classes or 1, n_features [+ 1])
        Coefficients, exactly zero where an L1 penalty says so.
    optimalities : ndarray of shape (n_cs,)
        Largest violations on all rows.

    See Also
    --------
    CaLogisticRegressionCV : Chooses one of the penalties by cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skcara import logistic_path
    >>> X, y = load_iris(return_X_y=True)
    >>> Cs, coefs, optimalities = logistic_path(X, y, Cs=[0.01, 1.0])
    >>> coefs.shape
    (2, 3, 5)
    """
    Cs, ratios = check_cs(Cs), np.array([l1_ratio], dtype=np.float64)
    rng = random_generator(make_seed(random_state))
    weights = class_weight, sample_weight
    with _opened_source(X, y, *weights, n_jobs) as (classes, source):
        grid = LogisticGrid(Cs, ratios, len(classes), fit_intercept)
        facts, batch = source.facts, FoldBatch.of_all_rows(source.facts.n_rows)
        totals = np.array([facts.total_weight]), np.zeros(1)
        problems = grid.fold_problems(
            source,
            (FoldSets([batch]), batch.labels),
            totals,
            [Coordinates.of_user(facts.n_features, fit_intercept)],
            has_test=False,
        )
        search = solve_columns(problems, tol=tol, max_iter=max_iter, rng=rng)
        with one_blas_thread():
            last, n_reads = drive_search(search, source)
    coefs = [stacked_coef(problems.coordinates, column.base) for column in last.columns]
    optimalities = np.array([column.anchor.optimality for column in last.columns])
    n_failed = np.count_nonzero(optimalities > tol)
    if n_failed:
        warnings.warn(
            f"logistic_path did not converge: after {n_reads:.0f} reads of the data, "
            f"{n_failed} of {len(coefs)} fits violate the optimality conditions by "
            f"more than tol={tol:.3g} (at most {optimalities.max():.3g}). Increase "
            "max_iter or tol, or choose smaller Cs.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return LogisticPath(grid.Cs, np.array(coefs), optimalities)


@contextmanager
def _opened_source(X, y, class_weight, sample_weight, n_jobs):
    """Classes and a source, for rows in memory or not."""
    if is_lazy(X):
        with opened_rows("logistic_path", X, y, sample_weight, _READS) as data:
            classes, source = data.for_classification(class_weight)
            labels = FoldBatch.of_all_rows(source.facts.n_rows).labels
            yield classes, source.with_atoms(labels)
        return
    X = check_array(X, accept_sparse="csr", dtype="numeric", input_name="X")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    classes, codes = encode_labels(y)
    weights = check_sample_weight(sample_weight, X.shape[0])
    if class_weight is not None:
        weights = ClassWeights(class_weight, classes, codes, weights)
    labels = FoldBatch.of_all_rows(X.shape[0]).labels
    with bad_values_explained(X, "logistic_path"):
        yield classes, array_source(X, codes, weights, atom=labels, n_jobs=n_jobs)
