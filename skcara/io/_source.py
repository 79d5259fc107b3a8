"""Sources whose rows are not in the memory of this process.

Three layers. A *reader* knows where the rows are and how to get them: it folds a task
over all of them in a fixed order, and takes rows by number. :class:`DataSource` is what
users hold: a reader and what its survey found. :class:`PartsSource` is what solvers
see: the same rows with targets and weights prepared for one problem.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from skcara.data import (
    Chunk,
    Facts,
    TargetMoments,
    Task,
    weighted_centre,
    weighted_square,
)
from skcara.io._blocks import Block, Layout, as_chunk, join_blocks, pick_rows
from skcara.io._labels import LabelCodes
from skcara.io._pool import PooledRows, pool_rows
from skcara.io._preparation import Preparation, TaskGroup
from skcara.io._survey import Survey, TakeSurvey
from skcara.io._watch import Watch

#: Rows that are taken by number are handed out in chunks of this many: few calls for
#: many rows, and small enough that whoever copies them finds them in the cache.
TAKEN_ROWS = 1024
# Rows from which the scale of the columns is guessed, as in memory.
_GLANCED_ROWS = 4096


class Reader(Protocol):
    """Where the rows are, and how they get here or the tasks get there."""

    #: For messages, as in "3 partitions of a Dask array".
    description: str
    #: Is told about reads.
    watch: Watch

    def open(self, expected_reads: int):
        """Get ready for about so many reads; calls nest."""

    def close(self):
        """Drop what was held for further reads."""

    def layout(self) -> Layout:
        """What all blocks have in common; reads no more than the first."""

    def chunk_rows(self) -> int:
        """Most rows of a chunk, a power of two."""

    def depth(self, n_rows: int) -> int:
        """Most additions, one after the other, of a term of a sum over all rows."""

    def fold(self, task: Task, labels=None):
        """Total of a task over all rows, in one read; None if there are none.

        ``labels`` of rows, if any, become the atoms of chunks.
        """

    def survey(self, task: Task, capacity: int) -> tuple[Survey, PooledRows | None]:
        """Total of the first task, and a pool of rows, in one read."""

    def take(self, indices: np.ndarray) -> Iterator[Chunk]:
        """Yield the rows with these ascending numbers."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in order, in the memory of this process."""


class DataSource:
    """Rows, targets and weights that can be read again and again.

    Made by :func:`skcara.io.from_parquet`, :func:`skcara.io.from_chunks` and
    :func:`skcara.io.from_dask`, and given to ``fit`` in the place of ``X`` and ``y``.
    As a context manager it keeps between fits what it has stored for faster reads.
    """

    def __init__(self, reader: Reader):
        self._reader = reader
        self._surveys: dict[bool, tuple[Survey, PooledRows]] = {}

    def __repr__(self):
        return f"<skcara source: {self._reader.description}>"

    def __enter__(self) -> Self:
        self._reader.open(1)
        return self

    def __exit__(self, *exception) -> None:
        self._reader.close()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self._reader.layout().n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, if they have any."""
        return self._reader.layout().names

    @property
    def target_shape(self) -> tuple[int, ...]:
        """Shape of the target of a row: empty for a single number."""
        n_targets = self._reader.layout().n_targets
        return () if n_targets is None else (n_targets,)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in order, a chunk at a time."""
        return self._reader.chunks()

    @contextmanager
    def reading(
        self, expected_reads: int, watch: Watch | None = None
    ) -> Iterator[None]:
        """Context in which the rows will be read about so many times.

        Parameters
        ----------
        expected_reads : int
        watch : Watch, optional
            Is told about the reads.
        """
        self._reader.open(expected_reads)
        before = self._reader.watch
        try:
            with watch or before as self._reader.watch:
                yield
        finally:
            self._reader.watch = before
            self._reader.close()

    # ---- problems ----------------------------------------------------------------

    def for_regression(self) -> "PartsSource":
        """Return the rows with their targets as real numbers."""
        survey, pool = self._survey(has_labels=False)
        target = np.asarray(survey.reference_target, dtype=np.float64)
        means, deviations = survey.moments
        variances = deviations / survey.total_weight
        moments = [
            TargetMoments(float(mean), float(variance), float(mean**2 + variance))
            for mean, variance in zip(means, variances, strict=True)
        ]
        preparation = Preparation(None, survey.reference_row, target)
        facts = self._facts(survey, pool, preparation)
        facts = replace(facts, target_moments=tuple(moments))
        return PartsSource(self._reader, facts, preparation, pool)

    def for_classification(self, class_weight=None) -> "tuple[np.ndarray, PartsSource]":
        """Return the classes, and the rows with the numbers of their classes.

        Parameters
        ----------
        class_weight : dict, "balanced" or None
            As in scikit-learn.

        Returns
        -------
        classes : ndarray of shape (n_classes,)
        source : PartsSource
        """
        survey, pool = self._survey(has_labels=True)
        classes, masses = survey.labels.labels, survey.labels.masses
        factors = _class_factors(class_weight, classes, masses)
        codes = LabelCodes(classes, factors)
        (code,), _ = codes.encode(np.array([survey.reference_target]), None)
        preparation = Preparation(codes, survey.reference_row, np.asarray(code))
        facts = self._facts(survey, pool, preparation)
        if factors is not None:
            total = _positive(factors @ masses)
            facts = replace(facts, total_weight=total, has_weights=True)
        return classes, PartsSource(self._reader, facts, preparation, pool)

    def _survey(self, *, has_labels):
        if has_labels not in self._surveys:
            layout = self._reader.layout()
            task = TakeSurvey(has_labels, layout.names)
            survey, pool = self._reader.survey(task, pool_rows(_row_bytes(layout)))
            if survey is None:
                raise ValueError(f"{self._reader.description}: there are no rows.")
            _positive(survey.total_weight)
            assert pool is not None, "some row has a weight"
            self._surveys[has_labels] = survey, pool
        return self._surveys[has_labels]

    def _facts(self, survey: Survey, pool, preparation) -> Facts:
        layout = self._reader.layout()
        seen = glanced_rows(self._reader, pool, preparation)
        assert seen.weights is not None, "they stand for rows that were not seen"
        shares = seen.weights / seen.weights.sum()
        row = weighted_centre(seen.rows, shares)
        return Facts(
            n_rows=survey.n_rows,
            n_features=layout.n_features,
            n_entries=survey.n_entries,
            is_sparse=layout.is_sparse,
            chunk_rows=self._reader.chunk_rows(),
            depth=self._reader.depth(survey.n_rows),
            has_weights=layout.has_weights,
            total_weight=survey.total_weight,
            reference_row=row,
            reference_square=weighted_square(seen.rows, shares, row),
            reference_target=weighted_centre(seen.target, shares),
            n_drawable=len(pool.indices),
        )


class PartsSource:
    """Rows for one problem, as solvers see them.

    Parameters
    ----------
    reader : Reader
    facts : Facts
    preparation : Preparation
    pool : PooledRows
        Random rows; what is drawn comes from them and costs no read.
    labels : labels, optional
        Atoms of the rows by their numbers, see :mod:`skcara.data`.
    """

    #: Parallelism is the business of the reader.
    n_jobs = None

    def __init__(self, reader, facts, preparation, pool, labels=None):
        self._reader = reader
        self._preparation = preparation
        self._pool = pool
        self._labels = labels
        self.facts = facts

    def with_atoms(self, labels) -> "PartsSource":
        """Return the same rows, with atoms that follow from their numbers."""
        return PartsSource(
            self._reader, self.facts, self._preparation, self._pool, labels
        )

    def with_idle_rows(self) -> "PartsSource":
        """Return the same rows, those of weight zero as they are.

        Solvers must not see them, splitters do.
        """
        preparation = replace(self._preparation, shows_idle=True)
        return PartsSource(
            self._reader, self.facts, preparation, self._pool, self._labels
        )

    @property
    def class_factors(self) -> np.ndarray | None:
        """Weights of the classes, if they have any."""
        codes = self._preparation.codes
        return None if codes is None else codes.factors

    def run(self, tasks: Sequence[Task]) -> list:
        """Return the results of all tasks from one read."""
        group = TaskGroup(tuple(tasks), self._preparation)
        return group.finish(self._reader.fold(group, self._labels))

    def take(self, indices: np.ndarray) -> Iterator[Chunk]:
        """Yield the rows with these ascending numbers, in parts."""
        indices = np.asarray(indices)
        places = np.searchsorted(self._pool.indices, indices)
        places[places == len(self._pool.indices)] = 0
        if np.array_equal(self._pool.indices[places], indices):
            chunks = _pooled(self._reader, self._pool, places)
        else:
            chunks = self._reader.take(indices)
        yield from map(self._preparation.apply, chunks)

    def glance(self) -> Chunk:
        """Return some thousand rows of the pool."""
        return glanced_rows(self._reader, self._pool, self._preparation)

    def columns(self, features) -> "PartsSource":
        """Return a source with some of the columns."""
        facts = replace(
            self.facts,
            n_features=len(features),
            reference_row=self.facts.reference_row[features],
            reference_square=self.facts.reference_square[features],
        )
        if not facts.is_sparse:
            facts = replace(facts, n_entries=facts.n_rows * len(features))
        preparation = self._preparation.restricted(features)
        return PartsSource(self._reader, facts, preparation, self._pool, self._labels)

    def draw(self, n_draws: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """Draw about ``n_draws`` rows of the pool, in proportion to their weights.

        The cumulative weight of the pool is cut into equal parts and a point drawn in
        each, so that sorted data are represented evenly.
        """
        weights = self._preparation.weigh(self._pool.target, self._pool.weights)
        if n_draws >= len(weights):
            drawn = np.flatnonzero(weights)
            return self._pool.indices[drawn], weights[drawn] / weights.sum()
        cumulative = np.cumsum(weights)
        points = (np.arange(n_draws) + rng.uniform(size=n_draws)) / n_draws
        rows = np.searchsorted(cumulative, points * cumulative[-1], side="right")
        counts = np.bincount(np.minimum(rows, len(weights) - 1), minlength=len(weights))
        drawn = np.flatnonzero(counts)
        return self._pool.indices[drawn], counts[drawn] / n_draws


def glanced_rows(reader: Reader, pool: PooledRows, preparation: Preparation) -> Chunk:
    """Rows spread over a pool in double precision, with weights they stand for."""
    weights = preparation.weigh(pool.target, pool.weights)
    counted = np.flatnonzero(weights)
    chosen = counted[:: -(-len(counted) // _GLANCED_ROWS)]
    chunks = _pooled(reader, pool, chosen)
    block = join_blocks([Block(c.rows, c.target, c.weights) for c in chunks])
    chunk = preparation.apply(as_chunk(block, 0))
    return chunk._replace(rows=chunk.rows.astype(np.float64), weights=weights[chosen])


def _pooled(reader, pool, places) -> Iterator[Chunk]:
    """Rows at some places of a pool; it may have left them where they are."""
    if pool.block is None:
        yield from reader.take(pool.indices[places])
        return
    for start in range(0, len(places), TAKEN_ROWS):
        part = places[start : start + TAKEN_ROWS]
        yield as_chunk(pick_rows(pool.block, part), start)


def _row_bytes(layout: Layout) -> int:
    """Memory of a row with its target, weight and number; sparse ones as if dense."""
    return layout.dtype.itemsize * layout.n_features + 8 * (layout.n_targets or 1) + 16


def _class_factors(class_weight, classes, masses):
    if len(classes) < 2:
        raise ValueError(
            "The target must have at least 2 classes, but it contains only one: "
            f"{classes.tolist()[0]!r}."
        )
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        return compute_class_weight(class_weight, classes=classes, y=classes)
    # A class whose rows all have weight zero keeps weight zero.
    factors = np.zeros(len(classes))
    np.divide(masses.sum(), len(classes) * masses, where=masses > 0, out=factors)
    return factors


def _positive(total_weight):
    if not total_weight > 0:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if not np.isfinite(total_weight):
        raise ValueError("The sum of sample_weight overflows; divide it by its mean.")
    return float(total_weight)
