"""What the estimators share: parameters, the skeleton of ``fit``, attributes."""

import warnings
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted

from skcara._sklearn_compat import (
    CachedSignatureMixin,
    CallbackSupportMixin,
    Interval,
    ShortReprMixin,
    StrOptions,
)
from skcara.blocks import DIRECTIONS, PARTITIONS, SELECTIONS
from skcara.data import Source, linear_predictions, one_blas_thread
from skcara.estimators._validation import (
    bad_values_explained,
    check_prediction_data,
    make_seed,
)
from skcara.objective import Problem, SeparablePenalty
from skcara.recombination import RECOMBINATION_METHODS
from skcara.solvers import (
    CONTROLS,
    SOLVERS,
    SolverFactory,
    SolverResult,
    Status,
    drive,
    resolve_solver,
)

#: Parameters that choose or tune a solver, in the order of the signatures.
SOLVER_PARAMETERS = (
    "recombination",
    "block_size",
    "partition",
    "selection",
    "fraction",
    "direction",
    "step_size",
    "momentum",
    "control",
    "max_inner_iter",
)


class LinearModel(
    CachedSignatureMixin, ShortReprMixin, CallbackSupportMixin, BaseEstimator
):
    """Base class of all estimators, searches included; not for direct use."""

    coef_: np.ndarray
    intercept_: float | np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [
            None,
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
        ],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "coef_")

    def _seed(self) -> int | np.random.RandomState:
        """Return a seed of random numbers: if there is none, the same in every fit."""
        return make_seed(self.random_state)

    def _predict_linear(self, X):
        """Check ``X`` and return its linear predictions, without a copy of it."""
        check_is_fitted(self)
        X = check_prediction_data(self, X)
        name = type(self).__name__
        inspect_entries = partial(
            assert_all_finite, estimator_name=name, input_name="X"
        )
        # Coefficients are in double precision, because that is what was certified;
        # data in single precision are predicted in theirs, as in scikit-learn.
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        return linear_predictions(
            X,
            self.coef_.T.astype(dtype, copy=False),
            np.asarray(self.intercept_, dtype),
            inspect=inspect_entries,
        )


class BaseCaLinearModel(LinearModel):
    """Base class of the estimators with a solver; not for direct use."""

    solver_: str

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **LinearModel._parameter_constraints,
        "solver": [StrOptions({"auto", *SOLVERS})],
        "recombination": [StrOptions(set(RECOMBINATION_METHODS)), None],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "partition": [StrOptions(set(PARTITIONS))],
        "selection": [StrOptions(set(SELECTIONS))],
        "fraction": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="right"), None],
        "direction": [StrOptions({"auto", *DIRECTIONS})],
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "control": [StrOptions({"auto", *CONTROLS})],
        "max_inner_iter": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
    }

    # ---- the skeleton of fit -----------------------------------------------------

    def _check_solver_parameters(self):
        """Refuse parameters that the solver would ignore."""
        used = SOLVERS[resolve_solver(self.solver)].parameters
        defaults = self._defaults()
        for name in SOLVER_PARAMETERS:
            value, default = getattr(self, name), defaults[name]
            if name not in used and value != default:
                users = [key for key in SOLVERS if name in SOLVERS[key].parameters]
                raise ValueError(
                    f"{name}={value!r} has no effect with solver={self.solver!r}; "
                    f"choose solver from {users} or leave {name} at its default "
                    f"{default!r}. solver={self.solver!r} uses: {sorted(used)}."
                )

    def _solve(
        self, source: Source, problems: list[Problem], starts, observer, attributes
    ):
        """Minimise problems that are given in the user's coordinates.

        Parameters
        ----------
        source : Source
        problems : list of Problem
        starts : list of pairs
            Starting ``(coef, intercept)`` of each problem.
        observer : FitObserver
        attributes : callable
            ``attributes(points)``: the fitted attributes with which the estimator could
            predict, from one ``(coef, intercept)`` for each problem.

        Returns
        -------
        points : list of pairs
            ``(coef, intercept)`` of each problem, of shapes (n_features, n_outputs) and
            (n_outputs,).
        results : list of SolverResult
        """
        parameters = {name: getattr(self, name) for name in SOLVER_PARAMETERS}
        factory = SolverFactory(
            resolve_solver(self.solver), parameters, source, self.fit_intercept
        )
        to_user = factory.coordinates.to_user
        reached: dict[int, np.ndarray] = {}

        def attributes_so_far():
            return attributes(
                [
                    to_user(reached[number]) if number in reached else start
                    for number, start in enumerate(starts)
                ]
            )

        def on_round(number, record, evaluation):
            reached[number] = evaluation.params
            return observer.on_round(number, record, attributes_so_far)

        results = drive(
            [
                factory.start(problem, coef, intercept, self._seed())
                for problem, (coef, intercept) in zip(problems, starts, strict=True)
            ],
            source,
            tol=self.tol,
            max_iter=self.max_iter,
            observer=on_round if observer.is_heard else None,
        )
        return [to_user(result.evaluation.params) for result in results], results

    def _run_attributes(self, results: list[SolverResult], total_weight) -> dict:
        """Fitted attributes that describe a run, a list over the problems each."""
        measures = [result.measure for result in results]
        return {
            "solver_": [resolve_solver(self.solver)] * len(results),
            "strategy_": [result.way.value for result in results],
            "n_passes_": [result.passes for result in results],
            "n_recombinations_": [result.n_recombinations for result in results],
            "n_calibrations_": [result.n_calibrations for result in results],
            "support_": [None if one is None else one.indices for one in measures],
            # At the scale of the sample weights.
            "support_weights_": [
                None if one is None else one.weights * total_weight for one in measures
            ],
            "objective_": [result.evaluation.objective for result in results],
            "optimality_": [result.evaluation.optimality for result in results],
            "history_": [result.history for result in results],
        }

    def _warn_unless_converged(self, result: SolverResult):
        if result.status in (Status.CONVERGED, Status.INTERRUPTED):
            return
        advice = {
            Status.MAX_ITER: "Increase max_iter or tol."
            if resolve_solver(self.solver) == resolve_solver("auto")
            else "Increase max_iter or tol, or leave solver at 'auto', which needs "
            "fewer rounds.",
            Status.SEPARABLE: "Choose a finite C.",
            Status.STALLED: "The tolerance is below what rounding errors allow, or "
            "the problem has no minimiser.",
        }[result.status]
        warnings.warn(
            f"{type(self).__name__} did not converge: {result.status.value}. Solver "
            f"{resolve_solver(self.solver)!r} made {result.n_rounds} rounds and read "
            f"the data {result.passes:.1f} times; {self._criterion_name} is "
            f"{result.evaluation.stop_value:.3g}, asked for tol={self.tol:.3g}. "
            f"{advice}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _make_penalty(self, n_features: int, l1: float, l2: float, positive=False):
        """Penalty of the features; the intercept is free."""
        shape = n_features + bool(self.fit_intercept), 1
        penalty = SeparablePenalty(
            np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=bool)
        )
        penalty.l1[:n_features] = l1
        penalty.l2[:n_features] = l2
        penalty.positive[:n_features] = positive
        return penalty


@contextmanager
def all_or_nothing(estimator, X):
    """Leave the estimator as it was if a fit fails or is interrupted.

    A fit runs with one BLAS thread, and failures that are caused by NaN or infinity in
    ``X`` become an error that says so.
    """
    before = vars(estimator).copy()
    try:
        with one_blas_thread(), bad_values_explained(X, type(estimator).__name__):
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
