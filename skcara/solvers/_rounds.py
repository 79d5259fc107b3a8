"""Rounds: what a solver tells after it has learned something from the full data."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from skcara.objective import Evaluation
from skcara.solvers._strategy import Way

HISTORY_DTYPE = np.dtype(
    [
        ("round", np.int64),
        ("passes", np.float64),
        ("seconds", np.float64),
        ("objective", np.float64),
        ("optimality", np.float64),
        ("support_size", np.int64),
        ("inner_steps", np.int64),
        ("criterion", np.float64),
    ]
)

# A small gradient may hide a large error: rare classes and sparse columns have small
# gradients everywhere. So the objective must also be as near to its minimum, by what
# the model of the solver predicts and relative to the objective, as this share of the
# tolerance: a suboptimality of 1e-6 at the default tolerance, with a factor of five in
# hand because a model is not exact. Below the rounding of the objective nothing is
# known. Losses are not negative, so no objective decreases by more than itself: one of
# that share of the tolerance, where those of nothing known are about one, is as near as
# can be. Relative to losses of separable classes that vanish nothing ever would be.
_DECREASE_SHARE = 2e-3
_ROUNDING = 64 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Measure:
    """A reduced measure: a few rows and their weights, summing to one."""

    indices: np.ndarray
    weights: np.ndarray


class Round(NamedTuple):
    """State of a solver after an evaluation of the full data.

    Attributes
    ----------
    evaluation : Evaluation
        At the point that the round reached.
    reduced_rows : float
        Rows of reduced measures and samples that were read since the last round, each
        as often as it was read.
    n_recombinations, n_calibrations : int
        Measures built since the last round, by recombination and by calibration of a
        sample.
    inner_steps : int
        Accepted steps on reduced measures in this round.
    measure : Measure or None
        The measure used in this round.
    predicted : callable or None
        Decrease of the objective that a model predicts from here; called only if the
        round might be the last one. None where the criterion alone decides; a solver
        that has no model yet but will have one says :func:`unknown_decrease`.
    """

    evaluation: Evaluation
    reduced_rows: float = 0.0
    n_recombinations: int = 0
    n_calibrations: int = 0
    inner_steps: int = 0
    measure: Measure | None = None
    predicted: Callable[[], float] | None = None

    def is_near(self, tol: float) -> bool:
        """Whether no model predicts a decrease that is worth another round."""
        if self.predicted is None or self.evaluation.is_separated:
            return True
        share = max(_DECREASE_SHARE * tol, _ROUNDING)
        objective = self.evaluation.objective
        return 0 <= objective <= share or self.predicted() <= share * abs(objective)

    def is_converged(self, tol: float) -> bool:
        """Whether the optimality conditions hold, and the optimum is as near."""
        return self.evaluation.stop_value <= tol and self.is_near(tol)


def unknown_decrease() -> float:
    """Before there is a model, a small gradient is no reason to stop."""
    return np.inf


@dataclass(frozen=True)
class Report:
    """How far a search is; answered with whether somebody asks it to stop."""

    state: Any


class Status(Enum):
    """Why a solver stopped; the value completes the sentence shown to users."""

    CONVERGED = "the tolerance was reached"
    MAX_ITER = "max_iter was reached first"
    SEPARABLE = "the classes are separable, so coefficients grow without bound"
    STALLED = "no step decreased the objective any further"
    INTERRUPTED = "a callback asked to stop"


class SolverResult(NamedTuple):
    """Best round of a run, and how the run went.

    ``passes`` counts full reads of the data; rows of reduced measures count as their
    share of all rows.
    """

    evaluation: Evaluation
    status: Status
    way: Way
    n_rounds: int
    passes: float
    n_recombinations: int
    n_calibrations: int
    measure: Measure | None
    history: np.ndarray
