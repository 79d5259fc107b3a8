"""What the three estimators share: parameters, the skeleton of ``fit``, attributes."""

import inspect
import warnings
from functools import cache
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skcara._sklearn_compat import (
    CachedParamNamesMixin,
    CallbackSupportMixin,
    Interval,
    StrOptions,
)
from skcara.blocks import DIRECTIONS, PARTITIONS, SELECTIONS
from skcara.data import one_blas_thread
from skcara.estimators._validation import bad_values_explained
from skcara.objective import Problem, SeparablePenalty
from skcara.recombination import RECOMBINATION_METHODS
from skcara.solvers import (
    CONTROLS,
    SOLVERS,
    SolverResult,
    Status,
    resolve_solver,
    run_rounds,
    start_rounds,
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


@cache
def _solver_defaults(estimator_class) -> dict:
    """Defaults of the solver parameters; reading a signature takes a while."""
    signature = inspect.signature(estimator_class).parameters
    return {name: signature[name].default for name in SOLVER_PARAMETERS}


class BaseCaLinearModel(CachedParamNamesMixin, CallbackSupportMixin, BaseEstimator):
    """Base class of the estimators; not for direct use."""

    _doc_link_module = "skcara"
    _doc_link_template = (
        "https://skcara.readthedocs.io/en/latest/generated/skcara.{estimator_name}.html"
    )

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
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
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- the skeleton of fit -----------------------------------------------------

    def _resolve_solver(self) -> str:
        """Name of the solver that will run, after checking its parameters."""
        solver = resolve_solver(self.solver)
        used = SOLVERS[solver].parameters
        for name, default in _solver_defaults(type(self)).items():
            value = getattr(self, name)
            if name not in used and value != default:
                users = [key for key in SOLVERS if name in SOLVERS[key].parameters]
                raise ValueError(
                    f"{name}={value!r} has no effect with solver={self.solver!r}; "
                    f"choose solver from {users} or leave {name} at its default "
                    f"{default!r}. solver={self.solver!r} uses: {sorted(used)}."
                )
        return solver

    def _solve(self, problem: Problem, coef, intercept, on_round):
        """Minimise a problem given in the user's coordinates.

        Returns
        -------
        coef : ndarray of shape (n_features, n_outputs)
        intercept : ndarray of shape (n_outputs,)
        result : SolverResult
        """
        parameters = {name: getattr(self, name) for name in SOLVER_PARAMETERS}
        with one_blas_thread(), bad_values_explained(problem.design.X, self):
            problem, rounds = start_rounds(
                self.solver_,
                problem,
                coef,
                intercept,
                parameters,
                check_random_state(self.random_state),
            )
            result = run_rounds(
                rounds,
                tol=self.tol,
                max_iter=self.max_iter,
                observer=lambda record, evaluation: on_round(
                    record, evaluation, problem.design.to_user(evaluation.params)
                ),
            )
        coef, intercept = problem.design.to_user(result.evaluation.params)
        return coef, intercept, result

    def _warn_unless_converged(self, result: SolverResult):
        if result.status in (Status.CONVERGED, Status.INTERRUPTED):
            return
        advice = {
            Status.MAX_ITER: "Increase max_iter or tol."
            if self.solver_ == resolve_solver("auto")
            else "Increase max_iter or tol, or leave solver at 'auto', which needs "
            "fewer rounds.",
            Status.SEPARABLE: "Choose a finite C.",
            Status.STALLED: "The tolerance is below what rounding errors allow, or "
            "the problem has no minimiser.",
        }[result.status]
        warnings.warn(
            f"{type(self).__name__} did not converge: {result.status.value}. Solver "
            f"{self.solver_!r} made {result.n_rounds} rounds and read the data "
            f"{result.passes:.1f} times; {self._criterion_name} is "
            f"{result.evaluation.stop_value:.3g}, asked for tol={self.tol:.3g}. "
            f"{advice}",
            ConvergenceWarning,
            stacklevel=4,
        )

    @staticmethod
    def _make_penalty(design, l1: float, l2: float, positive: bool = False):
        """Penalty of the features; the intercept is free."""
        is_feature = (np.arange(design.n_params) < design.n_features)[:, None]
        return SeparablePenalty(
            l1=np.where(is_feature, l1, 0.0),
            l2=np.where(is_feature, l2, 0.0),
            positive=is_feature & positive,
        )

    def _support(self, result: SolverResult, total_weight: float):
        """Rows and weights of the last measure, at the scale of the sample weights."""
        if result.measure is None:
            return None, None
        return result.measure.indices, result.measure.weights * total_weight
