"""A problem together with its rows, and the questions that tests ask of both."""

from dataclasses import dataclass, replace

import numpy as np

from skcara.data import ArraySource, Coordinates
from skcara.objective import Problem
from skcara.passes import Evaluate, Take, TakenRows
from skcara.solvers import Round, SolverFactory, answer_all, drive


@dataclass(frozen=True)
class Case:
    """A problem and the source of its rows."""

    problem: Problem
    source: ArraySource

    def ask(self, request):
        """Answer to one request."""
        return answer_all(self.source, [request])[0]

    def evaluate(self, params, group_rows=None):
        """Objective and certificates on the full data."""
        problem = self.problem
        needs_moments = problem.criterion.needs_moments
        answer = self.ask(Evaluate(problem, params, group_rows, needs_moments))
        return answer.evaluation if needs_moments else answer

    def rows(self, indices=None) -> TakenRows:
        """Dense rows, targets and weights in the coordinates of the problem."""
        indices = np.arange(self.problem.n_rows) if indices is None else indices
        return self.ask(Take(self.problem, indices, keep_sparse=False))

    @property
    def zeros(self):
        """Starting point of a fit."""
        return np.zeros((self.problem.n_params, self.problem.n_outputs))

    def with_coordinates(self, coordinates) -> "Case":
        """Return the same case in other coordinates."""
        return replace(self, problem=self.problem.with_coordinates(coordinates))

    def standardised(self) -> "Case":
        """Return the same case in the coordinates in which canewton works."""
        fit_intercept = self.problem.coordinates.fit_intercept
        factory = SolverFactory(
            "canewton", {"recombination": "auto"}, self.source, fit_intercept
        )
        return self.with_coordinates(factory.coordinates)

    def solve(self, solver, *, tol, max_iter):
        """Drive one solver."""
        [result] = drive([solver], self.source, tol=tol, max_iter=max_iter)
        return result

    def answer(self, requests):
        """Return what a generator of requests returns."""
        value = None
        while True:
            try:
                request = requests.send(value)
            except StopIteration as end:
                return end.value
            is_list = isinstance(request, list)
            answers = answer_all(self.source, request if is_list else [request])
            value = answers if is_list else answers[0]


def make_case(X, target, loss, penalty, criterion, **options) -> Case:
    """Case in the coordinates of the user.

    Options are ``sample_weight``, ``fit_intercept`` and ``n_jobs``.
    """
    fit_intercept = options.pop("fit_intercept", True)
    source = ArraySource(X, target, options.pop("sample_weight", None), **options)
    coordinates = Coordinates.of_user(X.shape[1], fit_intercept)
    problem = Problem(source.facts, loss, penalty, criterion, coordinates)
    return Case(problem, source)


class CountingSource:
    """A source that counts reads and the chunks of each task, and is not copied."""

    def __init__(self, source):
        self._source = source
        self.reads = []

    def __getattr__(self, name):
        return getattr(self._source, name)

    @property
    def n_reads(self):
        """Reads so far."""
        return len(self.reads)

    def run(self, tasks):
        """Read once, and remember for how many tasks."""
        self.reads.append(len(tasks))
        return self._source.run(tasks)


class Trace:
    """What a solver asked and told while it was driven.

    Attributes
    ----------
    requests, answers : list
        In order.
    rounds : list of Round
    """

    def __init__(self):
        self.requests, self.answers, self.rounds = [], [], []

    def follow(self, solver):
        """Pass everything on between a solver and its driver, and note it down."""
        value = None
        try:
            while True:
                try:
                    item = solver.send(value)
                except StopIteration:
                    return
                if isinstance(item, Round):
                    self.rounds.append(item)
                value = yield item
                if isinstance(item, list):
                    self.requests += item
                    self.answers += value
                elif value is not None:
                    self.requests.append(item)
                    self.answers.append(value)
        finally:
            solver.close()
