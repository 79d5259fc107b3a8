"""Threads that are kept: an ordered map without the price of starting a pool.

A pass takes milliseconds, and starting, feeding and ending a pool for it takes longer
than the pass. Here the threads of a source live as long as a fit. How many there are is
joblib's decision, so that its configuration is respected. They are threads whatever
backend is configured, because the rows are not to be copied.

Whether threads pay depends on the machine: products of matrices share nothing, but
reads of few columns share the memory, and threads that hand Python's lock to each other
after every short operation may take longer than one of them alone. So the first items
of each kind of work are a trial, and the others go the faster way. The results are the
same either way.
"""

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from joblib import effective_n_jobs

# With fewer items for each thread than this, the last one to finish costs more than the
# others have saved.
_MIN_ITEMS_PER_THREAD = 2
# Items that one thread works on in a trial, alone and beside the others: two, because
# the first one that it meets is slow. Beside the others it is one where that is more
# than this share of all items: if the trial fails, what they took longer is lost, and
# with two of them a Lasso that reads 16 items once took 1.08 of the time of one thread.
_TRIED_ITEMS, _MAX_TRIED_SHARE = 2, 1 / 8
# Share of the time of one thread that several must save in a trial: a smaller one is
# within the noise of so few items, and is gone when the machine has other work.
_MIN_SAVED = 0.1
# Items that are handed out ahead of the one that is waited for: results may be large.
_ITEMS_AHEAD_PER_THREAD = 2


class Threads:
    """A map over items in threads, results in the order of the items.

    Parameters
    ----------
    n_jobs : int or None
        As in joblib.
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
        remaining = iter(items)
        alone = 0.0
        for item in islice(remaining, _TRIED_ITEMS):
            started = time.perf_counter()
            result = function(item)
            alone = time.perf_counter() - started  # of the last one
            yield result
        n_tried = int(_MAX_TRIED_SHARE * len(items) / n_threads)
        n_tried = n_threads * min(max(n_tried, 1), _TRIED_ITEMS)
        tried = list(islice(remaining, n_tried))
        executor = self._started(n_threads)
        started = time.perf_counter()
        results = list(executor.map(function, tried))
        together = time.perf_counter() - started
        self._pays[kind] = together < (1 - _MIN_SAVED) * len(tried) * alone
        yield from results
        rest = list(remaining)
        if self._pays[kind]:
            yield from self._map_in_threads(function, rest, n_threads)
        else:
            yield from map(function, rest)

    def _map_in_threads(self, function, items, n_threads):
        executor = self._started(n_threads)
        pending: deque = deque()
        try:
            for item in items:
                if len(pending) > _ITEMS_AHEAD_PER_THREAD * n_threads:
                    yield pending.popleft().result()
                pending.append(executor.submit(function, item))
            while pending:
                yield pending.popleft().result()
        finally:
            # After an error or an interrupt nobody wants the rest.
            for future in pending:
                future.cancel()

    def _started(self, n_threads):
        if self._executor is None or n_threads != self._n_threads:
            self.release()
            self._executor = ThreadPoolExecutor(n_threads, "skcara")
            self._n_threads = n_threads
        return self._executor

    def release(self) -> None:
        """End the threads once they are idle; the next map starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
