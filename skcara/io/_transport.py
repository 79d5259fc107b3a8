"""Calls of functions on the workers of a Dask cluster, none of which waits for ever."""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from skcara.io._optional import import_optional

# How long a pass waits for the first worker of a cluster that has none.
_SECONDS_WITHOUT_WORKERS = 50
_SECONDS_BETWEEN_LOOKS = 2
# A scheduler with many thousand tasks may be busy for some seconds.
_SECONDS_WITHOUT_ANSWER = 120


class Call(NamedTuple):
    """A function, its arguments, and the worker that holds most of them."""

    function: Callable
    arguments: tuple
    worker: str | None


class Transport:
    """Base of what calls functions on a cluster, with an end of all waiting.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client):
        self._client = client
        self._distributed = import_optional(
            "distributed", extra="dask", needed_by="from_dask"
        )

    def release(self):
        """Let go of all results; also called when some are lost for good."""

    def threads(self) -> dict[str, int]:
        """Number of threads of each worker; waits for the first worker."""
        deadline = time.monotonic() + _SECONDS_WITHOUT_WORKERS
        while not (threads := self._ask(self._client.nthreads)):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    "The Dask cluster has had no workers for "
                    f"{_SECONDS_WITHOUT_WORKERS} seconds."
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return threads

    def holders(self, futures) -> dict:
        """Workers that hold results, by their keys."""
        return self._ask(self._client.who_has, futures)

    def sizes(self, keys) -> dict[str, int]:
        """Bytes of results, by their keys."""
        return self._ask(self._client.nbytes, keys, summary=False)

    def submit(self, function, *arguments, worker=None):
        """Future of a call, on this worker if it is still there."""
        return self._client.submit(
            function,
            *arguments,
            pure=False,
            workers=None if worker is None else [worker],
            allow_other_workers=worker is not None,
        )

    def run(self, calls: Iterable[Call]) -> list:
        """Results of calls, in their order."""
        futures = [
            self.submit(c.function, *c.arguments, worker=c.worker) for c in calls
        ]
        self.wait(futures)
        results = self.gathered(futures)
        forget(futures)
        return results

    def wait(self, futures):
        """Wait until all are done; an error of one, or of the cluster, is raised."""
        is_done = False
        while not is_done:
            try:
                # All at once: waiting for each of thousands takes its square of time.
                self._distributed.wait(futures, timeout=_SECONDS_BETWEEN_LOOKS)
                is_done = True
            except self._distributed.TimeoutError:
                self.threads()
            except self._distributed.CancelledError as error:
                raise self._lost() from error
            for future in futures:
                if future.status == "error":
                    future.result()
                if future.status == "cancelled":
                    raise self._lost()
                # Lost with a worker since then, and computed again.
                is_done = is_done and future.status != "lost"

    def gathered(self, futures) -> list:
        """Results of futures that were done; waits while some are computed again."""
        answer = _Answer(self._client.gather, futures)
        while not answer.arrives_in(_SECONDS_BETWEEN_LOOKS):
            self.threads()
        return answer.value()

    def _ask(self, question, *arguments, **options):
        """Answer of the scheduler, which has it at hand."""
        answer = _Answer(question, *arguments, **options)
        if not answer.arrives_in(_SECONDS_WITHOUT_ANSWER):
            raise RuntimeError(
                "The scheduler of the Dask cluster has not answered for "
                f"{_SECONDS_WITHOUT_ANSWER} seconds."
            )
        return answer.value()

    def _lost(self):
        self.release()
        return RuntimeError(
            "Partitions were lost with a worker of the Dask cluster and cannot be "
            "computed again, because they were scattered from here or cancelled. Make "
            "the collection from a function or a file instead of client.scatter, so "
            "that Dask can compute lost partitions again."
        )


class _Answer:
    """Answer of a function that might never return, for who does not want to wait.

    The calls of a client have no timeouts.
    """

    def __init__(self, function, *arguments, **options):
        self._call = partial(function, *arguments, **options)
        self._value = self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._value = self._call()
        except BaseException as error:  # raised again where the answer is asked for
            self._error = error

    def arrives_in(self, seconds: float) -> bool:
        """Whether it is there, at the latest after so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def value(self):
        """Return the answer, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._value


def forget(futures):
    """Forget results now: garbage might be collected much later."""
    for future in futures:
        future.release()
