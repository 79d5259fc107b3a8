"""What happens next to a part of the rows: all that travels to a worker.

Nothing here knows how parts, tasks and results travel.
"""

from typing import NamedTuple

from scipy import sparse

from skcara.data import Task
from skcara.io._addresses import first_address
from skcara.io._blocks import (
    Block,
    Layout,
    aligned,
    cut_chunks,
    located,
    make_block,
    with_atoms,
)
from skcara.io._pool import Pool
from skcara.io._preparation import TaskGroup
from skcara.io._sums import merged


class PartFacts(NamedTuple):
    """What can be said of a part at a glance."""

    layout: Layout
    n_rows: int
    n_entries: int
    total_weight: float


def make_part(number: int, X, y, weights=None) -> Block:
    """Check a part of the user's data and make it fast to read."""
    with located(f"Partition {number}"):
        return make_block(X, y, weights)


def describe_part(block: Block) -> PartFacts:
    """Facts about a part; reads no more than its weights."""
    rows, weights = block.rows, block.weights
    return PartFacts(
        Layout.of(block),
        block.n_rows,
        rows.nnz if sparse.issparse(rows) else rows.size,
        float(block.n_rows if weights is None else weights.sum()),
    )


def visit_part(
    task: "TaskGroup | Pooling",
    number: int,
    block: Block,
    layout: Layout,
    chunk_rows: int,
    row_numbers: range | None = None,
    labels=None,
):
    """Total of a task over the chunks of a part, in their order; None without rows.

    Parameters
    ----------
    task : TaskGroup or Pooling
    number : int
        Number of the part.
    block : Block
    layout : Layout
        That of all parts.
    chunk_rows : int
    row_numbers : range, optional
        Numbers of the rows in the source; default their addresses.
    labels : labels, optional
        Of the rows of the part.
    """
    start = first_address(number) if row_numbers is None else row_numbers.start
    total = None
    with located(f"Partition {number}"):
        if row_numbers is not None and len(row_numbers) != block.n_rows:
            raise ValueError(
                f"It had {len(row_numbers)} rows in the first read and has "
                f"{block.n_rows} now. Every read must give the same rows."
            )
        if block.n_rows:
            layout.check(block)
        for chunk in cut_chunks([aligned(block)], chunk_rows, start):
            chunk = with_atoms(chunk, labels, start)
            total = merged(task, total, task.visit(chunk))
    return total if total is None else task.sealed(total)


class Pooling:
    """A task that also fills a pool with rows of the chunks that it visits.

    Pools absorb each other in any order, and are not added up in a tree: a pool is
    large. One object serves the parts that one worker visits one after the other.

    Parameters
    ----------
    task : Task
    pool : Pool
    """

    def __init__(self, task: Task, pool: Pool):
        self._task = task
        self.pool = pool

    def visit(self, chunk):
        """Offer the rows of the chunk to the pool, and visit it."""
        result = self._task.visit(chunk)
        self.pool.offer(chunk)
        return result

    def merge(self, left, right):
        """Add results; the pool has seen the rows of both."""
        return self._task.merge(left, right)

    def sealed(self, total):
        """Total of a part, as it is: facts are no sums."""
        return total
