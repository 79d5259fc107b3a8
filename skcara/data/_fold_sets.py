"""Training and test sets of a cross-validation, as a read of the rows sees them.

A row enters the sums of a fold as often as it is in its training or test set. All rows
of an atom do so equally often: where an atom has many rows in a chunk, these are
handled together and need no weights of their own.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skcara.data._atoms import FoldBatch
from skcara.data._chunk import Chunk
from skcara.data._rows import row_range, rows_at

# Rows of a chunk are sorted by atom if there are this many for each.
_MIN_ATOM_ROWS = 64


class Piece(NamedTuple):
    """Some rows of a chunk, and how often they are in the sets of each fold.

    Attributes
    ----------
    chunk : Chunk
    train, test : ndarray of int of shape (n_folds, 1) or (n_folds, n_rows)
    """

    chunk: Chunk
    train: np.ndarray
    test: np.ndarray


class FoldSets:
    """The sets of all folds, in one or several batches.

    It knows atoms and not rows, so that it is small: it travels with tasks.

    Parameters
    ----------
    batches : list of FoldBatch

    Attributes
    ----------
    n_folds : int
    n_atoms : tuple of int
        Number of atoms in each batch.
    """

    def __init__(self, batches: list[FoldBatch]):
        self._batches = [batch.sets for batch in batches]
        self._is_single = len(batches) == 1
        self.n_folds = sum(len(batch.train) for batch in batches)
        self.n_atoms = tuple(batch.n_atoms for batch in batches)

    @property
    def atoms(self) -> FoldBatch | None:
        """The only batch, if its folds consist of few atoms."""
        batch = self._batches[0]
        is_few = self._is_single and batch.n_atoms <= 2 * self.n_folds
        return batch if is_few else None

    def counts(self, atom):
        """How often rows are in the training and test sets, from their labels.

        Returns
        -------
        train, test : ndarray of int of shape (n_folds, n_rows)
        """
        if self._is_single:
            [batch] = self._batches
            return batch.train[:, atom], batch.test[:, atom]
        own = list(zip(self._batches, atom.T, strict=True))
        return (
            np.vstack([batch.train[:, labels] for batch, labels in own]),
            np.vstack([batch.test[:, labels] for batch, labels in own]),
        )

    def with_all_rows(self) -> "FoldSets":
        """The same folds, and one more that trains on all rows and tests on none."""
        *others, last = self._batches
        row = np.ones((1, last.n_atoms), dtype=int)
        more = FoldBatch(
            None, np.vstack([last.train, row]), np.vstack([last.test, 0 * row])
        )
        return FoldSets([*others, more])

    def totals(self, masses: list[np.ndarray]):
        """Weight of the training and test set of each fold.

        Parameters
        ----------
        masses : list of ndarray of shape (n_atoms,)
            Weights of the atoms of each batch.

        Returns
        -------
        train, test : ndarray of shape (n_folds,)
        """
        own = list(zip(self._batches, masses, strict=True))
        return (
            np.concatenate([batch.train @ mass for batch, mass in own]),
            np.concatenate([batch.test @ mass for batch, mass in own]),
        )

    def pieces(self, chunk: Chunk, n_rows: int) -> Iterator[Piece]:
        """Cut a chunk into pieces of at most so many rows, of one atom if possible."""
        assert chunk.atom is not None, "rows of a search have labels"
        if self._is_single:
            [batch] = self._batches
            present = np.flatnonzero(np.bincount(chunk.atom))
            if len(present) * _MIN_ATOM_ROWS <= chunk.n_rows:
                for atom in present:
                    own = chunk if len(present) == 1 else _rows_of_atom(chunk, atom)
                    sets = batch.train[:, atom, None], batch.test[:, atom, None]
                    for part in _cut(own, n_rows):
                        yield Piece(part, *sets)
                return
        for part in _cut(chunk, n_rows):
            yield Piece(part, *self.counts(part.atom))


def _rows_of_atom(chunk, atom):
    chosen = np.flatnonzero(chunk.atom == atom)
    return chunk._replace(
        rows=rows_at(chunk.rows, chosen),
        target=chunk.target[chosen],
        weights=None if chunk.weights is None else chunk.weights[chosen],
        atom=chunk.atom[chosen],
    )


def _cut(chunk, n_rows):
    """Parts of at most so many consecutive rows."""
    if chunk.n_rows <= n_rows:
        yield chunk
        return
    for start in range(0, chunk.n_rows, n_rows):
        part = slice(start, min(start + n_rows, chunk.n_rows))
        yield chunk._replace(
            rows=row_range(chunk.rows, part.start, part.stop),
            target=chunk.target[part],
            weights=None if chunk.weights is None else chunk.weights[part],
            atom=chunk.atom[part],
        )
