"""A cluster gives the bits that one process gives, whoever dies meanwhile."""

import gc
import os
import pickle
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from io_tasks import (
    PART_LENGTHS,
    Moments,
    SlowMoments,
    assert_same_bits,
    load_part,
    make_numbers,
    make_rows,
)
from sklearn.model_selection import KFold, ShuffleSplit

from skcara import CaLasso, CaLassoCV, CaLogisticRegression, CaLogisticRegressionCV
from skcara.io import from_dask
from skcara.io._source import PartsSource
from skcara.io._transport import Transport
from skcara.passes import AtomMasses, EvaluateFolds

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pandas = pytest.importorskip("pandas")

pytestmark = [
    pytest.mark.slow,
    # Closing sockets and event loops is the business of the cluster.
    pytest.mark.filterwarnings("default::ResourceWarning"),
    pytest.mark.filterwarnings("default::DeprecationWarning"),
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]


# Seconds after which a test is stuck: the slowest takes ten, and forty on a machine
# that is busy with other things.
DEADLINE = 240


@pytest.fixture(autouse=True)
def _deadline():
    """Turn a wait without an end into an error that says where."""

    def give_up(*_):
        raise TimeoutError(f"The test has not ended in {DEADLINE} seconds.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@contextmanager
def started(n_workers, **options):
    """Start a cluster, and return a client."""
    options = {"dashboard_address": ":0", "silence_logs": 50, **options}
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, **options
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture
def client():
    """Client of a cluster of its own with three workers: tests kill some of them."""
    with started(3) as client:
        yield client


def make_table():
    """X, y and weights beside each other, in partitions that a worker can make."""
    blocks = [
        da.from_delayed(dask.delayed(load_part)(number), (length, 8), float)
        for number, length in enumerate(PART_LENGTHS)
    ]
    return da.concatenate(blocks)


def columns_of(table):
    """X, y and weights."""
    return table[:, :6], table[:, 6], table[:, 7]


def fitted(task=None, between=None, table=None, **options):
    """Bits of two passes and of the sample, with something done between them."""
    table = make_table() if table is None else table
    source = from_dask(*columns_of(table), **options)
    with source.reading(3):
        problem = source.for_regression()
        (first,) = problem.run([Moments()])
        if between is not None:
            between()
        (second,) = problem.run([task or Moments()])
        indices, shares = problem.draw(500, np.random.RandomState(0))
        sample = np.concatenate([chunk.rows for chunk in problem.take(indices)])
        far = np.array([0, 13_005, sum(PART_LENGTHS) - 1])
        rows = np.concatenate([c.rows for c in problem._reader.take(far)])
    return [*first, *second, indices, shares, sample, rows]


def fitted_models():
    """Coefficients of estimators."""
    X, y, weights = columns_of(make_table())
    lasso = CaLasso(alpha=0.1).fit(X, y, weights)
    logistic = CaLogisticRegression(random_state=0).fit(X, y > 0, weights)
    assert logistic.strategy_ == "calibrated sample"
    return [lasso.coef_, lasso.intercept_, logistic.coef_, logistic.intercept_]


def fitted_searches():
    """Scores and coefficients of searches, with folds of three kinds."""
    X, y, weights = columns_of(make_table())
    lasso = CaLassoCV(alphas=5, cv=4).fit(X, y, weights)
    shuffled = CaLassoCV(alphas=5, cv=ShuffleSplit(3, random_state=0)).fit(X, y)
    logistic = CaLogisticRegressionCV(Cs=[0.01, 1.0], cv=KFold(3), random_state=0)
    logistic.fit(X, y > 0, weights)
    return [
        *(lasso.mse_path_, lasso.coef_, shuffled.mse_path_, shuffled.coef_),
        *(logistic.scores_, logistic.coefs_paths_, logistic.coef_),
    ]


@pytest.fixture(autouse=True)
def _small_pool(monkeypatch):
    # Samples do not hold all the rows, and few rows are not a case of their own.
    monkeypatch.setattr("skcara.io._pool._POOL_BYTES", 200_000)
    monkeypatch.setattr("skcara.solvers._strategy._SMALL_ENTRIES", 0)


@pytest.fixture
def expected(_small_pool):
    """What one process says, without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        return fitted()


@pytest.fixture
def expected_models(_small_pool):
    """Coefficients without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        return fitted_models()


def test_same_bits_for_any_number_of_workers(expected, expected_models):
    with started(3) as client:
        for n_workers in (3, 2, 1):
            workers = sorted(client.nthreads())
            assert len(workers) == n_workers
            assert_same_bits(fitted(client=client), expected)
            assert_same_bits(fitted_models(), expected_models)
            client.retire_workers(workers[:1])


def test_searches_have_the_same_bits_for_any_number_of_workers(client):
    with dask.config.set(scheduler="synchronous"):
        expected = fitted_searches()
    assert_same_bits(fitted_searches(), expected)
    for n_workers in (1, 2):
        with started(n_workers):
            assert_same_bits(fitted_searches(), expected)


def test_a_worker_dies_in_a_search(client, monkeypatch):
    """Its labels are lost with its rows, and made again."""
    with dask.config.set(scheduler="synchronous"):
        expected = fitted_searches()
    run, tasks_run = PartsSource.run, []

    def run_and_kill(source, tasks):
        answers = run(source, tasks)
        tasks_run.append(type(tasks[0]))
        if tasks_run[-1] is AtomMasses:
            os.kill(holder_of_something(client), signal.SIGKILL)
        return answers

    monkeypatch.setattr(PartsSource, "run", run_and_kill)
    assert_same_bits(fitted_searches(), expected)
    # Both need the labels.
    masses = tasks_run.index(AtomMasses)
    assert tasks_run[masses + 1] is EvaluateFolds


def test_same_bits_with_threads_of_this_process(expected):
    with started(1, processes=False):
        assert_same_bits(fitted(), expected)


def holder_of_something(client):
    """Process of a worker that holds results."""
    pids = client.run(os.getpid)
    held = client.has_what()
    return pids[max(pids, key=lambda worker: len(held.get(worker, ())))]


def test_a_worker_dies_between_passes_twice(client, expected):

    def kill():
        for _ in range(2):
            os.kill(holder_of_something(client), signal.SIGKILL)
            time.sleep(0.5)

    assert_same_bits(fitted(between=kill), expected)


def test_a_worker_dies_with_persisted_partitions(client, expected):
    """Dask makes them again, and the parts on their shelves."""

    def kill():
        os.kill(holder_of_something(client), signal.SIGKILL)

    table = client.persist(make_table())
    assert_same_bits(fitted(between=kill, table=table), expected)


def test_a_worker_dies_inside_a_pass(client, expected):
    killers = []

    def kill_soon():
        pid = holder_of_something(client)
        killers.append(threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)))
        killers[0].start()

    assert_same_bits(fitted(SlowMoments(), between=kill_soon), expected)
    killers[0].join()


def test_a_worker_dies_while_partitions_are_loaded(client, expected, monkeypatch):
    """What is lost before it was needed is waited for."""
    wait, killed = Transport.wait, []

    def wait_and_kill(transport, futures):
        wait(transport, futures)
        if not killed:
            killed.append(holder_of_something(client))
            os.kill(killed[0], signal.SIGKILL)
            while all(future.status == "finished" for future in futures):
                time.sleep(0.01)
            wait(transport, futures)

    monkeypatch.setattr(Transport, "wait", wait_and_kill)
    assert_same_bits(fitted(), expected)
    assert killed


@pytest.mark.parametrize("delay", [0.0, 0.2], ids=["between", "inside"])
def test_a_worker_dies_during_a_fit(client, expected_models, delay, monkeypatch):
    run, killers = PartsSource.run, []

    def kill_and_run(source, tasks):
        # In the first passes of the two fits.
        pid = holder_of_something(client)
        killers.append(threading.Timer(delay, os.kill, (pid, signal.SIGKILL)))
        killers[-1].start()
        if delay:
            # Slow enough for the worker to die meanwhile.
            return run(source, [*tasks, SlowMoments()])[:-1]
        killers[-1].join()
        return run(source, tasks)

    def run_sometimes(source, tasks):
        return (kill_and_run if len(killers) < 2 else run)(source, tasks)

    monkeypatch.setattr(PartsSource, "run", run_sometimes)
    assert_same_bits(fitted_models(), expected_models)
    assert len(killers) == 2


def test_scattered_rows_that_are_lost_are_an_error_not_a_wait(client):
    X, y, _ = make_rows(0, n_rows=4000)
    futures = client.scatter(np.array_split(X, 4), hash=False)
    blocks = [da.from_delayed(future, (1000, 6), float) for future in futures]
    source = from_dask(da.concatenate(blocks), y)
    with source.reading(3):
        problem = source.for_regression()
        os.kill(holder_of_something(client), signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(RuntimeError, match=r"lost with a worker.*client\.scatter"):
            problem.run([Moments()])
    assert time.monotonic() - started < 60


def test_a_cluster_without_workers_is_an_error_not_a_wait(monkeypatch):
    monkeypatch.setattr("skcara.io._transport._SECONDS_WITHOUT_WORKERS", 1)
    with (
        started(0, processes=False),
        pytest.raises(RuntimeError, match="no workers for 1 seconds"),
    ):
        fitted()


def test_a_scheduler_that_does_not_answer_is_an_error_not_a_wait(monkeypatch):
    monkeypatch.setattr("skcara.io._transport._SECONDS_WITHOUT_ANSWER", 0.1)
    answered = threading.Event()

    class Client:
        def nthreads(self):
            answered.wait(10)

    with pytest.raises(RuntimeError, match=r"scheduler .* has not answered for 0.1"):
        Transport(Client()).threads()
    answered.set()


def test_results_are_not_waited_for_on_a_cluster_without_workers(monkeypatch):
    """A worker may die with its result behind the last look at it."""
    monkeypatch.setattr("skcara.io._transport._SECONDS_WITHOUT_WORKERS", 0.1)
    monkeypatch.setattr("skcara.io._transport._SECONDS_BETWEEN_LOOKS", 0.1)
    answered = threading.Event()

    class Client:
        def nthreads(self):
            return {}

        def gather(self, futures):
            answered.wait(10)

    with pytest.raises(RuntimeError, match=r"no workers for 0\.1 seconds"):
        Transport(Client()).gathered([])
    answered.set()


def test_parts_are_made_by_one_task_and_persisted_ones_by_none(client, monkeypatch):
    def tasks(dask_scheduler):
        return set(dask_scheduler.tasks)

    def n_made(table):
        before = client.run_on_scheduler(tasks)
        executor = from_dask(*columns_of(table))._reader._executor
        executor.load()
        made = client.run_on_scheduler(tasks) - before
        assert len(executor._shelves) > 1
        return len(made) - len(executor._shelves)

    table = make_table()
    assert n_made(table) == table.numblocks[0]
    # Of many parts, several are made by one task.
    monkeypatch.setattr("skcara.io._cluster._TASKS_PER_THREAD", 1)
    assert n_made(table) == 3
    table = client.persist(table)
    distributed.wait(table)
    assert n_made(table) == 0


def moved_bytes(client):
    """Bytes that workers sent to each other."""

    def sent(dask_worker):
        log = dask_worker.transfer_outgoing_log
        # What the client is sent goes to nobody by name.
        return sum(entry["total"] for entry in log if entry["who"] is not None)

    return sum(client.run(sent).values())


def test_partitions_stay_where_they_are(client):
    table = client.persist(make_table())
    distributed.wait(table)
    before = moved_bytes(client)
    source = from_dask(*columns_of(table))
    with source.reading(3):
        problem = source.for_regression()
        problem.run([Moments()])
    # Dask may let another worker take a partition from one that does not answer soon;
    # wherever tasks did not follow their partitions, two thirds of these would travel.
    assert moved_bytes(client) - before < 0.25 * table.nbytes


def test_only_rows_that_a_solver_wants_travel(client, monkeypatch):
    run, n_bytes = Transport.run, []

    def counted(transport, calls):
        results = run(transport, calls)
        n_bytes.append(len(pickle.dumps(results)))
        return results

    monkeypatch.setattr(Transport, "run", counted)
    # Room for all rows, of which a fit of the squared loss needs none.
    monkeypatch.setattr("skcara.io._pool._POOL_BYTES", 2**25)
    X = da.map_blocks(
        make_numbers, chunks=((5000,) * 6, (50,)), dtype=float, meta=np.empty((0, 0))
    )
    CaLasso(alpha=0.1).fit(X, X[:, 0])
    assert sum(n_bytes) < 0.3 * X.nbytes


def test_a_source_keeps_persisted_partitions(client):
    def make_source():
        table = client.persist(make_table())
        distributed.wait(table)
        return from_dask(*columns_of(table))

    source = make_source()
    gc.collect()
    time.sleep(0.5)
    assert source.for_regression().facts.n_rows == sum(PART_LENGTHS)


def test_the_cluster_forgets_everything_after_a_fit(client):
    gc.collect()
    fitted()
    deadline = time.monotonic() + 10
    while any(client.has_what().values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(client.has_what().values())


@pytest.mark.usefixtures("client")
def test_errors_of_partitions_arrive():
    X, y, _ = columns_of(make_table())
    bad = da.where(
        da.arange(X.shape[0], chunks=(PART_LENGTHS,)) == 20_000, np.nan, X[:, 3]
    )
    X = da.concatenate([X[:, :3], bad[:, None], X[:, 4:]], axis=1)
    source = from_dask(X, y)
    with (
        source.reading(3),
        pytest.raises(ValueError, match=r"Partition 4: NaN .* in column 3, row 6999"),
    ):
        source.for_regression()


@pytest.mark.usefixtures("client")
def test_frames_and_labels():
    rows = load_part(1)
    table = pandas.DataFrame(rows, columns=[*"abcdef", "y", "w"])
    table["label"] = np.where(table["y"] > 0, "yes", "no")
    collection = dd.from_pandas(table, npartitions=5)
    source = from_dask(collection[list("abcdef")], collection["label"], collection["w"])
    with source.reading(3):
        classes, problem = source.for_classification("balanced")
        (found,) = problem.run([Moments()])
    assert classes.tolist() == ["no", "yes"]
    with dask.config.set(scheduler="threads"):
        source = from_dask(
            collection[list("abcdef")], collection["label"], collection["w"]
        )
        _, problem = source.for_classification("balanced")
        assert_same_bits(found, problem.run([Moments()])[0])
