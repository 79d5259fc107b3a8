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
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from skcara.data import labels_between
from skcara.io._blocks import Block
from skcara.io._optional import import_optional
from skcara.io._parts import PartFacts
from skcara.io._pool import Pool
from skcara.io._recipes import find_recipes
from skcara.io._shelves import (
    Book,
    describe_shelves,
    extend_shelf,
    find_part,
    join_shelves,
    make_shelf,
    make_shelf_of,
    survey_shelves,
    take_from_shelves,
    visit_shelves,
)
from skcara.io._sums import PartSum

# Shelves for each thread: few, because each costs the scheduler some time, but enough
# to spread the load of a worker that was lost over the others.
_SHELVES_PER_THREAD = 4
# Tasks for each thread that make parts: a thread that is done early takes some of
# another's. A task costs Dask two milliseconds, ten times as much as a small part.
_TASKS_PER_THREAD = 32
# How long a pass waits for the first worker of a cluster that has none.
_SECONDS_WITHOUT_WORKERS = 50
_SECONDS_BETWEEN_LOOKS = 2
# A scheduler with many thousand tasks may be busy for some seconds.
_SECONDS_WITHOUT_ANSWER = 120


class ClusterExecutor:
    """Runs tasks on parts where they are.

    Parameters
    ----------
    parts : list of Delayed
        Each a :class:`Block`.
    client : distributed.Client
    collections : tuple
        What the parts are made of. A cluster forgets persisted partitions of
        collections that nobody holds.
    """

    def __init__(self, parts, client, collections: tuple = ()):
        self._parts = parts
        self._client = client
        self._collections = collections
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
        known = {f.key: f for f in self._distributed.futures_of(self._collections)}
        recipes = find_recipes(self._parts, known)
        numbers = range(len(self._parts))
        if recipes and all(recipe.inputs for recipe in recipes):
            self._shelve_persisted(recipes, known)
        elif recipes and not any(recipe.inputs for recipe in recipes):
            groups = _split(numbers, _TASKS_PER_THREAD * sum(threads.values()))
            books = [Book({number: recipes[number] for number in g}) for g in groups]
            shelves = self._client.map(make_shelf_of, books, values=[], pure=False)
            self._shelve(shelves, groups, join_shelves)
        else:
            blocks = self._client.compute(self._parts)
            self._shelve(blocks, [[number] for number in numbers], make_shelf)
        if self._row_numbers:
            self.number_rows(self._row_numbers)

    def _shelve(self, futures, groups, make):
        """Put what Dask computes on shelves, where it is.

        Parameters
        ----------
        futures : list of Future
        groups : list of list of int
            Numbers of the parts that each of them is or holds.
        make : callable
            Makes a shelf of numbers and results.
        """
        self._wait(futures)
        places = {future.key: place for place, future in enumerate(futures)}
        held = defaultdict(list)
        for key, holders in self._ask(self._client.who_has, futures).items():
            held[min(holders, default=None)].append(places[key])
        for worker, chosen in self._divide(held):
            numbers = [number for place in chosen for number in groups[place]]
            results = [futures[place] for place in chosen]
            shelf = self._submit(make, numbers, results, worker=worker)
            self._add_shelf(shelf, numbers)
        self._wait(self._shelves)
        _release(futures)

    def _shelve_persisted(self, recipes, known):
        """Make parts of persisted partitions on their shelves, where most bytes are.

        A task for each part would cost more than its making.
        """
        keys = list({key for recipe in recipes for key in recipe.inputs})
        self._wait([known[key] for key in keys])
        sizes = self._ask(self._client.nbytes, keys, summary=False)
        holders = self._ask(self._client.who_has, [known[key] for key in keys])
        held = defaultdict(list)
        for number, recipe in enumerate(recipes):
            n_bytes: dict = defaultdict(int)
            for key in recipe.inputs:
                for worker in holders.get(key, ()):
                    n_bytes[worker] += sizes.get(key, 0)
            # Equal ones by name: any order would do, but always the same.
            most = max(sorted(n_bytes), key=n_bytes.__getitem__, default=None)
            held[most].append(number)
        for worker, group in self._divide(held):
            book = Book({number: recipes[number] for number in group})
            values = [known[key] for key in book.inputs]
            shelf = self._submit(make_shelf_of, book, values, worker=worker)
            self._add_shelf(shelf, group)
        self._wait(self._shelves)

    def _divide(self, held):
        """Cut what workers hold into shelves."""
        threads = self._threads()
        for worker in sorted(held, key=str):
            n_shelves = _SHELVES_PER_THREAD * _count(threads, worker)
            for group in _split(sorted(held[worker]), n_shelves):
                yield worker, group

    def _add_shelf(self, shelf, numbers):
        self._shelves.append(shelf)
        self._numbers_of[shelf.key] = numbers

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
            extended.append(self._submit(extend_shelf, shelf, name, own))
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
        while not (threads := self._ask(self._client.nthreads)):
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
        for key, holders in self._ask(self._client.who_has, self._shelves).items():
            # None: it was lost and is being made again somewhere.
            held[min(holders, default=None)].append(by_key[key])
        for worker in sorted(held, key=str):
            for group in _split(held[worker], _count(threads, worker)):
                yield worker, group

    # ---- passes ------------------------------------------------------------------

    def describe(self) -> dict[int, PartFacts]:
        """Facts about all parts."""
        facts: dict[int, PartFacts] = {}
        for described in self._map(describe_shelves):
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
        for share in self._map(visit_shelves, *options):
            total.absorb(share)
        return total.total()

    def survey(self, task, pool: Pool, layout, chunk_rows):
        """Survey all parts by addresses; see :class:`LocalExecutor`."""
        n_parts = len(self._parts)
        total, lengths = PartSum(n_parts, task), [0] * n_parts
        options = (task, pool, n_parts, layout, chunk_rows)
        for share, found, group_lengths in self._map(survey_shelves, *options):
            total.absorb(share)
            for number, length in group_lengths.items():
                lengths[number] = length
            pool.absorb(found)
        return total.total(), pool, lengths

    def take(self, wanted: dict[int, np.ndarray]) -> Iterator[tuple[int, Block]]:
        """Yield rows of some parts, in the order of the parts."""
        taken: dict[int, Block] = {}
        for blocks in self._map(take_from_shelves, wanted):
            taken |= blocks
        yield from sorted(taken.items())

    def parts(self) -> Iterator[Block]:
        """Yield all parts in order, one at a time."""
        for number in range(len(self._parts)):
            (block,) = [b for b in self._map(find_part, number) if b is not None]
            yield block

    # ---- transport ---------------------------------------------------------------

    def _map(self, function, *arguments, **options):
        """Results of a function of all shelves, one for each thread."""
        futures = [
            self._submit(function, *arguments, shelves, worker=worker, **options)
            for worker, shelves in self._groups()
        ]
        self._wait(futures)
        results = self._gathered(futures)
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

    def _gathered(self, futures) -> list:
        """Results of futures that were done; waits while some are computed again."""
        answer = _Answer(self._client.gather, futures)
        while not answer.arrives_in(_SECONDS_BETWEEN_LOOKS):
            self._threads()
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
