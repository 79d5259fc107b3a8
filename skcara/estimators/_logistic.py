"""CaLogisticRegression: drop-in for scikit-learn's LogisticRegression."""

from numbers import Real
from typing import Self

import numpy as np

from skcara._sklearn_compat import Interval, StrOptions, fit_context
from skcara.data import Coordinates, Source
from skcara.estimators._base import BaseCaLinearModel, all_or_nothing
from skcara.estimators._class_weight import ClassWeights
from skcara.estimators._classifier import (
    LinearClassifierMixin,
    linear_attributes,
)
from skcara.estimators._docstrings import fill_docstring
from skcara.estimators._inputs import (
    MANY_READS,
    array_source,
    mean_over_rows,
    opened,
    refuse_targets,
)
from skcara.estimators._progress import FitObserver
from skcara.estimators._validation import (
    check_sample_weight,
    check_training_data,
    encode_labels,
    single_target,
)
from skcara.io import DataSource
from skcara.io._predictions import is_lazy
from skcara.objective import KKTViolation, LogisticLoss, MultinomialLoss, Problem


@fill_docstring
class CaLogisticRegression(LinearClassifierMixin, BaseCaLinearModel):
    r"""Logistic regression on tall data.

    Minimises, for two classes,

    .. math::

        C \sum_i w_i \log\left(1 + e^{-s_i (x_i^\top \beta + b)}\right)
        + \mathrm{l1\_ratio}\, \|\beta\|_1
        + \tfrac12 (1 - \mathrm{l1\_ratio})\, \|\beta\|_2^2 ,

    and the multinomial cross entropy for more: the objective of
    :class:`sklearn.linear_model.LogisticRegression`.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty; ``np.inf`` means no penalty.
    l1_ratio : float in [0, 1], default=0.0
        Share of the L1 term: 0 is ridge, 1 is pure L1.
    fit_intercept : bool, default=True
        Whether to fit the intercept :math:`b`, which is never penalised. The data are
        never moved or copied.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights. "balanced" gives
        every class the same total weight.
    warm_start : bool, default=False
        Whether to start at the coefficients of the last fit, if it had the same
        classes and columns.
    {solver_parameters}
    tol : float, default=1e-4
        The fit has converged when the largest violation of the optimality conditions
        of the mean objective, on the full data, is at most `tol`: the largest
        absolute entry of the gradient, with L1 its distance to the subdifferential.
    max_iter : int, default=100
        Most outer rounds.
    {run_parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, exactly zero where an L1 penalty says so.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, zero without one.
    n_iter_ : ndarray of shape (1,)
        Outer rounds.
    {fitted_attributes}

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The twin in scikit-learn.

    Notes
    -----
    `objective_` and `optimality_` are those of the mean objective: the sum above
    divided by ``C * sum(w)``.

    References
    ----------
    {references}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcara import CaLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), CaLogisticRegression()).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    """

    intercept_: np.ndarray
    n_iter_: np.ndarray
    strategy_: str
    n_passes_: float
    n_recombinations_: int
    n_calibrations_: int
    support_: np.ndarray | None
    support_weights_: np.ndarray | None
    objective_: float
    optimality_: float
    history_: np.ndarray

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **BaseCaLinearModel._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="right")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
    }
    _criterion_name = "the largest violation of the optimality conditions"

    def __init__(
        self,
        *,
        C=1.0,
        l1_ratio=0.0,
        fit_intercept=True,
        class_weight=None,
        warm_start=False,
        solver="auto",
        recombination="auto",
        block_size=2,
        partition="VB",
        selection="GS",
        fraction="auto",
        direction="auto",
        step_size="auto",
        momentum=0.0,
        control="auto",
        max_inner_iter="auto",
        tol=1e-4,
        max_iter=100,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.solver = solver
        self.recombination = recombination
        self.block_size = block_size
        self.partition = partition
        self.selection = selection
        self.fraction = fraction
        self.direction = direction
        self.step_size = step_size
        self.momentum = momentum
        self.control = control
        self.max_inner_iter = max_inner_iter
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        y : array-like of shape (n_samples,)
            Class labels: numbers, strings or booleans; None for a source, which has
            its own.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the losses.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_solver_parameters()
        source: Source
        with all_or_nothing(self, X):
            if is_lazy(X):
                reads = MANY_READS
                with opened(self, X, y, sample_weight, expected_reads=reads) as data:
                    fit_data = {"X": data, "y": None, "sample_weight": None}
                    classes, source = data.for_classification(self.class_weight)
                    self._fit_source(source, classes, fit_data)
                return self
            fit_data = {"X": X, "y": y, "sample_weight": sample_weight}
            X, y = check_training_data(self, X, y)
            classes, codes = encode_labels(single_target(y))
            weights = check_sample_weight(sample_weight, X.shape[0])
            if self.class_weight is not None:
                weights = ClassWeights(self.class_weight, classes, codes, weights)
            source = array_source(X, codes, weights, n_jobs=self.n_jobs)
            self._fit_source(source, classes, fit_data)
        return self

    def score(self, X, y=None, sample_weight=None) -> float:
        """Share of the rows whose label is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or a source of :mod:`skcara.io`, which is read once.
        y : array-like of shape (n_samples,)
            True labels; None for a source, which has its own.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        score : float
        """
        if not isinstance(X, DataSource):
            return super().score(X, y, sample_weight)
        refuse_targets("score", y, sample_weight)
        return float(mean_over_rows(self, X, lambda true, found: true == found)[0])

    def _fit_source(self, source, classes, fit_data):
        problem = self._make_problem(source, len(classes))
        start = self._starting_point(problem, classes)

        def attributes(points):
            return {"classes_": classes, **linear_attributes(*points[0])}

        with FitObserver(self, **fit_data, n_problems=1) as observer:
            points, [result] = self._solve(
                source, [problem], [start], observer, attributes
            )
        self._warn_unless_converged(result)
        described = self._run_attributes([result], source.facts.total_weight)
        for name, values in described.items():
            setattr(self, name, values[0])
        self.n_iter_ = np.array([result.n_rounds], dtype=np.int32)
        for name, value in attributes(points).items():
            setattr(self, name, value)

    def _make_problem(self, source, n_classes):
        facts = source.facts
        strength = 1.0 / (self.C * facts.total_weight)
        return Problem(
            facts,
            LogisticLoss() if n_classes == 2 else MultinomialLoss(n_classes),
            self._make_penalty(
                facts.n_features,
                strength * self.l1_ratio,
                strength * (1.0 - self.l1_ratio),
            ),
            KKTViolation(),
            Coordinates.of_user(facts.n_features, self.fit_intercept),
        )

    def _starting_point(self, problem, classes):
        """Zero, or the last fit if it has the same classes and columns."""
        n_features, n_outputs = problem.n_features, problem.n_outputs
        if (
            self.warm_start
            and hasattr(self, "coef_")
            and self.coef_.shape == (n_outputs, n_features)
            and np.array_equal(self.classes_, classes)
        ):
            return self.coef_.T.astype(np.float64), self.intercept_.astype(np.float64)
        return np.zeros((n_features, n_outputs)), np.zeros(n_outputs)
