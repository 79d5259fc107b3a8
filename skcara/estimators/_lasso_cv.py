"""CaLassoCV: drop-in for scikit-learn's LassoCV and ElasticNetCV."""

import time
import warnings
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcara._sklearn_compat import Interval, fit_context
from skcara.data import Source, row_labels
from skcara.estimators._base import LinearModel, all_or_nothing
from skcara.estimators._docstrings import fill_docstring
from skcara.estimators._folds import CrossValidatedMixin
from skcara.estimators._grids import check_alphas, check_l1_ratios
from skcara.estimators._inputs import array_source, opened
from skcara.estimators._regressor import LinearRegressorMixin
from skcara.estimators._search_progress import SearchObserver
from skcara.estimators._validation import (
    check_sample_weight,
    check_training_data,
    single_target,
)
from skcara.io._predictions import is_lazy
from skcara.solvers import HISTORY_DTYPE, drive_search
from skcara.solvers.paths import PenaltyGrid, SearchState, search_penalties

# Reads of a source: a survey, and one or two of moments.
_READS = 2
# Relative error of a score that is worth a warning, unless the score is so small a
# share of the mean square of the target that the predictions are exact.
_MAX_SCORE_ERROR, _EXACT = 1e-6, 1e-10


@fill_docstring
class CaLassoCV(CrossValidatedMixin, LinearRegressorMixin, LinearModel):
    r"""Lasso and elastic net whose penalty is chosen by cross-validation.

    The objective is that of :class:`CaLasso`. One read of the data serves all folds
    and all penalties: it sums second moments by atoms, the rows with the same
    membership in all training and test sets. Where columns are nearly dependent, a
    second read sums them in better coordinates; where `y` is nearly a linear function
    of the columns, one more read computes the errors from residuals. Rows of a fold are
    never copied out of `X`, however scattered they are.

    Parameters
    ----------
    l1_ratio : float or array-like of floats in [0, 1], default=1.0
        Share of the L1 term; 1 is the Lasso, 0 the ridge. If several are given, the
        best of them is chosen along with the penalty.
    eps : float, default=1e-3
        Smallest penalty of a grid divided by the largest.
    alphas : int or array-like, default=100
        Number of penalties on a geometric grid, or the penalties. For each `l1_ratio`
        the grid begins where all coefficients are zero; for ``l1_ratio=0``, where
        their norm is a thousandth of that without a penalty.
    fit_intercept : bool, default=True
        Whether to fit the intercept, which is never penalised. Without one,
        `standardize` still centres the features, as a scaler would.
    positive : bool, default=False
        Whether coefficients must be non-negative.
    standardize : bool, default=False
        Whether every fold, and the final fit, standardises the features with mean and
        standard deviation of its own training rows, as a
        :class:`~sklearn.preprocessing.StandardScaler` in a pipeline inside the folds
        would. The penalty acts on the standardised coefficients; `coef_` is in the
        units of `X`.
    cv : int, splitter or iterable, default=None
        Folds, as in scikit-learn: None means five, without shuffling. Groups reach a
        splitter by metadata routing. For rows that are not in memory a splitter is
        shown how many there are; one that is not scikit-learn's also the targets, for
        which the data are read once more. Folds that are not contiguous take a small
        integer for each row, in memory.
    tol : float, default=1e-4
        Largest duality gap of a fit, relative to the variance of `y` on its rows (the
        mean square without an intercept). Fits are much more accurate than this unless
        columns are nearly dependent.
    max_iter : int, default=1000
        Most reads of the data; more than three are never needed.
    n_jobs : int, default=None
        Threads that read the data, as in joblib. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Not used, nothing is random; for the same signature as other estimators.
    verbose : int, default=0
        Print one line per fold.

    Attributes
    ----------
    alpha_ : float
        The penalty with the least mean squared error, averaged over the folds.
    l1_ratio_ : float
        The ratio that goes with it.
    coef_ : ndarray of shape (n_features,)
        Coefficients on all rows, exactly zero where the penalty says so.
    intercept_ : float
        Intercept, 0.0 without one; without one but with `standardize`, what the means
        of the features contribute.
    mse_path_ : ndarray of shape ([n_l1_ratios,] n_alphas, n_folds)
        Mean squared errors on the held-out rows, weighted with `sample_weight`. NaN in
        folds that a callback has skipped.
    alphas_ : ndarray of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        The penalties in descending order, one grid per ratio if the search made them.
    dual_gap_ : float
        Certified bound on `objective_` minus its minimum, for the returned
        coefficients; NaN without any penalty.
    n_iter_ : int
        Rounds of the search: reads of the data.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if all are strings.
    n_passes_ : float
        Full reads of the data.
    objective_ : float
        Mean loss plus penalty on all rows at the returned coefficients. With
        `standardize` this and the two certificates are about standardised features.
    optimality_ : float
        Largest distance of the gradient of `objective_` to what is optimal, on all
        rows, rounding included.
    history_ : ndarray with named fields
        One record, of the fit on all rows, with the fields of :class:`CaLasso`.

    See Also
    --------
    CaLasso : For a given penalty.
    lasso_path : The path on all rows.
    sklearn.linear_model.LassoCV : A twin in scikit-learn.
    sklearn.linear_model.ElasticNetCV : The other twin.

    Notes
    -----
    With ``n`` columns the read costs as much as one Gram matrix of all rows, and the
    paths take a time that does not depend on the number of rows. From some thousand
    columns on, the Gram matrices are what limits the search. A splitter that makes many
    distinct patterns of membership, such as many repeats of
    :class:`~sklearn.model_selection.ShuffleSplit`, gets the Gram matrices of batches
    of folds, at worst one sum for the training rows and one for the test rows of
    each fold, still in one read.

    Examples
    --------
    >>> import numpy as np
    >>> from skcara import CaLassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((10_000, 5))
    >>> y = X @ [1.0, 2.0, 0.0, 0.0, 0.0] + rng.standard_normal(10_000)
    >>> model = CaLassoCV().fit(X, y)
    >>> print(model.coef_.round(1), model.mse_path_.shape, model.n_passes_)
    [1. 2. 0. 0. 0.] (100, 5) 1.0
    """

    alpha_: float
    l1_ratio_: float
    intercept_: float
    mse_path_: np.ndarray
    alphas_: np.ndarray
    dual_gap_: float
    n_iter_: int
    n_passes_: float
    objective_: float
    optimality_: float
    history_: np.ndarray

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **LinearModel._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), "array-like"],
        "eps": [Interval(Real, 0, None, closed="neither")],
        "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "positive": ["boolean"],
        "standardize": ["boolean"],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        *,
        l1_ratio=1.0,
        eps=1e-3,
        alphas=100,
        fit_intercept=True,
        positive=False,
        standardize=False,
        cv=None,
        tol=1e-4,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.l1_ratio = l1_ratio
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.standardize = standardize
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context
    def fit(self, X, y=None, sample_weight=None, **params) -> Self:
        """Choose a penalty by cross-validation and fit all rows with it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Dense arrays and CSR matrices of any numeric type are read
            as they are, in chunks; CSC matrices are converted to CSR. Dask arrays and
            DataFrames are read where their partitions are, and a source of
            :mod:`skcara.io` from wherever it is.
        y : array-like of shape (n_samples,)
            Target values; None for a source, which has its own.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, in the fits and in the errors of each fold. The
            penalty is chosen by the unweighted mean over the folds.
        **params : dict
            Passed to the splitter, if metadata routing is enabled and the splitter
            requests them.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        grid = self._make_grid()
        with all_or_nothing(self, X):
            if is_lazy(X):
                routed = self._route_fit_params(None, params)
                with opened(self, X, y, sample_weight, expected_reads=_READS) as data:
                    self._check_target_shape(data.target_shape)
                    parts = data.for_regression()
                    (batches, _), passes = drive_search(
                        self._source_batches(parts, routed.splitter.split),
                        parts.with_idle_rows(),
                    )
                    source: Source = parts.with_atoms(row_labels(batches))
                    given = {"X": data, "y": None, "sample_weight": None}
                    self._fit_source(source, batches, grid, passes, given)
                return self
            given = {"X": X, "y": y, "sample_weight": sample_weight}
            routed = self._route_fit_params(sample_weight, params)
            X, y = check_training_data(self, X, y, y_numeric=True)
            self._check_target_shape(y.shape[1:])
            y = single_target(y).astype(np.float64, copy=False)
            weights = check_sample_weight(sample_weight, X.shape[0])
            batches = self._fold_batches(X, y, None, routed.splitter.split)
            labels = row_labels(batches)
            source = array_source(X, y, weights, atom=labels, n_jobs=self.n_jobs)
            self._fit_source(source, batches, grid, 0.0, given)
        return self

    def _check_target_shape(self, shape):
        if shape and shape[0] > 1:
            raise ValueError(
                f"{type(self).__name__} chooses the penalty of one target, got "
                f"{shape[0]}. Fit one search for each column of y."
            )

    def _make_grid(self) -> PenaltyGrid:
        return PenaltyGrid(
            check_l1_ratios(self.l1_ratio),
            check_alphas(self.alphas),
            self.eps,
            fit_intercept=self.fit_intercept,
            positive=self.positive,
            standardize=self.standardize,
            tol=self.tol,
            max_reads=self.max_iter,
        )

    def _fit_source(self, source, batches, grid, passes, given):
        n_folds = sum(len(batch.train) for batch in batches)
        started = time.perf_counter()
        with SearchObserver(self, **given, n_folds=n_folds) as observer:

            def on_report(state: SearchState, passes: float):
                return observer.on_step(
                    state, passes, lambda: _linear_attributes(state.choose())
                )

            (state, choice), self.n_passes_ = drive_search(
                search_penalties(grid, batches), source, on_report
            )
            self.n_passes_ += passes
        self._set_search_attributes(state, grid, n_folds)
        for name, value in _linear_attributes(choice).items():
            setattr(self, name, value)
        fit = choice.fit
        self.dual_gap_ = float(fit.gaps[0])
        self.objective_ = float(fit.objectives[0])
        self.optimality_ = float(fit.optimalities[0])
        self.n_iter_ = state.n_reads
        record = (
            *(0, self.n_passes_, time.perf_counter() - started),
            *(self.objective_, self.optimality_, 0, 0, fit.relative_gaps[0]),
        )
        self.history_ = np.array([record], dtype=HISTORY_DTYPE)
        self._warn_unless_accurate(state, choice)

    def _set_search_attributes(self, state, grid, n_folds):
        alphas = np.array([alphas for _, alphas in state.grids])
        errors = np.full((*alphas.shape, n_folds), np.nan)
        for fold, fold_errors in enumerate(state.errors):
            errors[:, :, fold] = fold_errors
        is_single = len(alphas) == 1
        self.mse_path_ = errors[0] if is_single else errors
        is_made = isinstance(grid.alphas, int)
        self.alphas_ = alphas if is_made and not is_single else alphas[0]

    def _warn_unless_accurate(self, state, choice):
        """Warn once, with the number of fits and scores that are not as promised."""
        gaps = np.append(np.ravel(state.gaps), choice.fit.relative_gaps)
        errors, bounds = np.ravel(state.errors), np.ravel(state.bounds)
        n_gaps = np.count_nonzero(gaps > self.tol)
        is_exact = errors <= _EXACT * choice.fit.target_square
        n_scores = np.count_nonzero((bounds > _MAX_SCORE_ERROR * errors) & ~is_exact)
        if not n_gaps and not n_scores:
            return
        warnings.warn(
            f"{type(self).__name__} did not reach its accuracy with {state.n_reads} "
            f"reads of the data: {n_gaps} of {gaps.size} fits have a duality gap "
            f"relative to the variance of y above tol={self.tol:.3g} (largest "
            f"{np.nanmax(gaps, initial=0.0):.3g}), {n_scores} of {errors.size} errors "
            f"on held-out rows may be wrong by more than {_MAX_SCORE_ERROR:.0e} of "
            "themselves. Columns are nearly dependent, or the target is nearly a "
            "linear function of them: scale the columns, remove some, or use stronger "
            "penalties.",
            ConvergenceWarning,
            stacklevel=5,
        )


def _linear_attributes(choice) -> dict:
    """What predictions need, and which penalty it belongs to."""
    return {
        "alpha_": choice.alpha,
        "l1_ratio_": choice.l1_ratio,
        "coef_": choice.fit.coefs[:, 0].copy(),
        "intercept_": float(choice.fit.intercepts[0]),
    }
