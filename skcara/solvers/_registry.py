"""From the names and numbers that users give to solvers that are ready to be driven.

The registry :data:`SOLVERS` is the one place that knows which solver uses which
parameter, in which coordinates it works, and how its options are built.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

from skcara.data import Coordinates, Source
from skcara.objective import Loss, Problem
from skcara.solvers._ceiling import bounded_by_zero
from skcara.solvers._driver import Solver
from skcara.solvers._standardise import centred, standardised
from skcara.solvers.descent import (
    CabcdOptions,
    CagdOptions,
    iterate_cabcd,
    iterate_cagd,
)
from skcara.solvers.newton import CanewtonOptions, iterate_canewton


@dataclass(frozen=True)
class SolverEntry:
    """A solver and what it takes.

    Attributes
    ----------
    iterate : callable
        ``iterate(problem, params, options, seed)``, a solver.
    options : type
        Frozen dataclass; its fields are the parameters that the solver uses.
    coordinates : callable
        ``coordinates(source, fit_intercept, options)``: those in which it works.
    needs_bound : bool
        Whether the loss must have a bound of its curvature.
    """

    iterate: Callable[..., Solver]
    options: type
    coordinates: Callable[[Source, bool, object], Coordinates]
    needs_bound: bool = False

    @cached_property
    def parameters(self) -> frozenset:
        """Names of the parameters that the solver uses."""
        return frozenset(field.name for field in fields(self.options))


def _of_newton(source, fit_intercept, options):
    return standardised(source, fit_intercept)


def _of_gradient_descent(source, fit_intercept, options):
    # A step size given by the user refers to the user's coordinates.
    if options.step_size == "auto":
        return standardised(source, fit_intercept)
    return Coordinates.of_user(source.facts.n_features, fit_intercept)


def _of_block_descent(source, fit_intercept, options):
    # The block rules of the literature compare gradients and curvatures of columns:
    # no rescaling for them. A free direction may rescale, and must, because on badly
    # scaled columns the largest gradients say nothing about the largest decrease.
    if options.step_size != "auto":
        return Coordinates.of_user(source.facts.n_features, fit_intercept)
    choose = standardised if options.direction == "auto" else centred
    return choose(source, fit_intercept)


SOLVERS = {
    "canewton": SolverEntry(iterate_canewton, CanewtonOptions, _of_newton),
    "cabcd": SolverEntry(
        iterate_cabcd, CabcdOptions, _of_block_descent, needs_bound=True
    ),
    "cagd": SolverEntry(
        iterate_cagd, CagdOptions, _of_gradient_descent, needs_bound=True
    ),
}


def resolve_solver(name: str) -> str:
    """Name of the solver that runs: ``"auto"`` is the fast path."""
    return "canewton" if name == "auto" else name


class SolverFactory:
    """A solver with its parameters, for any number of problems on one source.

    Parameters
    ----------
    name : str
        A key of :data:`SOLVERS`.
    parameters : dict
        Values of all the solver parameters; those that the solver uses are picked.
    source : Source
    fit_intercept : bool

    Attributes
    ----------
    coordinates : Coordinates
        In which the solver works; the same for all problems, so that they can be
        evaluated together.
    """

    def __init__(self, name, parameters, source: Source, fit_intercept: bool):
        self._name, self._entry = name, SOLVERS[name]
        entry = self._entry
        self._options = entry.options(
            **{key: parameters[key] for key in entry.parameters}
        )
        self._source = source
        self.coordinates = entry.coordinates(source, fit_intercept, self._options)

    def start(self, problem: Problem, coef, intercept, seed) -> Solver:
        """Return a solver for a problem in the coordinates of the user.

        Parameters
        ----------
        problem : Problem
        coef, intercept : ndarray of shapes (n_features, n_outputs) and (n_outputs,)
            Starting point.
        seed : int or numpy.random.RandomState
            Of random numbers; most fits of few rows draw none.

        Raises
        ------
        ValueError
            If the solver needs something that the loss does not have.
        """
        self._check_loss(problem.loss)
        problem = problem.with_coordinates(self.coordinates)
        params = self.coordinates.from_user(coef, intercept)
        extra = {"n_jobs": self._source.n_jobs} if self._entry.needs_bound else {}
        solver = self._entry.iterate(problem, params, self._options, seed, **extra)
        return bounded_by_zero(problem, solver)

    def _check_loss(self, loss: Loss):
        if self._entry.needs_bound and loss.curvature_bound is None:
            raise ValueError(
                f"solver={self._name!r} needs a loss of bounded curvature, which "
                f"{type(loss).__name__} is not. Choose solver='canewton'."
            )
