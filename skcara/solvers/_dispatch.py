"""From the names and numbers that users give to a generator of rounds.

The registry :data:`SOLVERS` is the one place that knows which solver uses which
parameter, in which coordinates it works, and how its options are built.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skcara.objective import Problem
from skcara.solvers._cabcd import CabcdOptions, iterate_cabcd
from skcara.solvers._cagd import CagdOptions, iterate_cagd
from skcara.solvers._canewton import CanewtonOptions, iterate_canewton
from skcara.solvers._coordinates import centred, standardised
from skcara.solvers._rounds import Round


@dataclass(frozen=True)
class SolverEntry:
    """A solver and what it takes.

    Attributes
    ----------
    iterate : callable
        ``iterate(problem, params, options, rng)``, a generator of rounds.
    options : type
        Frozen dataclass; its fields are the parameters that the solver uses.
    coordinates : callable
        ``coordinates(problem, options)``: the problem in the coordinates in which the
        solver works.
    """

    iterate: Callable[..., Iterator[Round]]
    options: type
    coordinates: Callable[[Problem, object], Problem]

    @property
    def parameters(self) -> frozenset:
        """Names of the parameters that the solver uses."""
        return frozenset(self.options.__dataclass_fields__)


def _standardised_unless_step_is_given(problem, options):
    # A step size given by the user refers to the user's coordinates.
    return standardised(problem) if options.step_size == "auto" else problem


def _standardised_unless_direction_is_given(problem, options):
    # The block rules of the literature compare gradients and curvatures of columns:
    # no rescaling for them. A free direction may rescale, and must, because on badly
    # scaled columns the largest gradients say nothing about the largest decrease.
    if options.step_size != "auto":
        return problem
    return standardised(problem) if options.direction == "auto" else centred(problem)


SOLVERS = {
    "canewton": SolverEntry(
        iterate_canewton,
        CanewtonOptions,
        lambda problem, options: standardised(problem),
    ),
    "cabcd": SolverEntry(
        iterate_cabcd, CabcdOptions, _standardised_unless_direction_is_given
    ),
    "cagd": SolverEntry(iterate_cagd, CagdOptions, _standardised_unless_step_is_given),
}


def resolve_solver(name: str) -> str:
    """Name of the solver that runs: ``"auto"`` is the fast path."""
    return "canewton" if name == "auto" else name


def start_rounds(name, problem, coef, intercept, parameters, rng):
    """Start a solver.

    Parameters
    ----------
    name : str
        A key of :data:`SOLVERS`.
    problem : Problem
        In the coordinates of the user.
    coef, intercept : ndarray of shapes (n_features, n_outputs) and (n_outputs,)
        Starting point.
    parameters : dict
        Values of all the solver parameters; those that the solver uses are picked.
    rng : numpy.random.RandomState

    Returns
    -------
    problem : Problem
        In the coordinates of the solver.
    rounds : iterator of Round
    """
    entry = SOLVERS[name]
    options = entry.options(**{key: parameters[key] for key in entry.parameters})
    problem = entry.coordinates(problem, options)
    params = problem.design.from_user(coef, intercept)
    return problem, entry.iterate(problem, params, options, rng)
