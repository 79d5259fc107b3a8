"""Rounds: what a solver yields, and the loop that consumes them.

A solver is a generator. It yields one :class:`Round` after every evaluation of the full
data and goes on when asked for the next one; it never prints, warns or looks at a
clock. :func:`run_rounds` applies the stopping test, keeps the history and tells
observers, so that fits, progress bars, plots and benchmarks see the same thing.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from skcara.objective import Evaluation

HISTORY_DTYPE = np.dtype(
    [
        ("round", np.int64),
        ("passes", np.float64),
        ("seconds", np.float64),
        ("objective", np.float64),
        ("optimality", np.float64),
        ("support_size", np.int64),
        ("inner_steps", np.int64),
    ]
)


@dataclass(frozen=True)
class Measure:
    """A reduced measure: a few rows and their weights, summing to one."""

    indices: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Round:
    """State of a solver after an evaluation of the full data.

    Attributes
    ----------
    evaluation : Evaluation
        At the point that the round reached.
    passes : float
        Full reads of the data since the start; a step on a reduced measure counts
        as its share of the rows.
    n_recombinations : int
        Measures built since the start.
    inner_steps : int
        Accepted steps on reduced measures in this round.
    measure : Measure or None
        The measure used in this round.
    """

    evaluation: Evaluation
    passes: float
    n_recombinations: int = 0
    inner_steps: int = 0
    measure: Measure | None = None


class Status(Enum):
    """Why a solver stopped; the value completes the sentence shown to users."""

    CONVERGED = "the tolerance was reached"
    MAX_ITER = "max_iter was reached first"
    SEPARABLE = "the classes are separable, so coefficients grow without bound"
    STALLED = "no step decreased the objective any further"
    INTERRUPTED = "a callback asked to stop"


@dataclass(frozen=True)
class SolverResult:
    """Best round of a run, and how the run went."""

    evaluation: Evaluation
    status: Status
    n_rounds: int
    passes: float
    n_recombinations: int
    measure: Measure | None
    history: np.ndarray


def run_rounds(
    rounds: Iterator[Round],
    *,
    tol: float,
    max_iter: int,
    observer: Callable[[np.void, Evaluation], bool] | None = None,
) -> SolverResult:
    """Consume rounds until the full data say that the tolerance is reached.

    Parameters
    ----------
    rounds : iterator of Round
        The first one is the evaluation of the starting point.
    tol : float
        Compared with ``evaluation.stop_value``.
    max_iter : int
        Rounds after the starting point.
    observer : callable, optional
        Called with the history record and the evaluation of each round; a true
        return value stops the run.

    Raises
    ------
    FloatingPointError
        If the objective is not finite at the starting point.
    """
    started = time.perf_counter()
    records, best, measure = [], None, None
    status = Status.STALLED
    for index, current in enumerate(rounds):
        evaluation = current.evaluation
        if index == 0 and not np.isfinite(evaluation.objective):
            raise FloatingPointError(
                "The objective is not finite at the first point: X or y contain values "
                "that are too large. Scale them."
            )
        measure = current.measure if current.measure is not None else measure
        record = np.array(
            (
                index,
                current.passes,
                time.perf_counter() - started,
                evaluation.objective,
                evaluation.optimality,
                0 if current.measure is None else len(current.measure.indices),
                current.inner_steps,
            ),
            dtype=HISTORY_DTYPE,
        )
        records.append(record)
        if best is None or evaluation.objective <= best.objective:
            best = evaluation
        stop_requested = observer is not None and observer(record[()], evaluation)
        if evaluation.stop_value <= tol:
            best, status = evaluation, Status.CONVERGED
            if evaluation.is_separated:
                status = Status.SEPARABLE
            break
        if stop_requested:
            status = Status.INTERRUPTED
            break
        if index == max_iter:
            status = Status.MAX_ITER
            break
    return SolverResult(
        evaluation=best,
        status=status,
        n_rounds=max(len(records) - 1, 1),
        passes=current.passes,
        n_recombinations=current.n_recombinations,
        measure=measure,
        history=np.array(records, dtype=HISTORY_DTYPE),
    )
