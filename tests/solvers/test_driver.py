"""The driver: one read for all solvers, counted in one place; solvers only ask."""

import numpy as np
import pytest
from cases import Case, CountingSource, Trace
from numpy.testing import assert_allclose, assert_array_equal
from solvers.tall_problems import gaussian, labels, make_problem

from skcara.passes import Evaluate, Hessian, Take
from skcara.solvers import (
    HISTORY_DTYPE,
    SOLVERS,
    Measure,
    Report,
    Round,
    SolverFactory,
    Status,
    Way,
    drive,
    drive_search,
)
from skcara.solvers.newton import CanewtonOptions, iterate_canewton

DEFAULTS = {
    "recombination": "auto",
    "block_size": 2,
    "partition": "VB",
    "selection": "GS",
    "fraction": "auto",
    "direction": "auto",
    "step_size": "auto",
    "momentum": 0.0,
    "control": "auto",
    "max_inner_iter": "auto",
}


@pytest.fixture
def case():
    X, score, rng = gaussian(3000, 6)
    tall = make_problem(X, labels(score, rng), "logistic", l2=1e-3).standardised()
    return Case(tall.problem, CountingSource(tall.source))


def descend(case, start=0.0, *, rate=1.0, extra=()):
    """Plain gradient descent, with something else asked for in every round."""
    params = case.zeros + start
    while True:
        if extra:
            evaluation, *_ = yield [Evaluate(case.problem, params), *extra]
        else:
            evaluation = yield Evaluate(case.problem, params)
        yield Round(evaluation)
        params = params - rate * evaluation.smooth_gradient


def test_all_solvers_share_the_reads_of_the_slowest(case):
    starts = [0.0, 0.1, -0.2, 1.0]
    alone = [
        drive([descend(case, start)], case.source, tol=1e-3, max_iter=200)[0]
        for start in starts
    ]
    longest = max(result.n_rounds for result in alone) + 1
    assert len({result.n_rounds for result in alone}) > 1
    case.source.reads.clear()
    together = drive(
        [descend(case, start) for start in starts], case.source, tol=1e-3, max_iter=200
    )
    assert case.source.n_reads == longest
    assert set(case.source.reads) == {1}, "evaluations are stacked into one task"
    for one, two in zip(alone, together, strict=True):
        assert one.status is two.status is Status.CONVERGED
        assert one.n_rounds == two.n_rounds
        assert one.passes == two.passes == one.n_rounds + 1
        assert_allclose(one.evaluation.params, two.evaluation.params, atol=1e-12)


def test_passes_are_counted_by_what_is_asked_for(case):
    take, measure = Take(case.problem, np.arange(10)), Measure(np.arange(30), None)

    def solver():
        evaluation = yield Evaluate(case.problem, case.zeros)
        yield Round(evaluation)
        yield take
        yield Round(evaluation, reduced_rows=30, measure=measure, inner_steps=4)
        yield [Hessian(case.problem, case.zeros), Evaluate(case.problem, case.zeros)]
        yield Round(evaluation, n_recombinations=2)
        assert (yield []) == []
        assert len((yield [take, take])) == 2
        yield Round(evaluation, n_calibrations=3)

    [result] = drive([solver()], case.source, tol=-1.0, max_iter=10)
    assert_allclose(result.history["passes"], [1.0, 1.01, 2.01, 2.01])
    assert result.passes == pytest.approx(2.01)
    assert case.source.n_reads == 2
    assert_array_equal(result.history["support_size"], [0, 30, 0, 0])
    assert_array_equal(result.history["inner_steps"], [0, 4, 0, 0])
    assert (result.n_recombinations, result.n_calibrations) == (2, 3)
    assert result.measure is measure
    assert result.status is Status.STALLED, "the solver gave up"
    assert result.history.dtype == HISTORY_DTYPE
    assert HISTORY_DTYPE.names[-1] == "criterion"
    stop_value = result.evaluation.stop_value
    assert_array_equal(result.history["criterion"], np.full(4, stop_value))


def test_a_list_of_requests_is_answered_by_a_list_in_its_order(case):
    take = Take(case.problem, np.array([5]))
    trace = Trace()
    solver = trace.follow(
        descend(case, extra=(take, Hessian(case.problem, case.zeros)))
    )
    drive([solver], case.source, tol=-1.0, max_iter=2)
    assert [type(one).__name__ for one in trace.requests] == [
        "Evaluate",
        "Take",
        "Hessian",
    ] * 3
    rows = case.rows(np.array([5])).rows
    for taken, hessian in zip(trace.answers[1::3], trace.answers[2::3], strict=True):
        assert_array_equal(taken.rows, rows)
        assert hessian.shape == (7, 7)


def test_way_is_the_last_one_announced(case):
    def solver(ways):
        yield from ways
        evaluation = yield Evaluate(case.problem, case.zeros)
        yield Round(evaluation)

    ways = [[], [Way.NEWTON], [Way.SAMPLE_METRIC, Way.STATISTICS]]
    results = drive(map(solver, ways), case.source, tol=-1.0, max_iter=5)
    expected = [Way.DESCENT, Way.NEWTON, Way.STATISTICS]
    assert [result.way for result in results] == expected


def test_best_round_is_returned_and_limits_hold(case):
    [result] = drive([descend(case, 3.0)], case.source, tol=-1.0, max_iter=3)
    assert result.status is Status.MAX_ITER
    assert len(result.history) == 4
    assert result.n_rounds == 3
    # A step that is far too long raises the objective.
    [result] = drive([descend(case, rate=1e4)], case.source, tol=-1.0, max_iter=3)
    assert result.evaluation.objective == result.history["objective"].min()


def test_observer_sees_every_round_and_may_stop_one_solver(case):
    seen = []

    def observer(number, record, evaluation):
        seen.append((number, int(record["round"])))
        assert evaluation.objective == record["objective"]
        return number == 1 and record["round"] == 2

    first, second = drive(
        [descend(case), descend(case, 0.5)],
        case.source,
        tol=-1.0,
        max_iter=4,
        observer=observer,
    )
    assert first.status is Status.MAX_ITER
    assert second.status is Status.INTERRUPTED
    assert seen.count((1, 2)) == 1
    assert max(round_ for number, round_ in seen if number == 1) == 2
    assert max(round_ for number, round_ in seen if number == 0) == 4


def test_solvers_are_closed_whatever_happens(case):
    closed = []

    def solver(name, bad=False):
        try:
            while True:
                evaluation = yield Evaluate(case.problem, case.zeros)
                if bad:
                    raise RuntimeError("a solver failed")
                yield Round(evaluation)
        finally:
            closed.append(name)

    with pytest.raises(RuntimeError, match="a solver failed"):
        drive(
            [solver("good"), solver("bad", bad=True)], case.source, tol=0.0, max_iter=9
        )
    assert sorted(closed) == ["bad", "good"]


def test_objective_that_is_not_finite_is_an_error_in_words():
    X, score, rng = gaussian(100, 3)
    case = make_problem(X, labels(score, rng), "logistic")

    def solver():
        evaluation = yield Evaluate(case.problem, case.zeros)
        yield Round(evaluation._replace(objective=np.nan))

    with pytest.raises(FloatingPointError, match="Scale them"):
        drive([solver()], case.source, tol=0.0, max_iter=1)


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_problems_are_the_same_before_and_after_a_solver(name, case):
    """Solvers change nothing of what they are given."""
    user = case.problem.coordinates.to_user(case.zeros)
    factory = SolverFactory(name, DEFAULTS, case.source, fit_intercept=True)
    problem = case.problem
    before = {key: value for key, value in vars(problem).items() if key != "penalty"}
    solver = factory.start(problem, *user, np.random.RandomState(0))
    drive([solver], case.source, tol=1e-4, max_iter=50)
    after = {key: value for key, value in vars(problem).items() if key in before}
    assert all(after[key] is before[key] for key in before)


def test_several_newton_solvers_read_as_often_as_one(case):
    """Fits of several penalties on one source cost the reads of the hardest."""
    X, score, rng = gaussian(60_000, 20)
    y = labels(score, rng)
    cases = [
        make_problem(X, y, "logistic", l2=l2).standardised() for l2 in (1e-4, 1e-2)
    ]
    coordinates = cases[0].problem.coordinates
    problems = [one.problem.with_coordinates(coordinates) for one in cases]
    source = CountingSource(cases[0].source)

    def solvers():
        for problem in problems:
            rng = np.random.RandomState(0)
            yield iterate_canewton(problem, cases[0].zeros, CanewtonOptions(), rng)

    alone = [drive([one], source, tol=1e-6, max_iter=50)[0] for one in solvers()]
    n_alone = source.n_reads
    together = drive(solvers(), source, tol=1e-6, max_iter=50)
    n_together = source.n_reads - n_alone
    assert n_together < n_alone
    assert n_together == max(len(result.history) for result in together)
    for one, two in zip(alone, together, strict=True):
        assert one.status is two.status is Status.CONVERGED
        assert_allclose(one.evaluation.params, two.evaluation.params, atol=1e-6)


def halve(case, n_steps):
    """A search: ask for two points at a time, tell, and return all objectives."""
    objectives = []
    for step in range(n_steps):
        points = [case.zeros + 0.5**step, case.zeros - 0.5**step]
        requests = [Evaluate(case.problem, point) for point in points]
        objectives += [answer.objective for answer in (yield requests)]
        if (yield Report(step)):
            return objectives, True
    return objectives, False


def test_a_search_returns_what_it_found_and_its_reads_are_counted(case):
    told = []
    (objectives, is_stopped), passes = drive_search(
        halve(case, 3), case.source, lambda *state: told.append(state)
    )
    expected = [
        case.evaluate(case.zeros + sign * 0.5**step).objective
        for step in range(3)
        for sign in (1, -1)
    ]
    assert_allclose(objectives, expected, rtol=1e-12)
    assert told == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert (is_stopped, passes) == (False, 3.0)


def test_a_search_ends_by_itself_when_asked_to_stop(case):
    before = case.source.n_reads
    (objectives, is_stopped), passes = drive_search(
        halve(case, 9), case.source, lambda step, passes: step == 1
    )
    assert is_stopped
    assert len(objectives) == 4
    assert passes == case.source.n_reads - before == 2


def test_a_search_is_closed_when_somebody_fails(case):
    search = halve(case, 3)

    def observer(step, passes):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive_search(search, case.source, observer)
    assert search.gi_frame is None


def test_a_small_gradient_is_not_enough_if_the_model_predicts_a_decrease(case):
    """Rare classes have small gradients far from their optimum."""
    evaluation = case.evaluate(case.zeros)
    near = evaluation._replace(stop_value=1e-9)
    share = abs(evaluation.objective)
    decreases = [share, 1e-3 * share, 1e-9 * share, share]

    def solver():
        for decrease in decreases:
            yield Round(near, predicted=lambda decrease=decrease: decrease)

    [result] = drive([solver()], case.source, tol=1e-4, max_iter=10)
    assert result.status is Status.CONVERGED
    assert len(result.history) == 3
