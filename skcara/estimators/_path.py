"""lasso_path: the Lasso and the elastic net for many penalties from one read."""

import warnings
from contextlib import contextmanager
from numbers import Real
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from skcara._sklearn_compat import Interval, validated
from skcara.data import one_blas_thread
from skcara.estimators._grids import check_alphas
from skcara.estimators._inputs import array_source, opened_rows
from skcara.estimators._lasso_cv import CaLassoCV
from skcara.estimators._validation import bad_values_explained, check_sample_weight
from skcara.io._predictions import is_lazy
from skcara.solvers import drive_search
from skcara.solvers.paths import PenaltyGrid, solve_full_path

# Reads of a source: a survey and one of moments.
_READS = 2


class LassoPath(NamedTuple):
    """What :func:`lasso_path` returns.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    coefs : ndarray of shape (n_features, n_alphas)
    dual_gaps : ndarray of shape (n_alphas,)
    """

    alphas: np.ndarray
    coefs: np.ndarray
    dual_gaps: np.ndarray


@validated(
    CaLassoCV._parameter_constraints,
    l1_ratio=[Interval(Real, 0, 1, closed="both")],
    sample_weight=["array-like", Real, None],
)
def lasso_path(
    X,
    y=None,
    *,
    l1_ratio=1.0,
    eps=1e-3,
    alphas=100,
    fit_intercept=False,
    positive=False,
    sample_weight=None,
    tol=1e-4,
    max_iter=1000,
    n_jobs=None,
) -> LassoPath:
    r"""Coefficients of the Lasso and the elastic net for many penalties.

    The objective is that of :class:`CaLasso`. The data are read once for all
    penalties, twice if columns are nearly dependent.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data, read as it is in chunks; or a Dask array or DataFrame, or a
        source of :mod:`skcara.io`.
    y : array-like of shape (n_samples,)
        Target values; None for a source, which has its own.
    l1_ratio : float in [0, 1], default=1.0
        Share of the L1 term.
    eps : float, default=1e-3
        Smallest penalty of the grid divided by the largest.
    alphas : int or array-like, default=100
        Number of penalties on a geometric grid, as in :class:`CaLassoCV`, or the
        penalties.
    fit_intercept : bool, default=False
        Whether there is an intercept. It is not returned: it is the mean of `y` minus
        the means of the columns times the coefficients.
    positive : bool, default=False
        Whether coefficients must be non-negative.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. Only their ratios matter.
    tol : float, default=1e-4
        Largest duality gap, relative to the variance of `y` (its mean square without
        an intercept).
    max_iter : int, default=1000
        Most reads of the data; more than two are never needed.
    n_jobs : int, default=None
        Threads that read the data, as in joblib. The result does not depend on it.

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
        The penalties in descending order.
    coefs : ndarray of shape (n_features, n_alphas)
        Coefficients, exactly zero where the penalty says so.
    dual_gaps : ndarray of shape (n_alphas,)
        Certified bounds on the objective (a mean over rows) minus its minimum,
        rounding included; NaN without any penalty.

    See Also
    --------
    CaLassoCV : Chooses one of the penalties by cross-validation.
    sklearn.linear_model.lasso_path : The twin in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from skcara import lasso_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 3))
    >>> y = X @ [1.0, 2.0, 0.0]
    >>> alphas, coefs, dual_gaps = lasso_path(X, y, alphas=[0.1, 1.0])
    >>> print(alphas, coefs.round(1)[:, 1])
    [1.  0.1] [0.9 1.9 0. ]
    """
    grid = PenaltyGrid(
        (float(l1_ratio),),
        check_alphas(alphas),
        eps,
        fit_intercept=fit_intercept,
        positive=positive,
        tol=tol,
        max_reads=max_iter,
    )
    with _opened_source(X, y, sample_weight, n_jobs) as source, one_blas_thread():
        (alphas, path), n_reads = drive_search(solve_full_path(grid), source)
    n_failed = np.count_nonzero(path.relative_gaps > tol)
    if n_failed:
        warnings.warn(
            f"lasso_path did not converge: after {n_reads:.0f} reads of the data the "
            "duality gap relative to the variance of y is above "
            f"tol={tol:.3g} for {n_failed} of {len(alphas)} penalties (largest "
            f"{np.nanmax(path.relative_gaps):.3g}). Columns are nearly dependent: "
            "scale them, remove some, or use stronger penalties.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return LassoPath(alphas, path.coefs, path.gaps)


@contextmanager
def _opened_source(X, y, sample_weight, n_jobs):
    """A source of one target, for rows in memory or not."""
    if is_lazy(X):
        with opened_rows("lasso_path", X, y, sample_weight, _READS) as data:
            _check_target_shape(data.target_shape)
            yield data.for_regression()
        return
    X = check_array(X, accept_sparse="csr", dtype="numeric", input_name="X")
    y = np.asarray(y)
    _check_target_shape(y.shape[1:])
    y = check_array(column_or_1d(y), ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, y)
    weights = check_sample_weight(sample_weight, X.shape[0])
    with bad_values_explained(X, "lasso_path"):
        yield array_source(X, y, weights, n_jobs=n_jobs)


def _check_target_shape(shape):
    if shape and shape[0] > 1:
        raise ValueError(
            f"lasso_path takes one target, got {shape[0]}. Call it for each column of "
            "y."
        )
