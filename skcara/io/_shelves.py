"""Shelves: results of Dask that hold many parts, and what a worker does with them.

Nothing here knows how shelves, tasks and results travel.
"""

import threading
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from skcara.data import one_blas_thread
from skcara.io._blocks import Block, join_blocks, pick_rows
from skcara.io._heap import kept_heap
from skcara.io._parts import Pooling, describe_part, visit_part
from skcara.io._recipes import Recipe
from skcara.io._sums import PartSum


class Shelf(NamedTuple):
    """Some of the parts, by number; numbers and labels of their rows if known."""

    blocks: dict[int, Block]
    row_numbers: dict[int, range]
    labels: dict[int, Any]


def make_shelf(numbers, blocks) -> Shelf:
    """Return a shelf of parts with these numbers."""
    return Shelf(dict(zip(numbers, blocks, strict=True)), {}, {})


def join_shelves(numbers, shelves) -> Shelf:
    """Return one shelf with the parts of all, which have these numbers."""
    blocks = [block for shelf in shelves for block in shelf.blocks.values()]
    return make_shelf(numbers, blocks)


class Book:
    """Recipes of the parts of a shelf.

    Parameters
    ----------
    recipes : dict
        By the numbers of the parts.
    """

    def __init__(self, recipes: dict[int, Recipe]):
        self.recipes = recipes
        found = (key for recipe in recipes.values() for key in recipe.inputs)
        self.inputs = list(dict.fromkeys(found))


def make_shelf_of(book: Book, values: list) -> Shelf:
    """Make the parts of a shelf from the values of all inputs."""
    given = dict(zip(book.inputs, values, strict=True))
    blocks = [recipe(given) for recipe in book.recipes.values()]
    return make_shelf(book.recipes, blocks)


def extend_shelf(shelf: Shelf, name, values) -> Shelf:
    """Return a shelf with something more about its parts."""
    return shelf._replace(**{name: values})


def _parts_of(shelves: list[Shelf]):
    """Parts on some shelves, in their order."""
    blocks = {number: b for shelf in shelves for number, b in shelf.blocks.items()}
    return sorted(blocks.items())


def describe_shelves(shelves):
    """Facts about the parts on some shelves."""
    return {number: describe_part(block) for number, block in _parts_of(shelves)}


def visit_shelves(task, n_parts, layout, chunk_rows, is_labelled, shelves):
    """What the parts on some shelves add up to."""
    row_numbers = {k: v for shelf in shelves for k, v in shelf.row_numbers.items()}
    labels = {}
    if is_labelled:
        labels = {k: v for shelf in shelves for k, v in shelf.labels.items()}
    total = PartSum(n_parts, task)
    with _pass_settings():
        for number, block in _parts_of(shelves):
            own = row_numbers.get(number), labels.get(number)
            result = visit_part(task, number, block, layout, chunk_rows, *own)
            total.add(number, result)
    return total.share()


def survey_shelves(task, pool, n_parts, layout, chunk_rows, shelves):
    """Sum, pool and lengths of the parts on some shelves."""
    pool = pool.fresh()
    unnumbered = [shelf._replace(row_numbers={}) for shelf in shelves]
    task = Pooling(task, pool)
    share = visit_shelves(task, n_parts, layout, chunk_rows, False, unnumbered)
    pool.shrink()
    return share, pool, {number: b.n_rows for number, b in _parts_of(shelves)}


def take_from_shelves(wanted, shelves):
    """Rows of the parts on some shelves, in one block; None if none is wanted."""
    blocks = dict(_parts_of(shelves))
    taken = [pick_rows(blocks[number], rows) for number, rows in wanted.items()]
    return join_blocks(taken) if taken else None


def find_part(number, shelves):
    """Return the part of this number, or None if it is on no shelf."""
    return dict(_parts_of(shelves)).get(number)


_lock = threading.Lock()
_users: list[ExitStack] = []


@contextmanager
def _pass_settings():
    """One BLAS thread and a heap that stays, as long as any thread is inside.

    These settings belong to the process: the first thread makes them, the last one
    takes them back. A thread of its own settings would lift those of the others on its
    way out.
    """
    with _lock:
        settings = _users[0] if _users else ExitStack()
        if not _users:
            settings.enter_context(one_blas_thread())
            settings.enter_context(kept_heap())
        _users.append(settings)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                settings.close()
