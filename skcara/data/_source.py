"""What can be read: rows in chunks, in an order of additions that never changes.

A *pass* is a map over chunks of rows and an ordered sum of the results. One call of
:meth:`Source.run` is one read of the data, whatever the number of tasks. A source knows
in which format and precision its rows are stored and who reads them; nothing above it
does. Here is the source for arrays, CSR matrices and memory maps. Nothing copies ``X``:
a chunk is a view that stays in the cache for all the products of the pass, which makes
a chunked pass cheaper than two plain products with the whole matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import numpy as np
from scipy import sparse

from skcara.data._chunk import Chunk, Task
from skcara.data._products import stays_in_cache
from skcara.data._reference import weighted_centre, weighted_square
from skcara.data._rows import row_range, with_entries
from skcara.data._sampling import PriorityRows, stratified_rows
from skcara.data._threads import Threads

# Chunks of about 4 MB, of half of that where they are no views of rows in memory: the
# second product of a pass finds them in the cache, and the cost of a Python call is
# small against the work on them.
_CHUNK_ENTRIES, _COPIED_CHUNK_ENTRIES = 2**19, 2**18
_MIN_CHUNK_ROWS, _MAX_CHUNK_ROWS = 1024, 2**14
# Slicing a sparse matrix costs more than a view, so its chunks have more rows.
_MAX_SPARSE_CHUNK_ROWS = 2**15
# A span is what one thread reads at a time: long enough that handing it over costs
# nothing, and so short that a trial of threads, and the last one to finish, cost
# little. Its size does not depend on the number of threads, hence neither does the
# order of the additions.
SPAN_CHUNKS = 4
_WIDEST_BYTES = 8  # Extended precision is read as double precision.
# Rows from which coordinates of the columns are estimated.
_GLANCE_ROWS = 4096
# Entries of the parts in which rows are taken by number: small enough to be still in
# the cache when they are put where they belong, and to need no memory that is new.
_TAKEN_ENTRIES = 2**16


def chunk_rows_for(
    entries_per_row: float, *, is_sparse: bool, in_memory: bool = True
) -> int:
    """Rows of a chunk, a power of two.

    Parameters
    ----------
    entries_per_row : float
    is_sparse : bool
    in_memory : bool
        Whether chunks of dense rows are views, and not what a read makes.
    """
    most = _MAX_SPARSE_CHUNK_ROWS if is_sparse else _MAX_CHUNK_ROWS
    is_view = in_memory and not is_sparse
    n_entries = _CHUNK_ENTRIES if is_view else _COPIED_CHUNK_ENTRIES
    rows = int(n_entries / max(entries_per_row, 1.0))
    rows = min(max(rows, _MIN_CHUNK_ROWS), most)
    return 1 << (rows.bit_length() - 1)


@dataclass(frozen=True)
class TargetMoments:
    """Weighted mean, variance and mean square of a target."""

    mean: float
    variance: float
    mean_square: float

    @classmethod
    def from_means(cls, origin: float, offset: float, square: float) -> "TargetMoments":
        """Build from the means of deviations from an origin and of their squares."""
        # Products become infinite where powers of Python raise.
        variance, mean = max(square - offset * offset, 0.0), origin + offset
        return cls(mean, variance, variance + mean * mean)


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a source before the first pass.

    Attributes
    ----------
    n_rows, n_features, n_entries : int
        Shape, and stored entries of all rows.
    is_sparse : bool
    chunk_rows : int
        Most rows of a chunk, a power of two.
    depth : int
        Most additions, one after the other, that a term of a sum over all rows goes
        through.
    has_weights : bool
        Whether rows differ in their weights.
    total_weight : float
        Sum of the sample weights.
    reference_row : ndarray of shape (n_features,)
        Mean of some rows: a point near the mean of all rows, around which sums do not
        cancel. Zero in a column of sparse rows unless all of them have an entry there.
    reference_square : ndarray of shape (n_features,)
        Mean square of their deviations from it, or of sparse rows themselves; zero
        where it is nothing but rounding.
    reference_target : ndarray of shape () or (n_targets,)
        Mean of the targets of the same rows; of no use for class codes.
    target_moments : tuple of TargetMoments
        One for each target; empty if the targets are class codes.
    n_drawable : int or None
        Most rows that can be drawn; None for all of them.
    """

    n_rows: int
    n_features: int
    n_entries: int
    is_sparse: bool
    chunk_rows: int
    depth: int
    has_weights: bool
    total_weight: float
    reference_row: np.ndarray
    reference_square: np.ndarray
    reference_target: np.ndarray
    target_moments: tuple[TargetMoments, ...] = ()
    n_drawable: int | None = None

    @property
    def are_cached(self) -> bool:
        """Whether rows that are read again come from a cache."""
        return stays_in_cache(self.n_entries)


class Source(Protocol):
    """Rows with targets and weights that can be read again and again."""

    @property
    def facts(self) -> Facts:
        """What is known before the first pass."""

    @property
    def n_jobs(self) -> int | None:
        """Threads that work on the rows, as in joblib."""

    def run(self, tasks: Sequence[Task]) -> list:
        """Return the results of all tasks from one read."""

    def take(self, indices: np.ndarray) -> Iterator[Chunk]:
        """Yield the rows with these ascending numbers, in parts."""

    def glance(self) -> Chunk:
        """Return some thousand rows of positive weight, spread over the source.

        In double precision, with the weights that they stand for.
        """

    def draw(self, n_draws: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """Draw about ``n_draws`` rows that represent all rows.

        Returns the ascending numbers of distinct rows, and weights whose expected sum
        over any set of rows is the share of the set in the total weight.
        """


class ArraySource:
    """Rows of an array, a memory map or a CSR matrix.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Read only, never copied.
    target : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Floats, or class codes.
    weights : sliceable of length n_rows, optional
        Sample weights; an array, or what can be sliced, indexed and summed like one.
        Rows of weight zero are never seen by any task.
    atom : ndarray of int of shape (n_rows,), optional
        See :class:`Chunk`.
    n_jobs : int, optional
        Threads of a pass, as in joblib. Results do not depend on it.
    """

    def __init__(self, X, target, weights=None, *, atom=None, n_jobs=None):
        self.is_sparse = sparse.issparse(X)
        self.X = sparse.csr_array(X, copy=False) if self.is_sparse else X
        self.target = target
        self.weights = weights
        self.atom = atom
        self.n_jobs = n_jobs
        self._threads = Threads(n_jobs)
        self.n_rows, self.n_features = X.shape
        self.n_entries = self.X.nnz if self.is_sparse else X.size
        self.chunk_rows = chunk_rows_for(
            self.n_entries / max(self.n_rows, 1), is_sparse=self.is_sparse
        )

    # ---- facts -----------------------------------------------------------------

    @cached_property
    def facts(self) -> Facts:
        """What is known before the first pass; reads targets and weights only."""
        total = self.n_rows if self.weights is None else self.weights.sum()
        seen, target = self.glance(), np.zeros(())
        shares = seen.weights / seen.weights.sum()
        if self._has_numbers:
            target = weighted_centre(seen.target, shares)
        row = weighted_centre(seen.rows, shares)
        return Facts(
            n_rows=self.n_rows,
            n_features=self.n_features,
            n_entries=self.n_entries,
            is_sparse=self.is_sparse,
            chunk_rows=self.chunk_rows,
            depth=self._depth,
            has_weights=self.weights is not None,
            total_weight=float(total),
            reference_row=row,
            reference_square=weighted_square(seen.rows, shares, row),
            reference_target=target,
            target_moments=self._target_moments(float(total), target),
        )

    @property
    def _has_numbers(self):
        """Whether targets are numbers, not class codes."""
        return self.target.dtype.kind == "f"

    @property
    def _depth(self):
        n_spans = -(-self.n_rows // (SPAN_CHUNKS * self.chunk_rows))
        return min(self.chunk_rows, self.n_rows) + SPAN_CHUNKS + n_spans

    @cached_property
    def _first_row(self):
        """Number of the first row of positive weight."""
        if self.weights is None:
            return 0
        for part in self._slices(0, self.n_rows):
            positive = np.flatnonzero(self.weights[part])
            if positive.size:
                return part.start + int(positive[0])
        raise ValueError("All rows have weight zero.")

    def _target_moments(self, total, reference):
        """Moments of the targets, from sums around a reference near their means."""
        if not self._has_numbers:
            return ()
        targets = self.target.reshape(self.n_rows, -1).T
        origins = reference.reshape(-1).tolist()
        sums = [[0.0, 0.0] for _ in origins]
        for part in self._slices(0, self.n_rows):
            weights = None if self.weights is None else self.weights[part]
            for own, target, origin in zip(sums, targets, origins, strict=True):
                first, second = _deviation_sums(target[part] - origin, weights)
                own[0], own[1] = own[0] + first, own[1] + second
        return tuple(
            TargetMoments.from_means(origin, s / total, q / total)
            for origin, (s, q) in zip(origins, sums, strict=True)
        )

    # ---- passes ----------------------------------------------------------------

    def run(self, tasks):
        """Return the results of all tasks from one read."""
        span_rows = SPAN_CHUNKS * self.chunk_rows
        spans = range(0, self.n_rows, span_rows)

        def visit_part(part):
            chunk = self._without_idle_rows(self._chunk(part.start, part))
            return [task.visit(chunk) for task in tasks]

        def merge(left, right):
            return [
                task.merge(total, term)
                for task, total, term in zip(tasks, left, right, strict=True)
            ]

        def visit_span(first):
            parts = self._slices(first, min(first + span_rows, self.n_rows))
            return reduce(merge, map(visit_part, parts))

        kind = tuple(map(type, tasks))
        totals = reduce(merge, self._threads.map(visit_span, spans, kind=kind))
        return [task.finish(total) for task, total in zip(tasks, totals, strict=True)]

    def release(self):
        """End the threads of passes; the next pass starts new ones."""
        self._threads.release()

    def _slices(self, first, last):
        """Consecutive slices of the rows ``first:last``, a chunk each."""
        for start in range(first, last, self.chunk_rows):
            yield slice(start, min(start + self.chunk_rows, last))

    def _chunk(self, start: int, part) -> Chunk:
        """Chunk of a slice of the rows, or of rows by number."""
        is_slice = isinstance(part, slice)
        rows = row_range(self.X, part.start, part.stop) if is_slice else self.X[part]
        return Chunk(
            start,
            _readable(rows),
            self.target[part],
            None if self.weights is None else self.weights[part],
            None if self.atom is None else self.atom[part],
        )

    def _without_idle_rows(self, chunk: Chunk) -> Chunk:
        """Hide what stands in rows of weight zero: it may be a code for missing."""
        if chunk.weights is None or chunk.weights.all():
            return chunk
        is_idle = chunk.weights == 0
        rows, target = chunk.rows, chunk.target.copy()
        if self.is_sparse:
            entries = rows.data.copy()
            entries[np.repeat(is_idle, np.diff(rows.indptr))] = 0
            rows = with_entries(rows, entries)
        else:
            rows = rows.copy()
            rows[is_idle] = self.X[self._first_row]
        target[is_idle] = self.target[self._first_row]
        return chunk._replace(rows=rows, target=target)

    # ---- single rows -----------------------------------------------------------

    def take(self, indices):
        """Yield the rows with these ascending numbers, in parts."""
        step = max(_TAKEN_ENTRIES * self.n_rows // max(self.n_entries, 1), 1)
        for start in range(0, len(indices), step):
            part = indices[start : start + step]
            # Neighbours need no copy.
            if part[-1] - part[0] == len(part) - 1:
                part = slice(part[0], part[-1] + 1)
            yield self._chunk(start, part)

    def glance(self):
        """Return every so-manieth row, with its target and its weight.

        All rows are used when they are few: what is learned from them is then the same
        whether a row is repeated or has a larger weight.
        """
        stride = -(-self.n_rows // _GLANCE_ROWS)
        chosen, weights = slice(None, None, stride), np.ones(-(-self.n_rows // stride))
        if self.weights is not None:
            weights = self.weights[chosen]
            if not weights.any():
                chosen = slice(self._first_row, self._first_row + 1)
                weights = np.ones(1)
            elif not weights.all():
                chosen = np.flatnonzero(weights) * stride
                weights = self.weights[chosen]
        rows = _readable(self.X[chosen]).astype(np.float64, copy=False)
        return Chunk(0, rows, self.target[chosen], weights)

    def draw(self, n_draws, rng):
        """Draw rows in proportion to their weights."""
        if self.weights is None:
            return stratified_rows(n_draws, self.n_rows, rng)
        seed = rng.randint(np.iinfo(np.int32).max)

        def candidates(part):
            weights = self.weights[part] / self.facts.total_weight
            return PriorityRows.of_chunk(
                part.start, weights, weights, n_draws=n_draws, seed=seed
            )

        chosen = reduce(
            lambda left, right: left.merge(right, n_draws),
            map(candidates, self._slices(0, self.n_rows)),
        )
        return chosen.sample(n_draws)

    def columns(self, features) -> "ArraySource":
        """Return a source with copies of some of the columns."""
        return ArraySource(
            self.X[:, features],
            self.target,
            self.weights,
            atom=self.atom,
            n_jobs=self.n_jobs,
        )


def _deviation_sums(deviations, weights):
    """Weighted sums of numbers and of their squares."""
    if weights is None:
        return float(deviations.sum()), float(deviations @ deviations)
    # Rows of weight zero may hold anything.
    deviations = np.where(weights > 0, deviations, 0.0)
    weighted = deviations * weights
    return float(weighted.sum()), float(weighted @ deviations)


def _readable(rows):
    """Rows as products want them, copied only where they are not."""
    if sparse.issparse(rows):
        return rows
    if rows.dtype.itemsize > _WIDEST_BYTES:
        return rows.astype(np.float64)
    # NumPy is slow on unaligned memory, and rounds differently.
    return rows if rows.flags.aligned else rows.copy()
