"""Passes are values: picklable, without memory, independent of threads and cuts."""

import importlib
import inspect
import pickle
import pkgutil
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from cases import Case, CountingSource, make_case
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import skcara
from skcara.data import ArraySource, Coordinates, FoldBatch, FoldSets, SparseGram
from skcara.io._parts import Pooling
from skcara.io._preparation import TaskGroup
from skcara.io._survey import TakeSurvey
from skcara.objective import (
    DualGap,
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    SeparablePenalty,
    SquaredLoss,
)
from skcara.passes import (
    AtomMasses,
    BlockGrams,
    ColumnSquares,
    DirectionSquare,
    DrawByLeverage,
    DrawInfluential,
    Evaluate,
    EvaluateCurvature,
    EvaluateFolds,
    FoldHessians,
    FoldMoments,
    GatherColumns,
    Gram,
    GroupProducts,
    HeldOutConfusions,
    HeldOutScores,
    Hessian,
    PreconditionedGram,
    Take,
    TakeBlock,
)
from skcara.solvers import answer_all
from skcara.solvers.paths._atom_sums import AtomSums
from skcara.solvers.paths._residuals import DoubtfulPoints, HeldOutSquares

N_FEATURES, N_FOLDS = 5, 3
LAYOUTS = ["dense", "sparse"]


def make_problem(loss="logistic", layout="dense", *, n_rows=5000, n_jobs=None):
    """Weighted rows far from zero, some of weight zero, and a penalty."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES)) + 2.0
    score = X @ rng.standard_normal(N_FEATURES)
    if layout == "sparse":
        X = sparse.csr_array(np.where(X > 2.0, X, 0.0))
    weights = rng.random(n_rows)
    weights[::9] = 0.0
    if loss == "squared":
        kind, target, criterion = SquaredLoss(), score, DualGap()
    elif loss == "logistic":
        kind, criterion = LogisticLoss(), KKTViolation()
        target = (score > np.median(score)).astype(np.int8)
    else:
        kind, criterion = MultinomialLoss(3), KKTViolation()
        target = rng.integers(0, 3, n_rows).astype(np.int8)
    strength = np.full((N_FEATURES + 1, 1), 0.01)
    penalty = SeparablePenalty(strength, strength, strength < 0)
    case = make_case(
        X,
        target,
        kind,
        penalty,
        criterion,
        sample_weight=weights,
        atom=np.arange(n_rows) % N_FOLDS,
        n_jobs=n_jobs,
    )
    return case.standardised()


def evaluate_task(problem, params, **options):
    return Evaluate.stacked([Evaluate(problem, params, **options)])


def requests_of(case: Case):
    """Every kind of request that reads all rows, by name."""
    problem, rng = case.problem, np.random.default_rng(1)
    params = 0.1 * rng.standard_normal(case.zeros.shape)
    columns = (np.array([0, 3]), np.array([1, 2, N_FEATURES]))
    diagonal = np.ones_like(params)
    requests = {
        "evaluate": evaluate_task(problem, params, with_moments=True),
        "evaluate-groups": evaluate_task(
            problem, params, group_rows=64, with_moments=True
        ),
        "hessian": Hessian(problem, params),
        "column squares": ColumnSquares(problem),
        "block grams": BlockGrams(problem, columns),
        "group products": GroupProducts(problem, columns, 64),
        "draw": DrawInfluential(problem, params, diagonal, n_draws=50, seed=3),
        "draw by leverage": DrawByLeverage(
            problem,
            params,
            rng.standard_normal((2, 3, *params.shape)),
            n_draws=50,
            seed=3,
        ),
    }
    requests |= requests_of_folds(problem, params)
    if not problem.loss.is_quadratic:
        requests["evaluate-curvature"] = EvaluateCurvature(problem, params)
    if isinstance(problem.loss, SquaredLoss):
        factor = np.triu(np.full((6, 6), 0.1)) + np.eye(6)
        requests["gram"] = Gram.stacked([Gram(problem, 1.5)])
        requests["preconditioned"] = PreconditionedGram(problem, factor, 1.5)
        requests["direction"] = DirectionSquare(problem, params[:, 0])
    requests["survey"] = TakeSurvey(has_labels=problem.loss.can_separate)
    requests["group"] = TaskGroup((requests["hessian"], requests["column squares"]))
    return requests


def requests_of_folds(problem, params):
    """Every kind of request of a cross-validation."""
    coordinates, loss, facts = problem.coordinates, problem.loss, problem.facts
    # Labels travel with the rows, not with the sets.
    batch = FoldBatch.of_partition(None, N_FOLDS)
    sets, folds = FoldSets([batch]), np.arange(N_FOLDS)
    columns = np.array([(1 + fold) * params for fold in folds])
    requests = {
        "gathered": GatherColumns(),
        "fold moments": FoldMoments(facts, sets),
        "fold hessians": FoldHessians(coordinates, loss, sets, columns[:1], [folds]),
        "folds": EvaluateFolds(coordinates, loss, sets, columns, folds, with_test=True),
        "held-out scores": HeldOutScores(coordinates, sets, columns[:, None]),
    }
    if loss.can_separate:
        n_classes = max(loss.n_outputs, 2)
        requests["confusions"] = HeldOutConfusions(
            coordinates, sets, columns[:, None], n_classes
        )
        requests["atom masses"] = AtomMasses((N_FOLDS,), n_classes)
        return requests
    shift = np.zeros(N_FEATURES + 1)
    if not facts.is_sparse:
        shift += 2.0
    points = DoubtfulPoints(
        0, batch.test[0], columns[:, :-1, 0].T, columns[:, -1, 0], np.zeros(N_FOLDS)
    )
    requests["atom sums"] = AtomSums((N_FOLDS,), shift)
    requests["held-out squares"] = HeldOutSquares((points,), shift)
    return requests


def is_protocol(value):
    return getattr(value, "_is_protocol", False)


CASES = [(loss, layout) for loss in ("squared", "logistic") for layout in LAYOUTS]
CASES += [("multinomial", "dense"), ("multinomial", "sparse")]


def flat(result):
    """All arrays and numbers of a result, one after the other."""
    if is_dataclass(result):
        if isinstance(result, Problem):
            return flat(result.column_moments)
        # A number of roundings is no result, and depends on the cut into chunks.
        names = [one.name for one in fields(result) if one.name != "n_terms"]
        return flat([getattr(result, name) for name in names])
    if isinstance(result, SparseGram):
        return flat(list(vars(result).values()))
    if isinstance(result, dict):
        return flat([result[key] for key in sorted(result)])
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in flat(part)]
    return [] if result is None else [np.asarray(result)]


def assert_same(one, two, **tolerance):
    one, two = flat(one), flat(two)
    assert len(one) == len(two)
    for left, right in zip(one, two, strict=True):
        if tolerance:
            assert_allclose(left, right, **tolerance)
        else:
            assert_array_equal(left, right)


class Chunks:
    """Task that hands out the chunks themselves."""

    def visit(self, chunk):
        return [chunk]

    def merge(self, left, right):
        return left + right

    def finish(self, total):
        return total


def read_only(chunk):
    rows = chunk.rows.copy()
    target, weights = chunk.target.copy(), chunk.weights.copy()
    arrays = [rows.data, rows.indices, rows.indptr] if sparse.issparse(rows) else [rows]
    for array in (*arrays, target, weights):
        array.flags.writeable = False
    return chunk._replace(rows=rows, target=target, weights=weights)


def each_task(test):
    """Run a test for every task on every kind of problem that has it."""
    pairs = [
        (*case, name) for case in CASES for name in requests_of(make_problem(*case))
    ]
    return pytest.mark.parametrize(("loss", "layout", "name"), pairs)(test)


def task_classes():
    """Every class of the package that visits chunks."""
    found = set()
    for module in pkgutil.walk_packages(skcara.__path__, "skcara."):
        for value in vars(importlib.import_module(module.name)).values():
            is_own = isinstance(value, type) and value.__module__ == module.name
            is_open = inspect.isabstract(value) or is_protocol(value)
            if is_own and hasattr(value, "visit") and not is_open:
                found.add(value)
    # It fills the pool of the worker that it lives on, and goes nowhere.
    return sorted(found - {Pooling}, key=lambda one: one.__name__)


def test_the_laws_are_checked_for_every_task():
    cases = [make_problem(*case) for case in CASES]
    checked = {type(task) for case in cases for task in requests_of(case).values()}
    assert checked == set(task_classes())


@pytest.mark.parametrize("task", task_classes(), ids=lambda one: one.__name__)
def test_tasks_are_frozen_values(task):
    assert is_dataclass(task)
    assert task.__dataclass_params__.frozen
    assert "<locals>" not in task.__qualname__, "it could not be pickled"


@each_task
def test_a_restored_task_gives_the_same_result(loss, layout, name):
    case = make_problem(loss, layout)
    task = requests_of(case)[name]
    restored = pickle.loads(pickle.dumps(task))
    expected = case.source.run([task])[0]
    assert_same(case.source.run([restored])[0], expected)
    # Also after it has been used, with all that it remembers.
    again = pickle.loads(pickle.dumps(task))
    assert_same(case.source.run([again])[0], expected)


@each_task
def test_a_task_writes_nowhere(loss, layout, name):
    case = make_problem(loss, layout)
    task = requests_of(case)[name]
    chunk = read_only(case.source.run([Chunks()])[0][0])
    first, second = task.visit(chunk), task.visit(chunk)
    assert_same(first, second)
    for one, two in zip(flat(first), flat(second), strict=True):
        assert not (one.ndim and np.shares_memory(one, two)), "arrays of its own"
    # Merges may use the memory of what is merged, but no other partial result.
    before = pickle.dumps(flat(second))
    task.merge(task.merge(first, task.visit(chunk)), task.visit(chunk))
    assert pickle.dumps(flat(second)) == before


@each_task
def test_results_do_not_depend_on_the_number_of_threads(loss, layout, name):
    # More rows than a span of chunks, so that there is something to share.
    one, two = (
        make_problem(loss, layout, n_rows=140_000, n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    task = requests_of(one)[name]
    for case in (one, two):
        case.source.chunk_rows = 1024
    assert_same(one.source.run([task])[0], two.source.run([task])[0])


@each_task
def test_the_cut_into_chunks_changes_rounding_only(loss, layout, name):
    results = []
    for chunk_rows in (64, 512, 8192):
        case = make_problem(loss, layout)
        case.source.chunk_rows = chunk_rows
        results.append(case.source.run([requests_of(case)[name]])[0])
    for other in results[1:]:
        assert_same(other, results[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("loss", "layout"), CASES)
def test_tasks_together_are_each_alone_in_one_read(loss, layout):
    case = make_problem(loss, layout)
    tasks, chunks = list(requests_of(case).values()), []

    class Counting:
        """Task that notes which chunks it has seen, and in which thread of reading."""

        def visit(self, chunk):
            chunks.append(chunk.start)
            return 0

        def merge(self, left, right):
            return 0

        def finish(self, total):
            return None

    source = CountingSource(case.source)
    together = source.run([*tasks, Counting()])
    assert source.reads == [len(tasks) + 1]
    assert chunks == list(range(0, case.problem.n_rows, case.source.chunk_rows))
    for task, result in zip(tasks, together[:-1], strict=True):
        assert_same(case.source.run([task])[0], result)


# ---- stacked requests ------------------------------------------------------------


@pytest.mark.parametrize("group_rows", [None, 64])
@pytest.mark.parametrize(("loss", "layout"), CASES)
def test_stacked_evaluations_are_single_ones(loss, layout, group_rows):
    case = make_problem(loss, layout)
    rng = np.random.default_rng(2)
    weak = SeparablePenalty(*(0.1 * one for one in penalty_parts(case.problem)))
    problems = [case.problem, replace(case.problem, user_penalty=weak), case.problem]
    requests = [
        Evaluate(problem, rng.standard_normal(case.zeros.shape), group_rows, True)
        for problem in problems
    ]
    source = CountingSource(case.source)
    together = answer_all(source, requests)
    assert source.reads == [1], "one task for all of them"
    for request, answer in zip(requests, together, strict=True):
        alone = case.ask(request)
        assert_same(answer, alone, rtol=1e-10, atol=1e-13)
        assert_array_equal(answer.evaluation.params, request.params)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_problems_that_know_their_moments_are_evaluated_beside_others(order):
    """Of several targets one may need a pass at zero before it knows them."""
    case = make_problem("squared", "sparse")
    params = np.random.default_rng(2).standard_normal(case.zeros.shape)
    unaware = Evaluate(case.problem, params, with_moments=True)
    alone = case.ask(unaware)
    aware = replace(unaware, problem=alone.problem)
    requests = [unaware, aware, replace(aware, with_moments=False)]
    expected = [alone, alone, alone.evaluation]
    source = CountingSource(case.source)
    answers = answer_all(source, [requests[one] for one in order])
    assert source.reads == [2], "those that collect moments, and the others"
    for number, answer in zip(order, answers, strict=True):
        assert_same(answer, expected[number], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_know_their_masses_and_gradients(layout):
    case = make_problem("logistic", layout)
    params = np.random.default_rng(1).standard_normal(case.zeros.shape)
    [evaluation] = answer_all(case.source, [Evaluate(case.problem, params, 64)])
    groups, weights = evaluation.groups, case.source.weights
    edges = np.arange(0, len(weights), 64)
    assert_array_equal(groups.offsets, [*edges, len(weights)])
    masses = np.add.reduceat(weights, edges) / weights.sum()
    assert_allclose(groups.masses, masses, rtol=1e-12)
    assert_allclose(groups.sums.sum(axis=0), evaluation.gradient.ravel(), atol=1e-12)


@np.errstate(over="ignore")
def test_a_large_value_that_no_slope_shows_is_seen_in_its_prediction():
    """The row is predicted with certainty, and its squares overflow."""
    X, y = np.zeros((40, 1)), np.arange(40) % 2
    X[1] = 1e160
    source, nothing = ArraySource(X, y), np.zeros((2, 1))
    problem = Problem(
        source.facts,
        LogisticLoss(),
        SeparablePenalty(nothing, nothing + 1.0, nothing > 0),
        KKTViolation(),
        Coordinates.of_user(1, True),
    )
    requests = [Evaluate(problem, np.array([[one], [0.0]])) for one in (0.0, 1.0)]
    near, far = answer_all(source, requests)
    assert not near.has_overflowed
    assert far.has_overflowed
    assert far.gradient[0] == 0.0


def penalty_parts(problem):
    penalty = problem.user_penalty
    return penalty.l1, penalty.l2, penalty.positive.astype(float)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacked_gram_matrices_are_single_ones(layout):
    case = make_problem("squared", layout)
    rng = np.random.default_rng(2)
    targets = rng.standard_normal((case.problem.n_rows, 3)) + 5.0
    source = ArraySource(case.source.X, targets, case.source.weights)
    problems = [
        replace(case.problem, facts=source.facts, column=column) for column in range(3)
    ]
    requests = [
        Gram(problem, level)
        for problem, level in zip(problems, [5.0, 4.0, 0.0], strict=True)
    ]
    counting = CountingSource(source)
    together = answer_all(counting, requests)
    assert counting.reads == [1]
    for request, answer, target in zip(requests, together, targets.T, strict=True):
        assert_same(answer, answer_all(source, [request])[0], rtol=1e-12, atol=1e-14)
        # A source of one target alone says the same.
        own = ArraySource(source.X, target.copy(), source.weights)
        single = replace(case.problem, facts=own.facts)
        [expected] = answer_all(own, [Gram(single, request.level)])
        assert_same(answer, expected, rtol=1e-12, atol=1e-14)


def test_requests_in_different_coordinates_are_answered_apart_in_one_read():
    case, other = make_problem("squared"), make_problem("squared")
    requests = [
        Evaluate(one.problem, one.zeros, with_moments=True) for one in (case, other)
    ]
    source = CountingSource(case.source)
    first, second = answer_all(source, requests)
    assert source.reads == [2]
    assert_same(first, second)


# ---- single rows -----------------------------------------------------------------


@pytest.mark.parametrize("keep_sparse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_taken_rows_are_the_standardised_rows(layout, keep_sparse):
    case = make_problem("logistic", layout)
    coordinates = case.problem.coordinates
    indices = np.array([3, 1700, 1701, 4999])
    taken = case.ask(Take(case.problem, indices, keep_sparse=keep_sparse))
    assert sparse.issparse(taken.rows) == (layout == "sparse" and keep_sparse)
    X, rows = case.source.X[indices], taken.rows
    X, rows = (one.toarray() if sparse.issparse(one) else one for one in (X, rows))
    expected = np.hstack([(X - coordinates.shift) / coordinates.scale, np.ones((4, 1))])
    assert_allclose(rows, expected, rtol=1e-14)
    assert_array_equal(taken.target, case.source.target[indices])
    weights = case.source.weights
    assert_allclose(taken.shares, weights[indices] / weights.sum())


@pytest.mark.parametrize("indices", [np.arange(5000), np.arange(2, 5000, 3)])
def test_taken_columns_are_columns_of_the_taken_rows(indices):
    """Whether rows are neighbours, which are read in place, or not."""
    case, features = make_problem("squared"), np.array([0, 3, 4])
    before, own = case.source.X.copy(), case.problem.coordinates.restrict(features)
    own = case.problem.with_coordinates(own)
    some = case.ask(Take(own, indices, order="F", features=features))
    every = case.rows(indices)
    assert some.rows.flags.f_contiguous
    assert_array_equal(some.rows, every.rows[:, [*features, N_FEATURES]])
    assert_array_equal(some.target, every.target)
    assert_array_equal(some.shares, every.shares)
    some.rows[:] = 0.0
    assert_array_equal(case.source.X, before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_of_rows_are_columns_of_the_taken_rows(layout):
    case = make_problem("multinomial", layout)
    rng = np.random.default_rng(0)
    indices = np.sort(rng.choice(5000, 2500, replace=False))
    columns, params = np.array([0, 2, N_FEATURES]), rng.standard_normal((6, 3))
    request = TakeBlock(case.problem, indices, columns, params)
    other = TakeBlock(case.problem, indices[100:150] + 1, columns[:1], params)
    # Blocks of one round share their rows.
    for one, block in zip(
        (request, other), answer_all(case.source, [request, other]), strict=True
    ):
        taken = case.rows(one.indices)
        assert_allclose(block.rows, taken.rows[:, one.columns], rtol=1e-14)
        assert_allclose(block.prediction, taken.rows @ params, atol=1e-11)
        assert_array_equal(block.target, taken.target)
        assert_array_equal(block.shares, taken.shares)


def test_fetched_rows_and_passes_are_answered_together():
    """Requests for rows cost no read; all others share one, in any order."""
    case = make_problem("squared")
    take = Take(case.problem, np.arange(5))
    evaluate = Evaluate(case.problem, case.zeros, with_moments=True)
    gram = Gram(case.problem, 0.0)
    source = CountingSource(case.source)
    answers = answer_all(source, [take, evaluate, take, gram, evaluate])
    assert source.reads == [2], "two stacked tasks"
    expected = [case.ask(one) for one in (take, evaluate, take, gram, evaluate)]
    assert_same(answers, expected, rtol=1e-12, atol=1e-14)
    assert answer_all(source, [take])[0].rows.shape == (5, N_FEATURES + 1)
    assert source.n_reads == 1, "rows by number are not a pass"
    assert answer_all(source, []) == []
    assert source.n_reads == 1


@pytest.mark.parametrize("is_weighted", [False, True])
def test_moments_of_sparse_columns_that_are_full_or_nearly_so(is_weighted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 4)) * (rng.random((5000, 4)) < 0.2)
    X[:, 1] = 1e7 + rng.standard_normal(5000)
    X[:, 2] = 1e7
    X[:, 3] = np.where(np.arange(5000) == 4321, 0.0, 1e3 + rng.standard_normal(5000))
    weights = rng.random(5000) if is_weighted else None
    nothing = np.zeros((5, 1))
    penalty = SeparablePenalty(nothing, nothing, nothing > 0)
    data = sparse.csr_array(X), np.zeros(5000), SquaredLoss()
    case = make_case(*data, penalty, DualGap(), sample_weight=weights)
    request = Evaluate(case.problem, case.zeros, with_moments=True)
    moments = case.ask(request).problem.column_moments
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average((X - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(moments.variance, variance * [1, 1, 0, 1], rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_moments_of_dense_columns_near_and_far_from_zero(is_weighted, dtype):
    rng = np.random.default_rng(0)
    offsets = [0.0, 2.0, -30.0, 1e4, 1e4]
    X = (rng.standard_normal((40_000, 5)) * [1, 1, 1, 1, 0] + offsets).astype(dtype)
    # The first chunk is far from zero in a column whose mean is not, as in sorted rows.
    X[:20_000, 0] += 50.0
    X[20_000:, 0] -= 50.0
    weights = rng.random(40_000) if is_weighted else None
    nothing = np.zeros((6, 1))
    penalty = SeparablePenalty(nothing, nothing, nothing > 0)
    data = X, np.zeros(40_000), SquaredLoss()
    case = make_case(*data, penalty, DualGap(), sample_weight=weights)
    request = Evaluate(case.problem, case.zeros, with_moments=True)
    moments = case.ask(request).problem.column_moments
    exact = X.astype(np.longdouble)
    mean = np.average(exact, axis=0, weights=weights)
    variance = np.average((exact - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-13, atol=1e-11)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-12, atol=1e-20)


def test_products_of_columns_without_entries_in_the_first_chunk():
    case = make_problem("logistic", "sparse", n_rows=70_000)
    X = case.source.X.tolil()
    X[: case.problem.facts.chunk_rows, 1] = 0
    source = ArraySource(X.tocsr(), case.source.target, case.source.weights)
    request = BlockGrams(case.problem, (np.array([1]),))
    [[gram]] = answer_all(source, [request])
    column, mu = X.tocsc()[:, [1]].toarray()[:, 0], source.weights
    expected = mu @ column**2 / mu.sum() / case.problem.coordinates.scale[1] ** 2
    assert_allclose(gram, [[expected]])


def test_spreads_of_sparse_columns_in_single_precision():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((5000, 3)) * [1, 1, 0.3]).astype(np.float32)
    X[:, 0] *= rng.random(5000) < 0.2
    X[:, 2] += 1000
    sets = FoldSets([FoldBatch.of_all_rows(5000)])
    source = ArraySource(
        sparse.csr_array(X), np.zeros(5000, np.int8), None, atom=np.zeros(5000, int)
    )
    [[moments]] = source.run([FoldMoments(source.facts, sets)])
    assert_allclose(moments.variance, X.astype(float).var(axis=0), rtol=1e-12)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize(("n_rows", "n_atoms"), [(40, 4), (40_000, 4), (2000, 500)])
def test_spreads_of_training_sets_far_from_the_mean_of_all_rows(
    n_rows, n_atoms, layout
):
    """An outlier that a fold holds out does not take digits from the others."""
    rng = np.random.default_rng(0)
    X = rng.normal([0.0, 5.0, 0.0, 0.0, 0.0], size=(n_rows, 5))
    X[n_rows // 2, :2] = 1e18, -1e12
    # A column of which most sets see hardly anything, and one that is constant.
    X[:, 2] = 1e-12 * X[:, 2] + (np.arange(n_rows) == n_rows // 3)
    X[:, 3] = 0.1 + 0.2
    X[:, 4] *= rng.random(n_rows) < 0.2
    weights = rng.random(n_rows)
    atom = rng.integers(0, n_atoms, n_rows)
    counts = rng.integers(0, 3, (3, n_atoms))
    counts[0, atom[n_rows // 2]], counts[1, atom[n_rows // 3]] = 0, 0
    rows = sparse.csr_array(X) if layout == "sparse" else X
    source = ArraySource(rows, np.zeros(n_rows, np.int8), weights, atom=atom)
    sets = FoldSets([FoldBatch(None, counts, 0 * counts)])
    [found] = source.run([FoldMoments(source.facts, sets)])
    exact = X.astype(np.longdouble)
    for moments, count in zip(found, counts, strict=True):
        own = count[atom] * weights
        mean = np.average(exact, axis=0, weights=own)
        variance = np.average((exact - mean) ** 2, axis=0, weights=own)
        variance[3] = 0.0
        error = np.abs(moments.mean - mean)
        assert (error <= 1e-12 * np.sqrt(variance) + 1e-15 * np.abs(mean)).all()
        assert_allclose(moments.variance, variance.astype(float), rtol=1e-11)
