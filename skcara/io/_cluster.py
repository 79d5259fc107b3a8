"""Parts of a Dask collection that stay in the memory of the workers of a cluster.

A task for every part would cost the scheduler a millisecond each, in every pass. Parts
are put on *shelves*: a shelf is one result that holds many parts, made where the parts
are. A pass sends one task to each thread of the cluster, which visits a few shelves
and sends back what it could add up.

Everything is computed from the user's collection by pure functions. When a worker dies,
Dask computes what it held once more, elsewhere, with the same bits.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skcara.data import labels_between, one_blas_thread
from skcara.io._blocks import Block, pick_rows
from skcara.io._optional import import_optional
from skcara.io._parts import (
    PartFacts,
    Pooling,
    describe_part,
    visit_part,
)
from skcara.io._pool import Pool
from skcara.io._sums import PartSum

# Shelves for each thread: few, because each costs the scheduler some time, but enough
# to spread the load of a worker that was lost over the others.
_SHELVES_PER_THREAD = 4
# How long a pass waits for the first worker of a cluster that has none.
_SECONDS_WITHOUT_WORKERS = 50
_SECONDS_BETWEEN_LOOKS = 2


class Shelf(NamedTuple):
    """Some of the parts, by number; numbers and labels of their rows if known."""

    blocks: dict[int, Block]
    row_numbers: dict[int, range]
    labels: dict[int, Any]


class ClusterExecutor:
    """Runs tasks on parts where they are.

    Parameters
    ----------
    parts : list of Delayed
        Each a :class:`Block`.
    client : distributed.Client
    """

    def __init__(self, parts, client):
        self._parts = parts
        self._client = client
        self._distributed = import_optional(
            "distributed", extra="dask", needed_by="from_dask"
        )
        self._shelves: list = []
        self._numbers_of: dict[str, list[int]] = {}
        self._row_numbers: list[range] = []
        self._labels: Any = None

    # ---- shelves -----------------------------------------------------------------

    def load(self):
        """Put the parts on shelves, unless they are there."""
        if self._shelves:
            return
        threads = self._threads()
        # Wherever Dask computes them, next to what they are made of.
        blocks = self._client.compute(self._parts)
        self._wait(blocks)
        numbers = {block.key: number for number, block in enumerate(blocks)}
        held = defaultdict(list)
        for key, holders in self._client.who_has(blocks).items():
            held[min(holders, default=None)].append(numbers[key])
        for worker in sorted(held, key=str):
            n_shelves = _SHELVES_PER_THREAD * _count(threads, worker)
            for group in _split(sorted(held[worker]), n_shelves):
                held_blocks = [blocks[number] for number in group]
                shelf = self._submit(_make_shelf, group, held_blocks, worker=worker)
                self._shelves.append(shelf)
                self._numbers_of[shelf.key] = group
        self._wait(self._shelves)
        _release(blocks)
        if self._row_numbers:
            self.number_rows(self._row_numbers)

    def number_rows(self, row_numbers: list[range]):
        """Say which numbers the rows of each part have in the source.

        They stay with the parts: in every task they would travel at every pass.
        """
        self._row_numbers = row_numbers
        self._add_to_shelves("row_numbers", row_numbers.__getitem__)

    def _label_rows(self, labels):
        """Put the labels of rows beside the parts, each where its rows are."""
        self._labels = labels

        def labels_of(number):
            rows = self._row_numbers[number]
            return labels_between(labels, rows.start, rows.stop)

        self._add_to_shelves("labels", labels_of)

    def _add_to_shelves(self, name, value_of):
        """Give shelves what belongs to each of their parts, in a field of theirs."""
        extended, numbers_of = [], {}
        for shelf in self._shelves:
            numbers = self._numbers_of[shelf.key]
            own = {number: value_of(number) for number in numbers}
            extended.append(self._submit(_extend_shelf, shelf, name, own))
            numbers_of[extended[-1].key] = numbers
        self._wait(extended)
        _release(self._shelves)
        self._shelves, self._numbers_of = extended, numbers_of

    def release(self):
        """Let the cluster forget the shelves."""
        _release(self._shelves)
        self._shelves, self._numbers_of, self._labels = [], {}, None

    def _threads(self) -> dict[str, int]:
        """Number of threads of each worker; waits for the first worker."""
        deadline = time.monotonic() + _SECONDS_WITHOUT_WORKERS
        while not (threads := self._client.nthreads()):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    "The Dask cluster has had no workers for "
                    f"{_SECONDS_WITHOUT_WORKERS} seconds."
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return threads

    def _groups(self):
        """Shelves that one thread visits, and the worker that holds them."""
        self.load()
        threads = self._threads()
        by_key = {shelf.key: shelf for shelf in self._shelves}
        held = defaultdict(list)
        for key, holders in self._client.who_has(self._shelves).items():
            # None: it was lost and is being made again somewhere.
            held[min(holders, default=None)].append(by_key[key])
        for worker in sorted(held, key=str):
            for group in _split(held[worker], _count(threads, worker)):
                yield worker, group

    # ---- passes ------------------------------------------------------------------

    def describe(self) -> dict[int, PartFacts]:
        """Facts about all parts."""
        facts: dict[int, PartFacts] = {}
        for described in self._map(_describe_shelves):
            facts |= described
        return facts

    def fold(self, task, layout, chunk_rows, labels=None):
        """Total of a task over all parts; None if they have no rows.

        Labels travel once, with the first task that needs them.
        """
        if labels is not None and labels is not self._labels:
            self.load()
            self._label_rows(labels)
        n_parts = len(self._parts)
        total, is_labelled = PartSum(n_parts, task), labels is not None
        options = (task, n_parts, layout, chunk_rows, is_labelled)
        for share in self._map(_visit_shelves, *options):
            total.absorb(share)
        return total.total()

    def survey(self, task, pool: Pool, layout, chunk_rows):
        """Survey all parts by addresses; see :class:`LocalExecutor`."""
        n_parts = len(self._parts)
        total, lengths = PartSum(n_parts, task), [0] * n_parts
        options = (task, pool, n_parts, layout, chunk_rows)
        for share, found, group_lengths in self._map(_survey_shelves, *options):
            total.absorb(share)
            for number, length in group_lengths.items():
                lengths[number] = length
            pool.absorb(found)
        return total.total(), pool, lengths

    def take(self, wanted: dict[int, np.ndarray]) -> Iterator[tuple[int, Block]]:
        """Yield rows of some parts, in the order of the parts."""
        taken: dict[int, Block] = {}
        for blocks in self._map(_take_from_shelves, wanted):
            taken |= blocks
        yield from sorted(taken.items())

    def parts(self) -> Iterator[Block]:
        """Yield all parts in order, one at a time."""
        for number in range(len(self._parts)):
            (block,) = [b for b in self._map(_find_part, number) if b is not None]
            yield block

    # ---- transport ---------------------------------------------------------------

    def _map(self, function, *arguments, **options):
        """Results of a function of all shelves, one for each thread."""
        futures = [
            self._submit(function, *arguments, shelves, worker=worker, **options)
            for worker, shelves in self._groups()
        ]
        self._wait(futures)
        results = self._client.gather(futures)
        _release(futures)
        return results

    def _submit(self, function, *arguments, worker=None, **options):
        # Only a wish: the worker may be gone by then.
        return self._client.submit(
            function,
            *arguments,
            **options,
            pure=False,
            workers=None if worker is None else [worker],
            allow_other_workers=worker is not None,
        )

    def _wait(self, futures):
        """Wait until all are done; an error of one, or of the cluster, is raised."""
        is_done = False
        while not is_done:
            try:
                # All at once: waiting for each of thousands takes its square of time.
                self._distributed.wait(futures, timeout=_SECONDS_BETWEEN_LOOKS)
                is_done = True
            except self._distributed.TimeoutError:
                self._threads()
            except self._distributed.CancelledError as error:
                raise self._lost() from error
            for future in futures:
                if future.status == "error":
                    future.result()
                if future.status == "cancelled":
                    raise self._lost()
                # Lost with a worker since then, and computed again.
                is_done = is_done and future.status != "lost"

    def _lost(self):
        self.release()
        return RuntimeError(
            "Partitions were lost with a worker of the Dask cluster and cannot be "
            "computed again, because they were scattered from here or cancelled. Make "
            "the collection from a function or a file instead of client.scatter, so "
            "that Dask can compute lost partitions again."
        )


def _release(futures):
    """Forget results now: garbage might be collected much later."""
    for future in futures:
        future.release()


def _count(threads: dict[str, int], worker: str | None) -> int:
    """Threads of a worker; one if it is unknown or gone."""
    return 1 if worker is None else threads.get(worker, 1)


def _split(items, n_groups: int) -> list[list]:
    """Cut a sequence into at most so many groups of neighbours, nearly equal ones."""
    edges = np.linspace(0, len(items), min(n_groups, len(items)) + 1).astype(int)
    return [list(items[a:b]) for a, b in pairwise(edges)]


# ---- on a worker -----------------------------------------------------------------


def _make_shelf(numbers, blocks) -> Shelf:
    return Shelf(dict(zip(numbers, blocks, strict=True)), {}, {})


def _extend_shelf(shelf: Shelf, name, values) -> Shelf:
    return shelf._replace(**{name: values})


def _parts_of(shelves: list[Shelf]):
    """Parts on some shelves, in their order."""
    blocks = {number: b for shelf in shelves for number, b in shelf.blocks.items()}
    return sorted(blocks.items())


def _describe_shelves(shelves):
    return {number: describe_part(block) for number, block in _parts_of(shelves)}


def _visit_shelves(task, n_parts, layout, chunk_rows, is_labelled, shelves):
    """What the parts on some shelves add up to."""
    row_numbers = {k: v for shelf in shelves for k, v in shelf.row_numbers.items()}
    labels = {}
    if is_labelled:
        labels = {k: v for shelf in shelves for k, v in shelf.labels.items()}
    total = PartSum(n_parts, task)
    with _shared_blas_limit():
        for number, block in _parts_of(shelves):
            own = row_numbers.get(number), labels.get(number)
            result = visit_part(task, number, block, layout, chunk_rows, *own)
            total.add(number, result)
    return total.share()


def _survey_shelves(task, pool, n_parts, layout, chunk_rows, shelves):
    """Sum, pool and lengths of the parts on some shelves."""
    pool = pool.fresh()
    unnumbered = [shelf._replace(row_numbers={}) for shelf in shelves]
    task = Pooling(task, pool)
    share = _visit_shelves(task, n_parts, layout, chunk_rows, False, unnumbered)
    pool.shrink()
    return share, pool, {number: b.n_rows for number, b in _parts_of(shelves)}


def _take_from_shelves(wanted, shelves):
    return {
        number: pick_rows(block, wanted[number])
        for number, block in _parts_of(shelves)
        if number in wanted
    }


def _find_part(number, shelves):
    return dict(_parts_of(shelves)).get(number)


_blas_lock = threading.Lock()
_blas_users: list = []


@contextmanager
def _shared_blas_limit():
    """One BLAS thread, as long as any thread of this worker is inside.

    The limit belongs to the process: the first thread sets it, the last one takes it
    back. A thread of its own limit would lift that of the others on its way out.
    """
    with _blas_lock:
        limit = _blas_users[0] if _blas_users else one_blas_thread()
        if not _blas_users:
            limit.__enter__()
        _blas_users.append(limit)
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users.pop()
            if not _blas_users:
                limit.__exit__(None, None, None)
