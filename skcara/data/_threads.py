"""Threads that are kept: an ordered map without the price of starting a pool.

A pass takes milliseconds, and starting, feeding and ending a pool for it takes longer
than the pass. Here the threads of a source live as long as a fit. How many there are is
joblib's decision, so that its configuration is respected. They are threads whatever
backend is configured, because the rows are not to be copied.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joblib import effective_n_jobs

# With fewer items for each thread than this, the last one to finish costs more than the
# others have saved.
_MIN_ITEMS_PER_THREAD = 2
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

    def map(
        self,
        function: Callable[[Any], Any],
        items: Sequence,
        *,
        min_items: int = _MIN_ITEMS_PER_THREAD,
    ) -> Iterator:
        """Yield ``function(item)`` for every item, in order.

        Parameters
        ----------
        function : callable
        items : sequence
        min_items : int
            Items that are worth a thread.
        """
        most = len(items) // min_items
        n_threads = min(effective_n_jobs(self._n_jobs), most) if most > 1 else 1
        if n_threads == 1:
            return map(function, items)
        return self._map_in_threads(function, items, n_threads)

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
