"""The driver: it advances any number of solvers on one source and reads for all.

A solver is a generator. It yields requests for sums over the data or for single rows
(:mod:`skcara.passes`) and is sent the answers; after an evaluation it yields a
:class:`Round`, and a :class:`Way` when it takes one. It never reads, prints, warns or
looks at a clock. The driver gathers what all of them ask for, reads the data once, and
answers all; it applies the stopping test, counts passes, keeps the history and tells
observers. So fits, searches, progress bars, plots and benchmarks see the same thing.
"""

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from skcara.data import Source
from skcara.objective import Evaluation
from skcara.solvers._rounds import HISTORY_DTYPE, Round, SolverResult, Status
from skcara.solvers._strategy import Way

Solver = Generator[Any, Any, None]
Observer = Callable[[int, np.void, Evaluation], bool]


def drive(
    solvers: Iterable[Solver],
    source: Source,
    *,
    tol: float,
    max_iter: int,
    observer: Observer | None = None,
) -> list[SolverResult]:
    """Run solvers until the full data say that the tolerance is reached.

    Parameters
    ----------
    solvers : iterable of generators
        The first round of each is the evaluation of its starting point.
    source : Source
    tol : float
        Compared with ``evaluation.stop_value``.
    max_iter : int
        Rounds after the starting point.
    observer : callable, optional
        Called with the number of the solver, the history record and the evaluation of
        each round; a true return value stops that solver.

    Returns
    -------
    results : list of SolverResult
        One for each solver.

    Raises
    ------
    FloatingPointError
        If the objective is not finite at a starting point.
    """
    runs = [
        _Run(number, solver, source.facts.n_rows, tol, max_iter, observer)
        for number, solver in enumerate(solvers)
    ]
    try:
        for run in runs:
            run.advance(None)
        while waiting := [run for run in runs if run.requests]:
            _answer_runs(source, waiting)
    finally:
        for run in runs:
            run.close()
    return [run.result() for run in runs]


def _answer_runs(source, runs):
    # A function of its own, so that no answer outlives the step that it was for: an
    # answer may be a copy of many rows.
    answers = answer_all(source, [request for run in runs for request in run.requests])
    answers.reverse()
    for run in runs:
        run.answer([answers.pop() for _ in run.requests])


def answer_all(source: Source, requests: list) -> list:
    """Answer requests with at most one read of the data."""
    groups: dict = {}
    for position, request in enumerate(requests):
        key = getattr(request, "stack_key", None)
        groups.setdefault(position if key is None else key, []).append(position)
    answers, reading = [None] * len(requests), []
    for positions in groups.values():
        members = [requests[position] for position in positions]
        is_stacked = hasattr(members[0], "stacked")
        request = members[0].stacked(members) if is_stacked else members[0]
        if hasattr(request, "fetch"):
            _spread(answers, positions, request.fetch(source), is_stacked)
        else:
            reading.append((request, positions, is_stacked))
    if reading:
        results = source.run([task for task, *_ in reading])
        for (_, positions, is_stacked), result in zip(reading, results, strict=True):
            _spread(answers, positions, result, is_stacked)
    return answers


def _spread(answers, positions, result, is_stacked):
    """Put the result of one request, or of several as one, where they stood."""
    for position, answer in zip(
        positions, result if is_stacked else [result], strict=True
    ):
        answers[position] = answer


class _Run:
    """One solver: what it waits for, and what it has told.

    Attributes
    ----------
    requests : list
        What the solver waits for; empty once it has stopped.
    """

    def __init__(self, number, solver, n_rows, tol, max_iter, observer):
        self.requests: list = []
        self._number, self._solver, self._n_rows = number, solver, n_rows
        self._tol, self._max_iter, self._observer = tol, max_iter, observer
        self._started = time.perf_counter()
        self._asked_for_list = False
        self._records: list[np.ndarray] = []
        self._best: Evaluation | None = None
        self._measure, self._passes = None, 0.0
        self._n_recombinations = self._n_calibrations = 0
        self._status, self._way = Status.STALLED, Way.DESCENT

    def answer(self, answers: list) -> None:
        """Go on with the answers to the requests."""
        self.requests = []
        self.advance(answers if self._asked_for_list else answers[0])

    def advance(self, value: Any) -> None:
        """Let the solver go on until it asks for something or has to stop."""
        while True:
            try:
                item = self._solver.send(value)
            except StopIteration:
                return
            value = None
            if isinstance(item, Way):
                self._way = item
                continue
            if not isinstance(item, Round):
                self._asked_for_list = isinstance(item, list)
                if self._asked_for_list and not item:
                    value = []
                    continue
                self.requests = item if self._asked_for_list else [item]
                self._passes += max(
                    (request.cost for request in self.requests), default=0.0
                )
                return
            if self._is_last(item):
                self._solver.close()
                return

    def _is_last(self, current: Round) -> bool:
        evaluation = current.evaluation
        index = len(self._records)
        if index == 0 and not np.isfinite(evaluation.objective):
            raise FloatingPointError(
                "The objective is not finite at the first point: X or y contain values "
                "that are too large. Scale them."
            )
        record = self._record(index, current)
        if self._best is None or evaluation.objective <= self._best.objective:
            self._best = evaluation
        observer = self._observer
        stop_requested = observer is not None and observer(
            self._number, record[()], evaluation
        )
        if evaluation.stop_value <= self._tol:
            self._best = evaluation
            is_separated = evaluation.is_separated
            self._status = Status.SEPARABLE if is_separated else Status.CONVERGED
        elif stop_requested:
            self._status = Status.INTERRUPTED
        elif index == self._max_iter:
            self._status = Status.MAX_ITER
        else:
            return False
        return True

    def _record(self, index, current: Round):
        evaluation, measure = current.evaluation, current.measure
        self._passes += current.reduced_rows / self._n_rows
        self._n_recombinations += current.n_recombinations
        self._n_calibrations += current.n_calibrations
        if measure is not None:
            self._measure = measure
        record = np.array(
            (
                index,
                self._passes,
                time.perf_counter() - self._started,
                evaluation.objective,
                evaluation.optimality,
                0 if measure is None else len(measure.indices),
                current.inner_steps,
                evaluation.stop_value,
            ),
            dtype=HISTORY_DTYPE,
        )
        self._records.append(record)
        return record

    def close(self) -> None:
        """End the solver, whether it has stopped or not."""
        self._solver.close()

    def result(self) -> SolverResult:
        """How the run went."""
        return SolverResult(
            evaluation=self._best,
            status=self._status,
            way=self._way,
            n_rounds=max(len(self._records) - 1, 1),
            passes=self._passes,
            n_recombinations=self._n_recombinations,
            n_calibrations=self._n_calibrations,
            measure=self._measure,
            history=np.array(self._records, dtype=HISTORY_DTYPE),
        )
