"""The skeleton shared by the two regressors."""

from abc import abstractmethod
from typing import Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from skcara._sklearn_compat import fit_context
from skcara.data import Coordinates, Source
from skcara.estimators._base import BaseCaLinearModel, all_or_nothing
from skcara.estimators._inputs import (
    MANY_READS,
    array_source,
    mean_over_rows,
    opened,
    or_lazily,
    refuse_targets,
)
from skcara.estimators._progress import FitObserver
from skcara.estimators._validation import check_sample_weight, check_training_data
from skcara.io import DataSource
from skcara.io._predictions import is_lazy
from skcara.objective import Problem, SquaredLoss
from skcara.solvers import resolve_solver


class LinearRegressorMixin(RegressorMixin):
    """Predictions of a linear model."""

    @or_lazily
    def predict(self, X) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y_pred : ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        return self._predict_linear(X)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Coefficient of determination of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or a source of :mod:`skcara.io`, which is read once.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True values; None for a source, which has its own.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        score : float
            One minus the mean squared error divided by the variance of the targets,
            averaged over the targets.
        """
        if not isinstance(X, DataSource):
            return super().score(X, y, sample_weight)
        refuse_targets("score", y, sample_weight)
        variances = np.array(
            [m.variance for m in X.for_regression().facts.target_moments]
        )
        errors = mean_over_rows(self, X, lambda true, found: np.square(true - found))
        return float(np.mean(1 - errors / variances))


class CaRegressor(MultiOutputMixin, LinearRegressorMixin, BaseCaLinearModel):
    """Squared loss with a separable penalty, one problem per target."""

    # With several targets, what describes a run is a list over the targets.
    intercept_: float | np.ndarray
    n_iter_: int | list[int]
    strategy_: str | list[str]
    n_passes_: float | list[float]
    n_recombinations_: int | list[int]
    n_calibrations_: int | list[int]
    support_: np.ndarray | list[np.ndarray | None] | None
    support_weights_: np.ndarray | list[np.ndarray | None] | None
    objective_: float | list[float]
    optimality_: float | list[float]
    history_: np.ndarray | list[np.ndarray]

    #: Whether targets of shape (n_samples, 1) give attributes of a single target.
    _squeezes_target = False

    @abstractmethod
    def _strengths(self) -> tuple[float, float]:
        """Strengths of the L1 and L2 terms in the mean objective."""

    @abstractmethod
    def _make_criterion(self):
        """Stopping criterion."""

    @fit_context
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Dense arrays and CSR matrices of any numeric type are read
            as they are, in chunks; CSC matrices are converted to CSR. Dask arrays and
            DataFrames are read where their partitions are, and a source of
            :mod:`skcara.io` from wherever it is.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Target values; None for a source, which has its own.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. Only their ratios matter.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_solver_parameters()
        source: Source
        with all_or_nothing(self, X):
            if is_lazy(X):
                reads = self._expected_reads()
                with opened(self, X, y, sample_weight, expected_reads=reads) as data:
                    fit_data = {"X": data, "y": None, "sample_weight": None}
                    source = data.for_regression()
                    self._fit_source(source, data.target_shape, fit_data)
                return self
            fit_data = {"X": X, "y": y, "sample_weight": sample_weight}
            X, y = check_training_data(self, X, y, y_numeric=True)
            y = y.astype(np.float64, copy=False)
            sample_weight = check_sample_weight(sample_weight, X.shape[0])
            source = array_source(X, y, sample_weight, n_jobs=self.n_jobs)
            self._fit_source(source, y.shape[1:], fit_data)
        return self

    def _expected_reads(self):
        """Reads of a source: a survey, and mostly one of statistics."""
        is_fast = resolve_solver(self.solver) == resolve_solver("auto")
        return 2 if is_fast and self.recombination in ("auto", None) else MANY_READS

    def _fit_source(self, source, target_shape, fit_data):
        n_targets = target_shape[0] if target_shape else 1
        problems = [
            self._make_problem(source, column if target_shape else None)
            for column in range(n_targets)
        ]
        starts = self._starting_points(source.facts.n_features, n_targets)

        def attributes(points):
            return self._linear_attributes(points, target_shape)

        with FitObserver(self, **fit_data, n_problems=n_targets) as observer:
            points, results = self._solve(
                source, problems, starts, observer, attributes
            )
        for result in results:
            self._warn_unless_converged(result)
        described = {
            "n_iter_": [result.n_rounds for result in results],
            **self._run_attributes(results, source.facts.total_weight),
            **self._more_attributes(results),
        }
        is_single = not target_shape or (self._squeezes_target and n_targets == 1)
        for name, values in described.items():
            setattr(self, name, values[0] if is_single else values)
        for name, value in attributes(points).items():
            setattr(self, name, value)
        self.solver_ = resolve_solver(self.solver)

    def _make_problem(self, source, column):
        n_features = source.facts.n_features
        l1, l2 = self._strengths()
        return Problem(
            source.facts,
            SquaredLoss(),
            self._make_penalty(n_features, l1, l2, self.positive),
            self._make_criterion(),
            Coordinates.of_user(n_features, self.fit_intercept),
            column,
        )

    def _starting_points(self, n_features, n_targets):
        """Starting ``(coef, intercept)`` of each target: zero, or the last fit."""
        shape = (n_targets, n_features)
        if getattr(self, "warm_start", False) and hasattr(self, "coef_"):
            coef = np.reshape(self.coef_, (-1, np.shape(self.coef_)[-1]))
            if coef.shape == shape:
                intercepts = np.broadcast_to(self.intercept_, n_targets)
                return [
                    (row[:, None].astype(np.float64), np.atleast_1d(intercept))
                    for row, intercept in zip(coef, intercepts, strict=True)
                ]
        return [(np.zeros((n_features, 1)), np.zeros(1))] * n_targets

    def _linear_attributes(self, points, target_shape):
        coef = np.array([coef[:, 0] for coef, _ in points])
        intercept = np.array([intercept[0] for _, intercept in points])
        if not target_shape:
            return {"coef_": coef[0], "intercept_": float(intercept[0])}
        if self._squeezes_target and len(points) == 1:
            coef = coef[0]
        return {"coef_": coef, "intercept_": intercept if self.fit_intercept else 0.0}

    def _more_attributes(self, results) -> dict:
        """Fitted attributes of one estimator only, a list over targets each."""
        return {}
