"""The skeleton shared by the two regressors."""

from abc import abstractmethod

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skcara._sklearn_compat import fit_context
from skcara.data import Design
from skcara.estimators._base import BaseCaLinearModel
from skcara.estimators._progress import FitObserver
from skcara.estimators._validation import check_sample_weight, check_training_data
from skcara.objective import Problem, SquaredLoss


class CaRegressor(MultiOutputMixin, RegressorMixin, BaseCaLinearModel):
    """Squared loss with a separable penalty, one problem per target."""

    @abstractmethod
    def _strengths(self) -> tuple[float, float]:
        """Strengths of the L1 and L2 terms in the mean objective."""

    @abstractmethod
    def _make_criterion(self):
        """Stopping criterion."""

    @fit_context
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Dense arrays and CSR matrices of any numeric type are read
            as they are, in chunks; CSC matrices are converted to CSR.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Target values.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. Only their ratios matter.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self.solver_ = self._resolve_solver()
        fit_data = {"X": X, "y": y, "sample_weight": sample_weight}
        X, y = check_training_data(self, X, y, y_numeric=True)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        targets = (y if y.ndim == 2 else y[:, None]).T
        design = Design(X, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs)
        starts = self._starting_points(design, len(targets))
        solutions = []
        with FitObserver(self, **fit_data, n_problems=len(targets)) as observer:
            for target, start in zip(targets, starts, strict=True):
                problem = self._make_problem(design, target, sample_weight)
                pending = starts[len(solutions) + 1 :]

                def on_round(record, evaluation, point, pending=pending):
                    finished = [solution[:2] for solution in solutions]
                    points = [*finished, point, *pending]
                    return observer.on_round(
                        record,
                        evaluation,
                        lambda: self._linear_attributes(points, y.ndim),
                    )

                solutions.append(self._solve(problem, *start, on_round))
                self._warn_unless_converged(solutions[-1][-1])
        self._store(solutions, y.ndim, problem.total_weight)
        return self

    def _make_problem(self, design, target, sample_weight):
        l1, l2 = self._strengths()
        return Problem(
            design,
            np.ascontiguousarray(target, dtype=np.float64),
            SquaredLoss(),
            self._make_penalty(design, l1, l2, self.positive),
            self._make_criterion(),
            sample_weight,
        )

    def _starting_points(self, design, n_targets):
        """Starting ``(coef, intercept)`` of each target: zero, or the last fit."""
        shape = (n_targets, design.n_features)
        if getattr(self, "warm_start", False) and hasattr(self, "coef_"):
            coef = np.reshape(self.coef_, (-1, np.shape(self.coef_)[-1]))
            if coef.shape == shape:
                intercepts = np.broadcast_to(self.intercept_, n_targets)
                return [
                    (row[:, None].astype(np.float64), np.atleast_1d(intercept))
                    for row, intercept in zip(coef, intercepts, strict=True)
                ]
        return [(np.zeros((design.n_features, 1)), np.zeros(1))] * n_targets

    def _linear_attributes(self, points, y_ndim):
        coef = np.array([coef[:, 0] for coef, _ in points])
        intercept = np.array([intercept[0] for _, intercept in points])
        if y_ndim == 1:
            coef, intercept = coef[0], float(intercept[0])
        elif not self.fit_intercept:
            intercept = 0.0
        return {"coef_": coef, "intercept_": intercept}

    def _store(self, solutions, y_ndim, total_weight):
        points = [(coef, intercept) for coef, intercept, _ in solutions]
        for name, value in self._linear_attributes(points, y_ndim).items():
            setattr(self, name, value)
        supports = [self._support(result, total_weight) for *_, result in solutions]
        attributes = {
            "n_iter_": [result.n_rounds for *_, result in solutions],
            "n_passes_": [result.passes for *_, result in solutions],
            "n_recombinations_": [result.n_recombinations for *_, result in solutions],
            "support_": [indices for indices, _ in supports],
            "support_weights_": [weights for _, weights in supports],
            "objective_": [result.evaluation.objective for *_, result in solutions],
            "optimality_": [result.evaluation.optimality for *_, result in solutions],
            "history_": [result.history for *_, result in solutions],
            **self._more_attributes([result for *_, result in solutions]),
        }
        for name, values in attributes.items():
            setattr(self, name, values[0] if y_ndim == 1 else values)

    def _more_attributes(self, results) -> dict:
        """Fitted attributes of one estimator only, a list over targets each."""
        return {}

    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y_pred : ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)
        return X @ self.coef_.T + self.intercept_
