"""Rows of Dask arrays and DataFrames, read where their partitions are."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from skcara.data import Chunk, chunk_rows_for
from skcara.io._addresses import starts_of, to_numbers
from skcara.io._blocks import Layout, cut_chunks, located
from skcara.io._cluster import ClusterExecutor
from skcara.io._dask_parts import bind_parts, is_dask
from skcara.io._local import LocalExecutor
from skcara.io._optional import import_optional
from skcara.io._parts import PartFacts
from skcara.io._pool import Pool, lower_bound
from skcara.io._source import TAKEN_ROWS, DataSource
from skcara.io._watch import Watch

# The total weight of a survey is added up in another order than the one before it,
# which only says which rows need not travel.
_SLACK = 0.99


def from_dask(X, y, sample_weight=None, client=None) -> DataSource:
    """Read rows of Dask collections where their partitions are.

    With a cluster, the partitions are computed once and stay in the memory of the
    workers until the end of the fit; what travels are coefficients, sums and a sample
    of the rows. Without a cluster every read computes the partitions anew with Dask's
    scheduler of this process, a few at a time.

    Parameters
    ----------
    X : dask Array or DataFrame of shape (n_rows, n_features)
        Blocks may be CSR matrices; their lengths need not be known.
    y : dask Array or Series of shape (n_rows,) or (n_rows, n_targets)
        In the same partitions as ``X``, or an array whose lengths are known.
    sample_weight : dask Array or Series of shape (n_rows,), optional
    client : distributed.Client, optional
        Default the one that Dask would use.

    Returns
    -------
    source : DataSource
        To be given to ``fit``. Estimators make one themselves when they are given
        Dask collections.
    """
    import_optional("dask.delayed", extra="dask", needed_by="from_dask")
    if not is_dask(X):
        raise TypeError(
            f"X must be a Dask array or DataFrame, got {type(X).__name__}. Give arrays "
            "in memory to fit as they are."
        )
    client = _default_client() if client is None else client
    parts = bind_parts(X, y, sample_weight)
    executor: LocalExecutor | ClusterExecutor
    if client is None:
        executor = LocalExecutor(parts)
    else:
        collections = tuple(c for c in (X, y, sample_weight) if is_dask(c))
        executor = ClusterExecutor(parts, client, collections)
    return DataSource(DaskReader(executor, len(parts)))


def _default_client():
    """Return the client that Dask would use for a computation, or None."""
    base = import_optional("dask.base", extra="dask", needed_by="from_dask")
    client = getattr(base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "who_has") else None


class DaskReader:
    """Reader of the parts of a Dask collection.

    Parameters
    ----------
    executor : LocalExecutor or ClusterExecutor
    n_parts : int
    """

    def __init__(self, executor, n_parts: int):
        self._executor = executor
        self._n_parts = n_parts
        self._facts: dict[int, PartFacts] | None = None
        self._knows_all = False
        self._starts = np.zeros(1, dtype=np.int64)
        self._n_open = 0
        self.watch = Watch()
        self.description = f"{n_parts} partitions of a Dask collection"

    def open(self, expected_reads: int):
        """Count the contexts that read; whatever the reads, partitions stay."""
        self._n_open += 1

    def close(self):
        """Let the cluster forget its copies, at the last of nested calls."""
        self._n_open -= 1
        if self._n_open == 0:
            self._executor.release()

    # ---- layout ------------------------------------------------------------------

    def _described(self) -> dict[int, PartFacts]:
        """Facts about parts that have rows: all, or the first that was found."""
        if self._facts is None:
            facts = self._executor.describe()
            filled = {k: facts[k] for k in sorted(facts) if facts[k].n_rows}
            if not filled:
                raise ValueError(f"{self.description}: there are no rows.")
            first = next(iter(filled.values()))
            for number, part in filled.items():
                with located(f"Partition {number}"):
                    first.layout.check_same(part.layout)
            self._facts = filled
            self._knows_all = len(facts) == self._n_parts
        return self._facts

    def layout(self) -> Layout:
        """Layout of the first part that has rows."""
        return next(iter(self._described().values())).layout

    def chunk_rows(self) -> int:
        """Most rows of a chunk, a power of two."""
        first = next(iter(self._described().values()))
        return chunk_rows_for(
            first.n_entries / first.n_rows, is_sparse=first.layout.is_sparse
        )

    def depth(self, n_rows: int) -> int:
        """Most additions, one after the other, of a term of a sum over all rows."""
        chunk_rows = self.chunk_rows()
        longest = int(np.diff(self._starts).max())
        n_chunks = -(-longest // chunk_rows)
        return min(chunk_rows, longest) + n_chunks + self._n_parts.bit_length()

    # ---- reads -------------------------------------------------------------------

    def fold(self, task, labels=None):
        """Total of a task over all rows, in one read."""
        self.watch.begin(int(self._starts[-1]))
        total = self._executor.fold(task, self.layout(), self.chunk_rows(), labels)
        self._tell_end()
        return total

    def _tell_end(self):
        # What happens meanwhile is shown by Dask itself.
        self.watch.advance(int(self._starts[-1]))
        self.watch.end()

    def survey(self, task, capacity):
        """Total of a task, and a pool of rows, in one read."""
        facts, threshold = self._described(), 0.0
        if self._knows_all:
            n_rows = sum(part.n_rows for part in facts.values())
            weight = sum(part.total_weight for part in facts.values())
            threshold = _SLACK * lower_bound(n_rows, weight, capacity)
        pool = Pool(capacity, threshold, holds_rows=not self._executor.keeps_parts)
        self.watch.begin(None)
        total, pool, lengths = self._executor.survey(
            task, pool, self.layout(), self.chunk_rows()
        )
        if total is None:
            return None, None
        starts = starts_of(lengths)
        self._executor.number_rows(
            [range(*map(int, pair)) for pair in pairwise(starts)]
        )
        self._starts = starts
        self._tell_end()
        pooled = pool.finish(total.n_rows, total.total_weight)
        if pooled is not None:
            pooled = pooled._replace(indices=to_numbers(pooled.indices, starts))
        return total, pooled

    def take(self, indices: np.ndarray) -> Iterator[Chunk]:
        """Yield the rows with these ascending numbers."""
        edges = np.searchsorted(indices, self._starts)
        wanted = {
            part: indices[edges[part] : edges[part + 1]] - self._starts[part]
            for part in np.flatnonzero(np.diff(edges)).tolist()
        }
        blocks = (block for _, block in self._executor.take(wanted))
        yield from cut_chunks(blocks, TAKEN_ROWS)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in order, in the memory of this process."""
        chunk_rows, start = self.chunk_rows(), 0
        for block in self._executor.parts():
            yield from cut_chunks([block], chunk_rows, start)
            start += block.n_rows
