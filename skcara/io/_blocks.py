"""Blocks of rows as they come from a user: checked once, then trusted.

A *block* is what a chunk iterator yields, a slice of a parquet file or a partition of a
Dask collection; its length is whatever it is. A :class:`~skcara.data.Chunk` is what
tasks see; its length is fixed. :func:`cut_chunks` makes one from the other.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcara.data import Chunk, row_range
from skcara.io._frames import frame_matrix, is_frame, is_table


class Block(NamedTuple):
    """Some consecutive rows with their targets and weights.

    Attributes
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_features)
    target : ndarray of shape (n_rows,) or (n_rows, n_targets)
    weights : ndarray of shape (n_rows,) or None
    names : tuple of str or None
        Names of the columns, if they have any.
    """

    rows: Any
    target: np.ndarray
    weights: np.ndarray | None = None
    names: tuple[str, ...] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]


class Layout(NamedTuple):
    """What all blocks of a source have in common."""

    n_features: int
    dtype: np.dtype
    is_sparse: bool
    n_targets: int | None
    has_weights: bool
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, block: Block) -> "Layout":
        """Layout of a block."""
        return cls(
            n_features=block.rows.shape[1],
            dtype=block.rows.dtype,
            is_sparse=sparse.issparse(block.rows),
            n_targets=block.target.shape[1] if block.target.ndim == 2 else None,
            has_weights=block.weights is not None,
            names=block.names,
        )

    def check(self, block: Block) -> Block:
        """Return ``block`` if it has this layout, else raise an error."""
        self.check_same(Layout.of(block))
        return block

    def check_same(self, other: "Layout"):
        """Raise a ValueError that names what differs."""
        for field, what in (
            ("n_features", "columns"),
            ("names", "column names"),
            ("dtype", "dtype"),
            ("is_sparse", "sparse format"),
            ("n_targets", "number of targets"),
            ("has_weights", "presence of weights"),
        ):
            expected, found = getattr(self, field), getattr(other, field)
            if expected != found:
                raise ValueError(
                    f"All blocks must agree in their {what}: the first has {expected}, "
                    f"this one {found}."
                )


def make_block(X, y, weights=None) -> Block:
    """Check a block of the user's.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Numbers, or labels of any type that can be sorted.
    weights : array-like of shape (n_rows,), optional

    Raises
    ------
    TypeError, ValueError
        Saying what was expected.
    """
    rows, names = _matrix(X)
    target = _column(y, "y")
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, got {target.ndim}.")
    if weights is not None:
        weights = _column(weights, "sample_weight")
        if weights.dtype.kind not in "biuf":
            raise TypeError(f"sample_weight must be numbers, got {weights.dtype}.")
        if weights.ndim == 2 and weights.shape[1] == 1:
            weights = weights[:, 0]
        if weights.ndim != 1:
            raise ValueError("sample_weight must have one number for each row.")
        weights = weights.astype(np.float64, copy=False)
    for name, column in (("y", target), ("sample_weight", weights)):
        if column is not None and len(column) != rows.shape[0]:
            raise ValueError(
                f"X and {name} are split differently: {rows.shape[0]} rows of X, "
                f"{len(column)} of {name}."
            )
    return aligned(Block(rows, target, weights, names))


def _matrix(X):
    """Rows in a numeric type, and the names of the columns."""
    if is_frame(X) or is_table(X):
        return frame_matrix(X)
    if sparse.issparse(X):
        rows = sparse.csr_array(X)
    else:
        rows = np.asarray(X)
        if rows.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {rows.ndim}.")
    if rows.dtype.kind == "b":
        rows = rows.astype(np.uint8)
    if rows.dtype == np.longdouble:
        # Extended precision is read as double precision, as in memory.
        rows = rows.astype(np.float64, copy=False)
    if rows.dtype.kind not in "iuf":
        raise TypeError(
            f"X must consist of real numbers, got dtype {rows.dtype}. Encode labels "
            "and strings as numbers first, for instance one column per category."
        )
    return rows, None


def _column(y, name):
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    column = np.asarray(y)
    if column.ndim == 0:
        raise ValueError(f"{name} must have one entry for each row, got a scalar.")
    return column


def aligned(block: Block) -> Block:
    """Return the block with arrays at addresses that fit their type.

    Arrays that travelled may start anywhere. NumPy is slow on such memory, and rounds
    differently, so the result would depend on who read a partition.
    """

    def fit(array):
        return array if array is None or array.flags.aligned else array.copy()

    rows = block.rows
    if sparse.issparse(rows):
        if not all(a.flags.aligned for a in (rows.data, rows.indices, rows.indptr)):
            rows = rows.copy()
    else:
        rows = fit(rows)
    return block._replace(
        rows=rows, target=fit(block.target), weights=fit(block.weights)
    )


def slice_block(block: Block, start: int, stop: int) -> Block:
    """Rows ``start:stop`` of a block, sharing its memory."""
    return block._replace(
        rows=row_range(block.rows, start, stop),
        target=block.target[start:stop],
        weights=None if block.weights is None else block.weights[start:stop],
    )


def pick_rows(block: Block, rows: np.ndarray) -> Block:
    """Copy the rows of a block with these numbers."""
    return block._replace(
        rows=block.rows[rows],
        target=block.target[rows],
        weights=None if block.weights is None else block.weights[rows],
    )


def join_blocks(blocks: list[Block]) -> Block:
    """Return one block with the rows of all, a copy unless there is only one."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    if sparse.issparse(first.rows):
        rows = sparse.csr_array(
            sparse.vstack(
                [b.rows for b in blocks], format="csr", dtype=first.rows.dtype
            )
        )
    else:
        rows = np.concatenate([block.rows for block in blocks])
    return first._replace(
        rows=rows,
        target=np.concatenate([block.target for block in blocks]),
        weights=None
        if first.weights is None
        else np.concatenate([block.weights for block in blocks]),
    )


def cut_chunks(
    blocks: Iterable[Block], chunk_rows: int, start: int = 0
) -> Iterator[Chunk]:
    """Yield the rows of consecutive blocks as chunks of ``chunk_rows`` rows.

    The chunks, hence the order of all additions, do not depend on how the rows were
    cut into blocks. Only the last chunk may be shorter.

    Parameters
    ----------
    blocks : iterable of Block
    chunk_rows : int
    start : int
        Number of the first row.
    """
    waiting, n_waiting = [], 0
    for block in blocks:
        position = 0
        while position < block.n_rows:
            stop = min(position + chunk_rows - n_waiting, block.n_rows)
            waiting.append(slice_block(block, position, stop))
            n_waiting, position = n_waiting + stop - position, stop
            if n_waiting == chunk_rows:
                yield as_chunk(join_blocks(waiting), start)
                start, waiting, n_waiting = start + chunk_rows, [], 0
    if waiting:
        yield as_chunk(join_blocks(waiting), start)


def as_chunk(block: Block, start: int) -> Chunk:
    """Return the rows of a block, of which the first has the number ``start``."""
    return Chunk(start, block.rows, block.target, block.weights)


def with_atoms(chunk: Chunk, labels, first: int = 0) -> Chunk:
    """Return the chunk with the atoms of its rows.

    Parameters
    ----------
    chunk : Chunk
    labels : labels or None
        None if rows have no atoms.
    first : int
        Number of the row to which the first label belongs.
    """
    if labels is None:
        return chunk
    start = chunk.start - first
    return chunk._replace(atom=labels[start : start + chunk.n_rows])


@contextmanager
def located(where: str):
    """Put the place of the data in front of an error that they cause."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from error
