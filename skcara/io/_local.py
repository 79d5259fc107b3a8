"""Parts of a Dask collection that are computed by a scheduler of this process.

Every read computes the collection anew, a few partitions at a time, so that nothing is
held between reads but what the user has persisted.
"""

from collections.abc import Iterator, Sequence

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
from skcara.io._sums import merged


class LocalExecutor:
    """Runs tasks on parts with the scheduler that Dask is configured for.

    Parameters
    ----------
    parts : list of Delayed
        Each a :class:`Block`.
    """

    #: Single rows cost as much as all rows of their parts.
    keeps_parts = False

    def __init__(self, parts):
        self._parts = parts
        self._row_numbers: Sequence[range | None] = [None] * len(parts)
        self._dask = import_optional("dask", extra="dask", needed_by="from_dask")

    def release(self):
        """Nothing is held between reads."""

    def number_rows(self, row_numbers: list[range]):
        """Say which numbers the rows of each part have in the source."""
        self._row_numbers = row_numbers

    def describe(self) -> dict[int, PartFacts]:
        """Facts about the first part that has rows; others would cost a read."""
        for number, part in enumerate(self._parts):
            facts = describe_part(part.compute())
            if facts.n_rows:
                return {number: facts}
        return {}

    def fold(self, task, layout, chunk_rows, labels=None):
        """Total of a task over all parts; None if they have no rows."""
        visit = self._dask.delayed(visit_part)
        nodes = []
        for number, (part, rows) in enumerate(
            zip(self._parts, self._row_numbers, strict=True)
        ):
            own = None
            if labels is not None and rows is not None:
                own = labels_between(labels, rows.start, rows.stop)
            nodes.append(visit(task, number, part, layout, chunk_rows, rows, own))
        return self._total(merged, task, nodes)

    def survey(self, task, pool: Pool, layout, chunk_rows):
        """Survey all parts by addresses.

        Returns
        -------
        total : object
            Total of the task; None if there are no rows.
        pool : Pool
        lengths : list of int
            Number of rows of each part.
        """
        visit = self._dask.delayed(_survey_part)
        nodes = [
            visit(task, pool, number, part, layout, chunk_rows)
            for number, part in enumerate(self._parts)
        ]
        return self._total(_join_surveys, task, nodes)

    def _total(self, add, task, nodes):
        """Add up in the tree of `PartSum`, as a graph whose nodes Dask can free."""
        add = self._dask.delayed(add)
        while len(nodes) > 1:
            pairs = [nodes[k : k + 2] for k in range(0, len(nodes), 2)]
            nodes = [add(task, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        with one_blas_thread():
            return nodes[0].compute()

    def take(self, wanted: dict[int, np.ndarray]) -> Iterator[tuple[int, Block]]:
        """Yield rows of some parts, in the order of the parts."""
        for number in sorted(wanted):
            yield number, pick_rows(self._parts[number].compute(), wanted[number])

    def parts(self) -> Iterator[Block]:
        """Yield all parts in order."""
        for part in self._parts:
            yield part.compute()


def _survey_part(task, pool, number, block, layout, chunk_rows):
    pool = pool.fresh()
    total = visit_part(Pooling(task, pool), number, block, layout, chunk_rows)
    pool.shrink()
    return total, pool, [block.n_rows]


def _join_surveys(task, left, right):
    (left_total, pool, lengths), (right_total, right_pool, right_lengths) = left, right
    pool.absorb(right_pool)
    pool.shrink()
    return merged(task, left_total, right_total), pool, lengths + right_lengths
