"""Parts of a Dask collection that stay in the memory of the workers of a cluster.

A task for every part would cost the scheduler a millisecond each, in every pass. Parts
are put on *shelves*: a shelf is one result that holds many parts, made where the parts
are. A pass sends one task to each thread of the cluster, which visits a few shelves
and sends back what it could add up.

Everything is computed from the user's collection by pure functions. When a worker dies,
Dask computes what it held once more, elsewhere, with the same bits.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from skcara.data import labels_between
from skcara.io._blocks import Block, aligned, slice_block
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
from skcara.io._transport import Call, Transport, forget

# Shelves for each thread: few, because each costs the scheduler some time, but enough
# to spread the load of a worker that was lost over the others.
_SHELVES_PER_THREAD = 4
# Tasks for each thread that make parts: a thread that is done early takes some of
# another's. A task costs Dask two milliseconds, ten times as much as a small part.
_TASKS_PER_THREAD = 32


class ClusterExecutor(Transport):
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

    #: Rows can be taken by number at any time.
    keeps_parts = True

    def __init__(self, parts, client, collections: tuple = ()):
        super().__init__(client)
        self._parts = parts
        self._collections = collections
        self._shelves: list = []
        self._numbers_of: dict[str, list[int]] = {}
        self._row_numbers: list[range] = []
        self._labels: Any = None

    # ---- shelves -----------------------------------------------------------------

    def load(self):
        """Put the parts on shelves, unless they are there."""
        if self._shelves:
            return
        threads = self.threads()
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
        self.wait(futures)
        places = {future.key: place for place, future in enumerate(futures)}
        held = defaultdict(list)
        for key, holders in self.holders(futures).items():
            held[min(holders, default=None)].append(places[key])
        for worker, chosen in self._divide(held):
            numbers = [number for place in chosen for number in groups[place]]
            results = [futures[place] for place in chosen]
            shelf = self.submit(make, numbers, results, worker=worker)
            self._add_shelf(shelf, numbers)
        self.wait(self._shelves)
        forget(futures)

    def _shelve_persisted(self, recipes, known):
        """Make parts of persisted partitions on their shelves, where most bytes are.

        A task for each part would cost more than its making.
        """
        keys = list({key for recipe in recipes for key in recipe.inputs})
        self.wait([known[key] for key in keys])
        sizes = self.sizes(keys)
        holders = self.holders([known[key] for key in keys])
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
            shelf = self.submit(make_shelf_of, book, values, worker=worker)
            self._add_shelf(shelf, group)
        self.wait(self._shelves)

    def _divide(self, held):
        """Cut what workers hold into shelves."""
        threads = self.threads()
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
            extended.append(self.submit(extend_shelf, shelf, name, own))
            numbers_of[extended[-1].key] = numbers
        self.wait(extended)
        forget(self._shelves)
        self._shelves, self._numbers_of = extended, numbers_of

    def release(self):
        """Let the cluster forget the shelves."""
        forget(self._shelves)
        self._shelves, self._numbers_of, self._labels = [], {}, None

    def _groups(self):
        """Shelves that one thread visits, and the worker that holds them."""
        self.load()
        threads = self.threads()
        by_key = {shelf.key: shelf for shelf in self._shelves}
        held = defaultdict(list)
        for key, holders in self.holders(self._shelves).items():
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
        groups = list(self._groups())
        shares = [self._share(wanted, shelves) for _, shelves in groups]
        # All are asked: Dask might give a worker without a task that of another one,
        # and the rows with it.
        blocks = self.run(
            Call(take_from_shelves, (share, shelves), worker)
            for share, (worker, shelves) in zip(shares, groups, strict=True)
        )
        places = {}
        for share, block in zip(shares, blocks, strict=True):
            if not share:
                continue
            # It may have travelled to an address that does not fit its type.
            block, start = aligned(block), 0
            for number, rows in share.items():
                places[number] = block, start, start + len(rows)
                start += len(rows)
        for number in sorted(places):
            yield number, slice_block(*places[number])

    def _share(self, by_number: dict, shelves) -> dict:
        """What belongs to the parts on some shelves."""
        numbers = (n for shelf in shelves for n in self._numbers_of[shelf.key])
        return {n: by_number[n] for n in numbers if n in by_number}

    def parts(self) -> Iterator[Block]:
        """Yield all parts in order, one at a time."""
        for number in range(len(self._parts)):
            (block,) = [b for b in self._map(find_part, number) if b is not None]
            yield block

    def _map(self, function, *arguments) -> list:
        """Results of a function of all shelves, one for each thread."""
        return self.run(
            Call(function, (*arguments, shelves), worker)
            for worker, shelves in self._groups()
        )


def _count(threads: dict[str, int], worker: str | None) -> int:
    """Threads of a worker; one if it is unknown or gone."""
    return 1 if worker is None else threads.get(worker, 1)


def _split(items, n_groups: int) -> list[list]:
    """Cut a sequence into at most so many groups of neighbours, nearly equal ones."""
    edges = np.linspace(0, len(items), min(n_groups, len(items)) + 1).astype(int)
    return [list(items[a:b]) for a, b in pairwise(edges)]
