"""Requests for single rows, by number or at random, and for single columns."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from skcara.data import Coordinates, csr_view, predictions
from skcara.objective import Problem

# Rows that are drawn may have more entries than rows have on average.
_ENTRIES_RESERVE = 1.05


class TakenRows(NamedTuple):
    """Copies of some rows, in the coordinates of the solver.

    Attributes
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    target : ndarray of shape (n_rows,)
    shares : ndarray of shape (n_rows,)
        Weights ``mu``.
    """

    rows: Any
    target: np.ndarray
    shares: np.ndarray

    def counted(self) -> "TakenRows":
        """Those that have a weight: nobody knows what stands in the others."""
        if self.shares.all():
            return self
        is_counted = self.shares > 0
        return TakenRows(*(values[is_counted] for values in self))


@dataclass(frozen=True, eq=False)
class Take:
    """Copy rows by number; the answer is a :class:`TakenRows`.

    Attributes
    ----------
    problem : Problem
    indices : ndarray of int, ascending
    keep_sparse : bool
        Return CSR for sparse data instead of a dense array.
    order : {"C", "F"}
        Memory order of a dense array.
    features : ndarray of int, optional
        Columns, ascending, those that the coordinates of the problem are for.
    """

    problem: Problem
    indices: np.ndarray
    keep_sparse: bool = True
    order: Literal["C", "F"] = "C"
    features: np.ndarray | None = None

    cost = 0.0

    def fetch(self, source):
        """Copy part by part, so that nothing is in memory twice."""
        problem, n_rows = self.problem, len(self.indices)
        target, shares = [], []
        rows: _SparseRows | _DenseRows
        if self.keep_sparse and problem.facts.is_sparse:
            rows = _SparseRows(n_rows, problem)
        else:
            rows = _DenseRows(n_rows, problem, self.order)
        for chunk in source.take(self.indices):
            if self.features is not None:
                chunk = chunk._replace(rows=self._columns_of(chunk.rows))
            rows.append(problem.coordinates, chunk)
            target.append(problem.target_of(chunk))
            shares.append(problem.shares_of(chunk))
        return TakenRows(rows.joined(), np.concatenate(target), np.concatenate(shares))

    def _columns_of(self, rows):
        if sparse.issparse(rows):
            return rows[:, self.features]
        # Faster than an index.
        return rows.take(self.features, axis=1)


class _DenseRows:
    """A dense array that is filled part by part."""

    def __init__(self, n_rows, problem, order):
        self._rows = np.empty((n_rows, problem.n_params), order=order)
        self._is_scaled = bool((problem.coordinates.scale != 1).any())

    def append(self, coordinates: Coordinates, chunk):
        rows = chunk.rows.toarray() if sparse.issparse(chunk.rows) else chunk.rows
        part = self._rows[chunk.start : chunk.start + len(rows)]
        part[:, coordinates.n_features :] = 1.0
        standardised = part[:, : coordinates.n_features]
        np.subtract(rows, coordinates.shift, out=standardised)
        if self._is_scaled:
            standardised /= coordinates.scale

    def joined(self):
        return self._rows


class _SparseRows:
    """CSR arrays that are filled part by part: stacking would hold them all twice."""

    def __init__(self, n_rows, problem):
        facts, n_params = problem.facts, problem.n_params
        row_entries = facts.n_entries / facts.n_rows + problem.coordinates.fit_intercept
        n_entries = int(_ENTRIES_RESERVE * n_rows * row_entries)
        self._data = np.empty(n_entries)
        self._columns = np.empty(n_entries, dtype=np.int32)
        self._ends, self._n_rows = np.zeros(n_rows + 1, dtype=np.int64), 0
        self._n_params = n_params

    def append(self, coordinates: Coordinates, chunk):
        rows = coordinates.design_rows(chunk.rows)
        first, last = self._n_rows, self._n_rows + rows.shape[0]
        begin, end = self._ends[first], self._ends[first] + rows.nnz
        if end > len(self._data):
            missing = np.zeros(end - len(self._data))
            self._data = np.concatenate([self._data, missing])
            self._columns = np.concatenate([self._columns, missing.astype(np.int32)])
        self._data[begin:end], self._columns[begin:end] = rows.data, rows.indices
        self._ends[first + 1 : last + 1] = begin + rows.indptr[1:]
        self._n_rows = last

    def joined(self):
        used = slice(0, self._ends[-1])
        index_type = np.int32 if used.stop <= np.iinfo(np.int32).max else np.int64
        return csr_view(
            self._data[used],
            self._columns[used].astype(index_type, copy=False),
            self._ends.astype(index_type, copy=False),
            self._n_params,
        )


class BlockRows(NamedTuple):
    """Rows as the coordinates of a block see them.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    target : ndarray of shape (n_rows,)
    prediction : ndarray of shape (n_rows, n_outputs)
    shares : ndarray of shape (n_rows,)
        Weights ``mu``.
    """

    rows: np.ndarray
    target: np.ndarray
    prediction: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True, eq=False)
class TakeBlock:
    """Some columns of rows taken by number, and predictions of these rows.

    The answer is a :class:`BlockRows`. Requests of the blocks of a round are answered
    together: rows that are not in memory are looked for once.

    Attributes
    ----------
    problem : Problem
    indices : ndarray of int, ascending
    columns : ndarray of int
        Ascending; ``n_features`` is the intercept.
    params : ndarray of shape (n_params, n_outputs)
        Where the predictions are made.
    """

    problem: Problem
    indices: np.ndarray
    columns: np.ndarray
    params: np.ndarray

    cost = 0.0

    @property
    def stack_key(self):
        """What requests must share to be answered together."""
        return TakeBlock, id(self.problem), id(self.params)

    @staticmethod
    def stacked(requests):
        """One request for several of the same key."""
        return _TakeBlocks(tuple(requests))


@dataclass(frozen=True, eq=False)
class _TakeBlocks:
    requests: tuple[TakeBlock, ...]

    def fetch(self, source):
        """Copy the columns of all blocks, part by part."""
        first, *others = self.requests
        coordinates, indices = first.problem.coordinates, first.indices
        coef, intercept = coordinates.effective_params(first.params)
        if others:
            indices = np.unique(np.concatenate([one.indices for one in self.requests]))
        answers = [_PartialBlock(request) for request in self.requests]
        for chunk in source.take(indices):
            rows = coordinates.rows(chunk.rows)
            numbers = indices[chunk.start : chunk.start + rows.shape[0]]
            prediction = predictions(rows, coef) + intercept
            for answer in answers:
                answer.append(numbers, chunk, prediction)
        return [answer.joined() for answer in answers]


class _PartialBlock:
    """The answer to one request, filled part by part."""

    def __init__(self, request: TakeBlock):
        self._request = request
        columns, n_features = request.columns, request.problem.n_features
        self._features = columns[columns < n_features]
        self._rows = np.ones((len(request.indices), columns.size))
        self._columns: list[tuple] = []
        self._n_rows = 0

    def append(self, numbers, chunk, prediction):
        """Add the rows of a chunk, whose numbers ascend, that are asked for."""
        request, problem = self._request, self._request.problem
        last = np.searchsorted(request.indices, numbers[-1], side="right")
        wanted = request.indices[self._n_rows : last]
        chosen = np.searchsorted(numbers, wanted)
        own = chunk.rows[chosen][:, self._features]
        own = own.toarray() if sparse.issparse(own) else own
        part = self._rows[self._n_rows : last, : self._features.size]
        coordinates = problem.coordinates
        np.subtract(own, coordinates.shift[self._features], out=part)
        part /= coordinates.scale[self._features]
        self._n_rows = last
        target, shares = problem.target_of(chunk), problem.shares_of(chunk)
        self._columns.append((target[chosen], prediction[chosen], shares[chosen]))

    def joined(self) -> BlockRows:
        """Return the answer."""
        columns = map(np.concatenate, zip(*self._columns, strict=True))
        return BlockRows(self._rows, *columns)


@dataclass(frozen=True, eq=False)
class Draw:
    """Draw rows that represent all rows; the answer is a pair (indices, weights).

    Attributes
    ----------
    n_draws : int
    rng : numpy.random.RandomState
    """

    n_draws: int
    rng: np.random.RandomState

    cost = 0.0

    def fetch(self, source):
        """Leave it to the source."""
        return source.draw(self.n_draws, self.rng)


@dataclass(frozen=True, eq=False)
class Glance:
    """A :class:`~skcara.data.Chunk` of some thousand rows, as they are."""

    cost = 0.0

    def fetch(self, source):
        """Leave it to the source."""
        return source.glance()


@dataclass(frozen=True, eq=False)
class Columns:
    """A source with some of the columns, as a copy."""

    features: np.ndarray

    cost = 0.0

    def fetch(self, source):
        """Leave it to the source."""
        return source.columns(self.features)
