"""Threads that are kept: an ordered map that its caller takes part in.

A pass takes milliseconds, and starting, feeding and ending a pool for it takes longer
than the pass. Here the threads of a source live as long as a fit, and whoever asks for
the results works on items as well instead of waiting for others: it is woken up once in
a pass, not once for every item. (Waiting for each item, two threads read a million rows
of 100 columns 1.2 times as fast as one; like this, 1.5 times.) How many threads there
are is joblib's decision, so that its configuration is respected. They are threads
whatever backend is configured, because the rows are not to be copied.

Whether threads pay depends on the machine: products of matrices share nothing, but
reads of few columns share the memory, and a machine may have other work. So the first
items of each kind of work are a trial, and the others go the faster way. The results
are the same either way.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Any

from joblib import effective_n_jobs

# With fewer items for each thread than this, the last one to finish costs more than the
# others have saved.
_MIN_ITEMS_PER_THREAD = 2
# Items of a trial: two alone, because the first one that is met is slow, and then this
# many for each thread; one where that is more than the given share of all items: if the
# trial fails, what they took longer is lost.
_TRIED_ALONE, _TRIED_ITEMS, _MAX_TRIED_SHARE = 2, 2, 1 / 8
# Share of the time of one thread that several must save in a trial: a smaller one is
# within the noise of so few items, and is gone when the machine has other work.
_MIN_SAVED = 0.1
# Items that may be started ahead of the one that is due: results may be large.
_ITEMS_AHEAD_PER_THREAD = 3


class Threads:
    """A map over items in threads, results in the order of the items.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib; the thread that asks for the results is one of them.
    """

    def __init__(self, n_jobs: int | None):
        self._n_jobs = n_jobs
        self._executor: ThreadPoolExecutor | None = None
        self._n_threads = 0
        # Whether threads pay, by kind of work.
        self._pays: dict[Hashable, bool] = {}

    def map(
        self,
        function: Callable[[Any], Any],
        items: Sequence,
        *,
        min_items: int = _MIN_ITEMS_PER_THREAD,
        kind: Hashable = None,
    ) -> Iterator:
        """Yield ``function(item)`` for every item, in order.

        Parameters
        ----------
        function : callable
        items : sequence
        min_items : int
            Items that are worth a thread.
        kind : hashable, optional
            Name of work whose items take about the same time. Threads are used for it
            if they turn out to be faster than one; without a name they always are.
        """
        most = len(items) // min_items
        n_threads = min(effective_n_jobs(self._n_jobs), most) if most > 1 else 1
        if n_threads == 1 or not self._pays.get(kind, True):
            return map(function, items)
        if kind is None or kind in self._pays:
            return self._map_in_threads(function, items, n_threads)
        return self._map_on_trial(function, items, n_threads, kind)

    def _map_on_trial(self, function, items, n_threads, kind):
        """Map the first items alone, some more in threads, the rest the faster way."""
        alone = 0.0
        for item in items[:_TRIED_ALONE]:
            started = time.perf_counter()
            result = function(item)
            alone = time.perf_counter() - started  # of the last one
            yield result
        n_tried = int(_MAX_TRIED_SHARE * len(items) / n_threads)
        n_tried = n_threads * min(max(n_tried, 1), _TRIED_ITEMS)
        tried = items[_TRIED_ALONE : _TRIED_ALONE + n_tried]
        rest = items[_TRIED_ALONE + n_tried :]
        self._started(n_threads)
        started = time.perf_counter()
        results = list(self._map_in_threads(function, tried, n_threads))
        together = time.perf_counter() - started
        self._pays[kind] = together < (1 - _MIN_SAVED) * len(tried) * alone
        yield from results
        if self._pays[kind]:
            yield from self._map_in_threads(function, rest, n_threads)
        else:
            yield from map(function, rest)

    def _map_in_threads(self, function, items, n_threads):
        work = _SharedWork(function, items, _ITEMS_AHEAD_PER_THREAD * n_threads)
        executor = self._started(n_threads)
        try:
            for _ in range(n_threads - 1):
                executor.submit(work.help)
            yield from work.results()
        finally:
            # After an error or an interrupt nobody wants the rest.
            work.drop()

    def _started(self, n_threads):
        if self._executor is None or n_threads != self._n_threads:
            self.release()
            self._executor = ThreadPoolExecutor(n_threads - 1, "skcara")
            self._n_threads = n_threads
        return self._executor

    def release(self) -> None:
        """End the threads once they are idle; the next map starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None


class _SharedWork:
    """Items that several threads take one after the other.

    Parameters
    ----------
    function : callable
    items : sequence
    most_ahead : int
        Items that may be taken before the first of them is asked for.
    """

    def __init__(self, function, items, most_ahead):
        self._function, self._items, self._most_ahead = function, items, most_ahead
        self._changed = Condition()
        self._n_taken = self._n_asked = self._n_waiting = 0
        self._end = len(items)
        # By number: whether it is an error, and the result.
        self._done: dict[int, tuple[bool, Any]] = {}

    def help(self) -> None:
        """Work on items until none is left."""
        while (number := self._take(wait=True)) is not None:
            self._work_on(number)

    def results(self) -> Iterator:
        """Yield all results in order, and work on items while the next is not done."""
        for due in range(len(self._items)):
            while due not in self._done:
                number = self._take(wait=False)
                if number is None:
                    self._wait_for(due)
                else:
                    self._work_on(number)
            with self._changed:
                is_error, result = self._done.pop(due)
                self._n_asked = due + 1
                self._notify()
            if is_error:
                raise result
            yield result

    def drop(self) -> None:
        """Start no more items."""
        with self._changed:
            self._end = 0
            self._notify()

    def _take(self, *, wait):
        """Number of the next item, None if there is none (that may be begun now)."""
        with self._changed:
            while wait and self._n_taken < self._end and self._is_far_ahead():
                self._wait()
            if self._n_taken >= self._end or self._is_far_ahead():
                return None
            self._n_taken += 1
            return self._n_taken - 1

    def _is_far_ahead(self):
        return self._n_taken - self._n_asked >= self._most_ahead

    def _work_on(self, number):
        try:
            outcome = False, self._function(self._items[number])
        except BaseException as error:  # raised again where the result is asked for
            outcome = True, error
        with self._changed:
            self._done[number] = outcome
            self._notify()

    def _wait_for(self, number):
        with self._changed:
            while number not in self._done:
                self._wait()

    def _wait(self):
        self._n_waiting += 1
        self._changed.wait()
        self._n_waiting -= 1

    def _notify(self):
        # Waking up costs more than an item of bookkeeping.
        if self._n_waiting:
            self._changed.notify_all()
