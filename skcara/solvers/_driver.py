"""The driver: it advances any number of solvers on one source and reads for all.

A solver is a generator. It yields requests for sums over the data or for single rows
(:mod:`skcara.passes`) and is sent the answers; after an evaluation it yields a
:class:`Round`, and a :class:`Way` when it takes one. It never reads, prints, warns or
looks at a clock. The driver gathers what all of them ask for, reads the data once, and
answers all; it applies the stopping test, counts passes, keeps the history and tells
observers. So fits, searches, progress bars, plots and benchmarks see the same thing.

A search is such a generator too. It knows by itself when it is done: instead of rounds
it yields a :class:`Report` of how far it is, is sent whether somebody asks it to stop,
and returns what it has found.
"""

import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from skcara.data import Source
from skcara.objective import Evaluation
from skcara.solvers._rounds import (
    HISTORY_DTYPE,
    Report,
    Round,
    SolverResult,
    Status,
)
from skcara.solvers._strategy import Way

# A slope of this size comes from values whose squares overflow.
_LARGEST = 1e150

Solver = Generator[Any, Any, None]
Observer = Callable[[int, np.void, Evaluation], bool]
Search = Generator[Any, Any, Any]
SearchObserver = Callable[[Any, float], bool]


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
        Compared with ``evaluation.stop_value``, and a share of it with the decrease
        that the round predicts, relative to the objective. A solver that cannot go on,
        or may not, has converged if the first comparison holds.
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
        _SolverRun(number, solver, source.facts.n_rows, tol, max_iter, observer)
        for number, solver in enumerate(solvers)
    ]
    _run_all(runs, source)
    return [run.result() for run in runs]


def drive_search(
    search: Search, source: Source, observer: SearchObserver | None = None
) -> tuple[Any, float]:
    """Run a search until it returns.

    Parameters
    ----------
    search : generator
    source : Source
    observer : callable, optional
        Called with the state of each :class:`Report` and the passes so far; a true
        return value asks the search to stop.

    Returns
    -------
    found : object
        What the search returns.
    passes : float
        Full reads of the data.
    """
    run = _SearchRun(search, observer)
    _run_all([run], source)
    return run.found, run.passes


def _run_all(runs, source):
    """Read for all runs until each has what it wants."""
    try:
        for run in runs:
            run.advance(None)
        while waiting := [run for run in runs if run.requests]:
            _answer_runs(source, waiting)
    finally:
        for run in runs:
            run.close()
        if hasattr(source, "release"):
            source.release()


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


def _is_moderate(evaluation: Evaluation) -> bool:
    """Whether no value was too large for the sums at a first point.

    A bounded slope hides a large value where its row is predicted with certainty, but
    then the prediction shows it.
    """
    sizes = (evaluation.objective, evaluation.optimality)
    # Written so that a NaN is not moderate.
    return not evaluation.has_overflowed and all(abs(s) <= _LARGEST for s in sizes)


class _Run:
    """One generator: what it waits for, and what its requests cost.

    Attributes
    ----------
    requests : list
        What the generator waits for; empty once it has stopped.
    passes : float
        Full reads of the data so far.
    """

    def __init__(self, generator):
        self.requests: list = []
        self.passes = 0.0
        self._generator = generator
        self._asked_for_list = False
        self._is_over = False

    def answer(self, answers: list) -> None:
        """Go on with the answers to the requests."""
        self.requests = []
        self.advance(answers if self._asked_for_list else answers[0])

    def advance(self, value: Any) -> None:
        """Let the generator go on until it asks for something or has to stop."""
        while not self._is_over:
            try:
                item = self._generator.send(value)
            except StopIteration as end:
                self._end(end.value)
                return
            self._asked_for_list = isinstance(item, list)
            if self._asked_for_list and not item:
                value = []
            elif self._asked_for_list or hasattr(item, "cost"):
                self.requests = item if self._asked_for_list else [item]
                self.passes += max(request.cost for request in self.requests)
                return
            else:
                value = self._hear(item)

    def _hear(self, item: Any) -> Any:
        """Take notice of what is no request; what is returned is the answer."""
        raise NotImplementedError

    def _end(self, value: Any) -> None:
        """Take notice of what the generator returns."""
        raise NotImplementedError

    def close(self) -> None:
        """End the generator, whether it has stopped or not."""
        self._is_over = True
        self._generator.close()


class _SearchRun(_Run):
    """A search, which ends by itself."""

    def __init__(self, search, observer):
        super().__init__(search)
        self.found: Any = None
        self._observer = observer

    def _hear(self, report: Report) -> bool:
        observer = self._observer
        return observer is not None and bool(observer(report.state, self.passes))

    def _end(self, value):
        self.found = value


class _SolverRun(_Run):
    """A solver, with the test that stops it and what it has told."""

    def __init__(self, number, solver, n_rows, tol, max_iter, observer):
        super().__init__(solver)
        self._number, self._n_rows = number, n_rows
        self._tol, self._max_iter, self._observer = tol, max_iter, observer
        self._started = time.perf_counter()
        self._records: list[tuple] = []
        self._best: Evaluation | None = None
        # The best one within the tolerance.
        self._accepted: Evaluation | None = None
        self._measure = None
        self._n_recombinations = self._n_calibrations = 0
        self._status, self._way = Status.STALLED, Way.DESCENT

    def _hear(self, item: Way | Round) -> None:
        if isinstance(item, Way):
            self._way = item
        elif self._is_last(item):
            self.close()

    def _end(self, value):
        self._accept()

    def _is_last(self, current: Round) -> bool:
        evaluation = current.evaluation
        index = len(self._records)
        if index == 0 and not _is_moderate(evaluation):
            raise FloatingPointError(
                "The objective is not finite at the first point: X or y contain values "
                "that are too large. Scale them."
            )
        record = self._record(index, current)
        if self._best is None or evaluation.objective <= self._best.objective:
            self._best = evaluation
        stop_requested = self._observer is not None and self._observer(
            self._number, np.array(record, dtype=HISTORY_DTYPE)[()], evaluation
        )
        if evaluation.stop_value <= self._tol:
            accepted = self._accepted
            if accepted is None or evaluation.objective <= accepted.objective:
                self._accepted = evaluation
            if current.is_near(self._tol):
                self._accept()
                return True
        if stop_requested:
            self._status = Status.INTERRUPTED
        elif index == self._max_iter:
            self._status = Status.MAX_ITER
            self._accept()
        else:
            return False
        return True

    def _accept(self) -> None:
        """End as converged, if a round was within the tolerance."""
        if self._accepted is not None:
            self._best = self._accepted
            is_separated = self._best.is_separated
            self._status = Status.SEPARABLE if is_separated else Status.CONVERGED

    def _record(self, index, current: Round):
        evaluation, measure = current.evaluation, current.measure
        self.passes += current.reduced_rows / self._n_rows
        self._n_recombinations += current.n_recombinations
        self._n_calibrations += current.n_calibrations
        if measure is not None:
            self._measure = measure
        record = (
            index,
            self.passes,
            time.perf_counter() - self._started,
            evaluation.objective,
            evaluation.optimality,
            0 if measure is None else len(measure.indices),
            current.inner_steps,
            evaluation.stop_value,
        )
        self._records.append(record)
        return record

    def result(self) -> SolverResult:
        """How the run went."""
        assert self._best is not None, "a solver yields its starting point"
        return SolverResult(
            evaluation=self._best,
            status=self._status,
            way=self._way,
            n_rounds=max(len(self._records) - 1, 1),
            passes=self.passes,
            n_recombinations=self._n_recombinations,
            n_calibrations=self._n_calibrations,
            measure=self._measure,
            history=np.array(self._records, dtype=HISTORY_DTYPE),
        )
