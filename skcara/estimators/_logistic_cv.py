"""CaLogisticRegressionCV: drop-in for scikit-learn's LogisticRegressionCV."""

import warnings
from numbers import Integral
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer_names

from skcara._sklearn_compat import (
    Interval,
    StrOptions,
    fit_context,
)
from skcara.data import random_generator
from skcara.estimators._base import LinearModel, all_or_nothing
from skcara.estimators._classifier import LinearClassifierMixin, linear_attributes
from skcara.estimators._docstrings import fill_docstring
from skcara.estimators._inputs import opened
from skcara.estimators._logistic_data import data_of_arrays, data_of_source
from skcara.estimators._logistic_grid import LogisticGrid, check_cs, check_ratios
from skcara.estimators._logistic_refit import final_solver
from skcara.estimators._logistic_search import (
    Found,
    best_numbers,
    chosen_penalty,
    score_losses,
    search_logistic,
)
from skcara.estimators._scored import ScoredMixin
from skcara.estimators._search_progress import ReadObserver
from skcara.estimators._validation import check_training_data
from skcara.io._predictions import is_lazy
from skcara.solvers import SolverResult, Status, drive, drive_search
from skcara.solvers.paths import MAX_SCORE_ERROR, SearchRound

# Reads of a source: a survey, those of the search, and those of the final fit.
_READS = 12


@fill_docstring
class CaLogisticRegressionCV(ScoredMixin, LinearClassifierMixin, LinearModel):
    r"""Logistic regression whose penalty is chosen by cross-validation.

    The objective is that of :class:`CaLogisticRegression`. Every read of the data
    serves all folds and all penalties, and their number does not depend on how many
    there are. Rows of a fold are never copied out of `X`, however scattered they are.

    Parameters
    ----------
    Cs : int or array-like, default=10
        Inverse strengths of the penalty, or how many of them on a logarithmic grid
        between 1e-4 and 1e4.
    l1_ratios : array-like of floats in [0, 1], default=(0.0,)
        Shares of the L1 term; the best of them is chosen along with the penalty.
    fit_intercept : bool, default=True
        Whether to fit the intercept, which is never penalised. Must be True with
        `standardize`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the fits, not in the scores. "balanced" gives every
        class the same total weight on all rows, as in the twin.
    standardize : bool, default=False
        Whether every fold, and the final fit, standardises the features with mean and
        standard deviation of its own training rows, as a
        :class:`~sklearn.preprocessing.StandardScaler` in a pipeline inside the folds
        would. The penalty acts on the standardised coefficients, `tol` and
        `optimality_` are about them; `coef_` is in the units of `X`. Costs one read
        more.
    cv : int, splitter or iterable, default=None
        Folds, as in scikit-learn: None means five, stratified, without shuffling.
        Groups reach a splitter by metadata routing. For rows that are not in memory a
        splitter is shown how many there are; if it is stratified, or not one of
        scikit-learn's, also the number of the class of each row, for which the data
        are read once more. Folds that are not contiguous take a small integer for
        each row, in memory.
    scoring : str, callable or None, default=None
        What is best; None means "neg_log_loss". Scores that count classes, such as
        "accuracy" or "f1_macro", take one more read. Those of other names, and of
        scorers of :func:`~sklearn.metrics.make_scorer`, come from the predictions of
        all held-out rows, which takes one more read, or a few if these predictions
        take more than a tenth of the memory of `X`; they and the labels are held in
        memory, also for a source. Other callables are given the held-out rows, which
        must be in memory.
    refit : bool, default=True
        Whether to fit all rows with the best penalty. If not, `coef_` is the mean over
        the folds of the coefficients that score best on each.
    tol : float, default=1e-4
        A fit has converged when the largest violation of the optimality conditions of
        the mean objective, on its own training rows, is at most `tol`.
    max_iter : int, default=100
        Most rounds, each of which reads the data once for all folds and penalties.
    n_jobs : int, default=None
        Threads that read the data, as in joblib. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of the rows in a sample.
    verbose : int, default=0
        Print one line per read.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    Cs_ : ndarray of shape (n_cs,)
        Inverse penalties.
    l1_ratios_ : ndarray of shape (n_l1_ratios,)
        Shares of the L1 term.
    C_, l1_ratio_ : float
        The best of them; without `refit`, the mean of the best of each fold.
    scores_ : ndarray of shape (n_folds, n_l1_ratios, n_cs)
        Scores on the held-out rows.
    coefs_paths_ : ndarray of shape (n_folds, n_l1_ratios, n_cs, n_outputs, n_params)
        Coefficients, with the intercept behind them if there is one: `n_outputs` is the
        number of classes, one for two of them.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, exactly zero where an L1 penalty says so.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, zero without one.
    n_iter_ : ndarray of shape (n_folds, n_l1_ratios, n_cs)
        Reads after which each fit was done.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if all are strings.
    n_passes_ : float
        Full reads of the data, the final fit included.
    objective_, optimality_ : float
        Mean loss plus penalty on all rows at the returned coefficients, and the largest
        distance of its gradient to what is optimal; NaN without `refit`.
    history_ : ndarray with named fields or None
        Rounds of the final fit, see :class:`CaLogisticRegression`; None without. Its
        `passes` are those after the search, with which it shares the first ones.

    See Also
    --------
    CaLogisticRegression : For a given penalty.
    logistic_path : The path on all rows.
    sklearn.linear_model.LogisticRegressionCV : The twin in scikit-learn, which has
        these attributes with ``use_legacy_attributes=False``.

    Notes
    -----
    The scores are checked, not only the fits. What is left to the solution of a fold
    changes its log loss; that change is predicted and part of the score, and a fold is
    done when the prediction is wrong by less than 1e-6 of the score. How wrong it may
    be is estimated from how well the last step was predicted.

    A fold that does not train on all classes has no minimiser: as in the twin the
    intercept of the missing class ends somewhere far off, and a score of probabilities
    says how far. Here that is a :class:`~sklearn.exceptions.ConvergenceWarning`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skcara import CaLogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CaLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], standardize=True).fit(X, y)
    >>> print(model.C_, model.scores_.mean(axis=0).round(3))
    1.0 [[-0.098 -0.081 -0.132]]
    """

    Cs_: np.ndarray
    l1_ratios_: np.ndarray
    C_: float
    l1_ratio_: float
    scores_: np.ndarray
    coefs_paths_: np.ndarray
    intercept_: np.ndarray
    n_iter_: np.ndarray
    n_passes_: float
    objective_: float
    optimality_: float
    history_: np.ndarray | None

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **LinearModel._parameter_constraints,
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "l1_ratios": ["array-like"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "standardize": ["boolean"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        *,
        Cs=10,
        l1_ratios=(0.0,),
        fit_intercept=True,
        class_weight=None,
        standardize=False,
        cv=None,
        scoring=None,
        refit=True,
        tol=1e-4,
        max_iter=100,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.standardize = standardize
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
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
            Class labels: numbers, strings or booleans; None for a source, which has
            its own.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the losses, in the fits and in the scores.
        **params : dict
            Passed to the splitter and the scorer, if metadata routing is enabled and
            they request them.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        check_cs(self.Cs), check_ratios(self.l1_ratios)
        with all_or_nothing(self, X):
            if is_lazy(X):
                routed = self._route_fit_params(None, params)
                with opened(self, X, y, sample_weight, expected_reads=_READS) as rows:
                    data, passes = data_of_source(self, rows, routed)
                    given = {"X": rows, "y": None, "sample_weight": None}
                    self._fit_data(data, passes, given)
                return self
            given = {"X": X, "y": y, "sample_weight": sample_weight}
            routed = self._route_fit_params(sample_weight, params)
            X, y = check_training_data(self, X, y)
            data = data_of_arrays(self, X, y, sample_weight, routed, n_jobs=self.n_jobs)
            self._fit_data(data, 0.0, given)
        return self

    def _fit_data(self, data, passes, given):
        Cs, ratios = check_cs(self.Cs), check_ratios(self.l1_ratios)
        grid = LogisticGrid(Cs, ratios, len(data.classes), self.fit_intercept)
        with ReadObserver(self, **given) as observer:
            found = self._search(data, grid, observer)
            self.n_passes_ += passes
            self.classes_ = data.classes
            self.Cs_, self.l1_ratios_ = grid.Cs, grid.ratios
            self.scores_ = found.scores.reshape(-1, *grid.shape)
            self.coefs_paths_ = found.paths.reshape(
                -1, *grid.shape, *found.paths.shape[2:]
            )
            n_iter = np.array([column.n_reads for column in found.columns])
            self.n_iter_ = n_iter.reshape(-1, *grid.shape).astype(np.int32)
            best = best_numbers(found.scores, grid.shape, self.refit)
            result = None
            if self.refit and not found.is_stopped:
                result = self._refit(data, grid, best[0], found, observer)
            else:
                self._average(grid, best, found)
        self._warn_unless_converged(found, result)

    def _search(self, data, grid, observer) -> Found:
        def on_report(current: SearchRound, passes: float):
            return observer.on_read(
                current, passes, lambda: self._attributes_so_far(grid, current)
            )

        search = search_logistic(
            data,
            grid,
            standardize=self.standardize,
            refit=self.refit,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=random_generator(self._seed()),
        )
        found, self.n_passes_ = drive_search(search, data.source, on_report)
        return found

    def _attributes_so_far(self, grid, current: SearchRound) -> dict:
        """Fitted attributes with which the estimator could predict after a read."""
        [number] = best_numbers(score_losses(current), grid.shape, True)
        params = [one.base for one in current.columns if one.number == number]
        point = current.problems.coordinates.to_user(np.mean(params, axis=0))
        return {**linear_attributes(*point), **chosen_penalty(grid, [number])}

    def _refit(self, data, grid, number, found, observer) -> SolverResult:
        """Fit all rows."""
        solver, coordinates = final_solver(
            data.source, grid, number, found, self._seed()
        )
        to_user = coordinates.to_user

        def on_round(_, record, evaluation):
            return observer.on_round(
                0, record, lambda: linear_attributes(*to_user(evaluation.params))
            )

        [result] = drive(
            [solver],
            data.source,
            tol=self.tol,
            max_iter=self.max_iter,
            observer=on_round,
        )
        attributes = {
            **linear_attributes(*to_user(result.evaluation.params)),
            **chosen_penalty(grid, [number]),
            "objective_": result.evaluation.objective,
            "optimality_": result.evaluation.optimality,
            "history_": result.history,
            "n_passes_": self.n_passes_ + result.passes,
        }
        for name, value in attributes.items():
            setattr(self, name, value)
        return result

    def _average(self, grid, best, found):
        """Mean over the folds of the coefficients at the best penalty of each."""
        if len(best) == 1:
            best = best * len(found.paths)
        chosen = np.mean(
            [path[number] for path, number in zip(found.paths, best, strict=True)],
            axis=0,
        )
        n_features = self.n_features_in_
        self.coef_ = np.ascontiguousarray(chosen[:, :n_features])
        self.intercept_ = np.zeros(len(chosen))
        if self.fit_intercept:
            self.intercept_ = chosen[:, -1].copy()
        for name, value in chosen_penalty(grid, best).items():
            setattr(self, name, value)
        self.objective_ = self.optimality_ = np.nan
        self.history_ = None

    def _warn_unless_converged(self, found, result):
        """Warn once, with the number of fits and scores that are not as promised."""
        if found.is_stopped:
            return
        columns = found.columns
        optimality = np.array([column.anchor.optimality for column in columns])
        n_fits = np.count_nonzero(~(optimality <= self.tol))
        n_scores = sum(not column.has_score for column in columns)
        is_refit_bad = result is not None and result.status not in (
            Status.CONVERGED,
            Status.INTERRUPTED,
        )
        folds = found.folds_without_class
        if not n_fits and not n_scores and not is_refit_bad and not folds:
            return
        more = ""
        if is_refit_bad:
            more = f" The final fit did not converge either: {result.status.value}."
        if folds:
            more += (
                f" Folds {folds} do not train on all classes: the intercept of a class "
                "without rows has no optimal value, and scores depend on where it was "
                "left. Choose a cv that is stratified."
            )
        warnings.warn(
            f"{type(self).__name__} did not converge: after {self.n_passes_:.1f} reads "
            f"of the data, {n_fits} of {len(columns)} fits violate the optimality "
            f"conditions by more than tol={self.tol:.3g} (at most "
            f"{optimality.max():.3g}), and {n_scores} scores may be wrong by more than "
            f"{MAX_SCORE_ERROR:.0e} of themselves.{more} Increase max_iter or tol, or "
            "choose smaller Cs.",
            ConvergenceWarning,
            stacklevel=5,
        )
