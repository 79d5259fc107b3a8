"""Threads that are kept: same order, errors arrive, nothing runs behind one's back."""

import threading
import time

import joblib
import numpy as np
import pytest

from skcara.data import ArraySource, SumTask, Threads, _threads


def own_threads():
    return [one for one in threading.enumerate() if one.name.startswith("skcara")]


@pytest.fixture
def threads():
    threads = Threads(2)
    yield threads
    threads.release()
    assert not own_threads()


def test_results_come_in_the_order_of_the_items(threads):
    def slow_at_first(item):
        time.sleep(0.02 if item < 2 else 0.0)
        return item, threading.current_thread().name

    results = list(threads.map(slow_at_first, range(20)))
    assert [item for item, _ in results] == list(range(20))
    assert len(own_threads()) == 1


def test_the_caller_works_as_well(threads):
    names = set()

    def note(item):
        names.add(threading.current_thread().name)
        time.sleep(0.01)

    list(threads.map(note, range(8)))
    assert names == {threading.current_thread().name, own_threads()[0].name}


def test_a_result_that_others_work_on_is_waited_for(threads):
    """The caller may not run ahead of a slow item without end, nor forget it."""
    is_main = {threading.current_thread(): True}
    started = []

    def slow_elsewhere(item):
        started.append(item)
        if threading.current_thread() not in is_main:
            time.sleep(0.2)
        return item

    most_at_once = 0
    for result in threads.map(slow_elsewhere, range(30)):
        most_at_once = max(most_at_once, len(started) - result)
    assert sorted(started) == list(range(30))
    assert most_at_once < 15


def test_threads_are_kept(threads):
    list(threads.map(abs, range(10)))
    first = own_threads()
    list(threads.map(abs, range(10)))
    assert own_threads() == first


def test_few_items_start_nothing(threads):
    assert list(threads.map(abs, range(3))) == [0, 1, 2]
    assert not own_threads()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_errors_arrive_and_the_rest_is_dropped(threads, error):
    seen = []

    def fail(item):
        seen.append(item)
        if item == 3:
            raise error("item 3")
        return item

    with pytest.raises(error, match="item 3"):
        list(threads.map(fail, range(1000)))
    threads.release()
    assert len(seen) < 20


def test_results_do_not_pile_up(threads):
    started = []
    results = threads.map(started.append, range(1000))
    for _ in range(10):
        next(results)
    time.sleep(0.05)
    assert len(started) < 20
    results.close()


def test_the_configuration_of_joblib_is_respected():
    threads = Threads(None)
    with joblib.parallel_config(n_jobs=3, backend="loky"):
        list(threads.map(abs, range(30)))
        assert len(own_threads()) == 2  # and the one that asks
    list(threads.map(abs, range(30)))
    threads.release()
    assert not own_threads()


class Total(SumTask):
    """Sum of all rows, whose digits depend on the order of the additions."""

    def visit(self, chunk):
        return [chunk.rows.sum(axis=0)]


def test_sums_of_a_source_do_not_depend_on_the_number_of_threads():
    X = np.random.default_rng(0).standard_normal((300_000, 8))
    totals = []
    for n_jobs in (1, 2, 3):
        source = ArraySource(X, np.zeros(len(X)), n_jobs=n_jobs)
        [[total]] = source.run([Total()])
        source.release()
        totals.append(total)
    assert not own_threads()
    np.testing.assert_array_equal(totals[0], totals[1])
    np.testing.assert_array_equal(totals[0], totals[2])


def names_of_threads(threads, work, n_items=20):
    def on(item):
        work()
        return threading.current_thread().name

    return list(threads.map(on, range(n_items), kind="work"))


def helped_with(names):
    """Numbers of the items that the caller did not work on."""
    return [number for number, one in enumerate(names) if one.startswith("skcara")]


def test_threads_that_wait_for_each_other_are_not_used_again(threads):
    lock = threading.Lock()

    def work():
        # Together they take longer than one after the other, as with Python's lock.
        others = len(own_threads())
        with lock:
            time.sleep(0.01 if others else 0.002)

    tried = helped_with(names_of_threads(threads, work))
    assert tried
    assert set(tried) <= {2, 3}
    assert not helped_with(names_of_threads(threads, work))


def test_threads_that_share_the_work_are_used(threads):
    def work():
        time.sleep(0.1)

    assert len(helped_with(names_of_threads(threads, work, n_items=8))) == 3
    assert len(helped_with(names_of_threads(threads, work, n_items=8))) == 4


@pytest.mark.parametrize(("n_items", "n_tried"), [(4, 2), (16, 2), (32, 4), (200, 4)])
def test_a_failed_trial_costs_little(threads, monkeypatch, n_items, n_tried):
    """One item for each thread, two where these are at most an eighth of all."""
    monkeypatch.setattr(_threads, "_MIN_SAVED", 1.0)  # no trial succeeds
    names = names_of_threads(threads, lambda: time.sleep(0.003), n_items)
    # On a busy machine one of them may take all of the work.
    assert set(helped_with(names)) <= set(range(2, 2 + n_tried))
