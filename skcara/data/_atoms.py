"""Rows that belong to the same training and test sets.

The rows with the same membership in all training and test sets of a cross-validation
form an *atom*. Sums over any of these sets are sums of atoms, and so one read that sums
by atom serves every fold: five folds have five atoms, however their rows are scattered.

Overlapping test sets make more atoms, in the worst case as many as rows. The folds are
then cut into *batches* with few atoms each, and every batch labels the rows in its own
way. A read adds each row once per batch; where every fold is a batch of its own that is
one mask per fold.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skcara.data._row_labels import ContiguousLabels, StackedLabels

# Temporary arrays of indices have this many entries.
_CHUNK_ROWS = 2**16
# The second moments of so many rows per column and atom take a twenty-fourth of the
# memory of X, and a read holds them up to three times.
_ROWS_PER_COLUMN = 24
# Enough for two folds that overlap in any way, and for ten that do not; and so many
# that the calls for the few rows that an atom has in a chunk take as long as the
# products do.
_MIN_ATOMS, _MAX_ATOMS = 16, 32


@dataclass(frozen=True)
class FoldBatch:
    """Some consecutive folds, and the atoms their training and test sets consist of.

    Attributes
    ----------
    labels : labels or None
        Atom of each row, in the smallest type that holds them, see
        :mod:`skcara.data._row_labels`; None where only the sets matter.
    train, test : ndarray of int of shape (n_folds, n_atoms)
        How often the rows of an atom are in a training or test set: 0 or 1, more only
        if a splitter repeats rows.
    """

    labels: Any
    train: np.ndarray
    test: np.ndarray

    @classmethod
    def of_partition(cls, labels, n_folds: int) -> "FoldBatch":
        """Folds whose test sets are the atoms, and the training sets all others.

        Parameters
        ----------
        labels : labels
            Fold that each row is tested in.
        n_folds : int
        """
        test = np.eye(n_folds, dtype=int)
        return cls(labels, 1 - test, test)

    @classmethod
    def of_all_rows(cls, n_rows: int) -> "FoldBatch":
        """One fold that trains on all rows and tests on none."""
        counts = np.ones((1, 1), dtype=int)
        return cls(ContiguousLabels([n_rows]), counts, 0 * counts)

    @property
    def sets(self) -> "FoldBatch":
        """The same folds without the labels: what travels to the rows."""
        return FoldBatch(None, self.train, self.test)

    @property
    def n_atoms(self) -> int:
        """Number of atoms; each has at least one row."""
        return self.train.shape[1]


def row_labels(batches: list[FoldBatch]):
    """Labels of the rows in all batches: a number for each row, or one for each batch.

    See :class:`~skcara.data.Chunk`.
    """
    labels = [batch.labels for batch in batches]
    return labels[0] if len(labels) == 1 else StackedLabels(labels)


def atom_counts(batches: list[FoldBatch], n_rows: int) -> list[np.ndarray]:
    """Number of rows of each atom, of shape (n_atoms,) for each batch."""
    counts = [np.zeros(batch.n_atoms) for batch in batches]
    for rows in _chunks(n_rows):
        for batch, total in zip(batches, counts, strict=True):
            total += np.bincount(batch.labels[rows], minlength=batch.n_atoms)
    return counts


def rows_of_test_set(batches: list[FoldBatch], fold: int, n_rows: int) -> np.ndarray:
    """Numbers of the test rows of a fold, ascending, repeated as in the set."""
    for batch in batches:
        if fold < len(batch.test):
            break
        fold -= len(batch.test)
    counts, parts = batch.test[fold], []
    for part in _chunks(n_rows):
        own = counts[batch.labels[part]]
        rows = np.flatnonzero(own)
        parts.append(np.repeat(part.start + rows, own[rows]))
    return np.concatenate(parts)


def most_atoms(n_rows: int, n_features: int) -> int:
    """Number of atoms up to which sharing them among folds pays."""
    n_atoms = n_rows // (_ROWS_PER_COLUMN * max(n_features, 1))
    return min(max(n_atoms, _MIN_ATOMS), _MAX_ATOMS)


def fold_batches(splits: Iterable, n_rows: int, max_atoms: int) -> list[FoldBatch]:
    """Atoms of the training and test sets of a splitter.

    Parameters
    ----------
    splits : iterable of pairs (train, test)
        Arrays of row numbers, or boolean masks. Sets may overlap, repeat rows, and
        leave rows out.
    n_rows : int
    max_atoms : int
        A batch takes the next fold as long as it has no more atoms than this; a single
        fold may have more.

    Returns
    -------
    batches : list of FoldBatch
        With all folds in their order.
    """
    batches, current = [], _no_folds(n_rows)
    for train, test in splits:
        patterns, train_counts, test_counts = _patterns(train, test, n_rows)
        # Not in memory while the splitter makes the next ones.
        del train, test
        fold = patterns, train_counts, test_counts
        joint = _join(current, *fold, max_atoms)
        if joint is None:
            if len(current.train):
                batches.append(current)
            joint = _join(_no_folds(n_rows), *fold, len(train_counts))
        current = joint
    return [*batches, current] if len(current.train) else batches


def _no_folds(n_rows):
    labels = np.zeros(n_rows, dtype=np.uint8)
    return FoldBatch(labels, np.zeros((0, 1), dtype=int), np.zeros((0, 1), dtype=int))


def _patterns(train, test, n_rows):
    """Number the rows by how often they are in the two sets.

    Returns
    -------
    patterns : ndarray of int of shape (n_rows,)
    train_counts, test_counts : ndarray of int of shape (n_patterns,)
        Of patterns that occur or not.
    """
    in_train, in_test = _counts(train, n_rows), _counts(test, n_rows)
    base = int(in_train.max(initial=0)) + 1
    n_patterns = base * (int(in_test.max(initial=0)) + 1)
    # In the array of the test set, if that has room.
    dtype = np.result_type(in_test, in_train, np.min_scalar_type(n_patterns))
    in_test = in_test.astype(dtype, copy=False)
    in_test *= in_test.dtype.type(base)
    in_test += in_train
    codes = np.arange(n_patterns)
    return in_test, codes % base, codes // base


def _counts(indices, n_rows):
    """How often each row is in the set, in a small type."""
    indices = np.asarray(indices)
    if indices.dtype == bool:
        indices = np.flatnonzero(indices)
    elif not indices.size:
        # An empty list has the type of floats.
        indices = indices.astype(np.intp)
    counts = np.zeros(n_rows, dtype=np.uint8)
    counts[indices] = 1
    if np.count_nonzero(counts) < len(indices):
        counts = np.zeros(n_rows, dtype=np.int64)
        np.add.at(counts, indices, 1)
    return counts


def _join(batch, patterns, train_counts, test_counts, max_atoms):
    """Batch with one fold more, or None if that has too many atoms.

    Two rows are in the same atom if they were before and have the same pattern.
    """
    base = len(train_counts)
    n_codes = batch.n_atoms * base
    dtype = np.min_scalar_type(n_codes)
    joint = batch.labels.astype(dtype)
    joint *= dtype.type(base)
    joint += patterns.astype(dtype, copy=False)
    is_present = np.zeros(n_codes, dtype=bool)
    for rows in _chunks(len(joint)):
        is_present[joint[rows]] = True
    codes = np.flatnonzero(is_present)
    if len(codes) > max_atoms:
        return None
    label_of = np.zeros(n_codes, dtype=np.min_scalar_type(len(codes)))
    label_of[codes] = np.arange(len(codes))
    labels = np.empty(len(joint), dtype=label_of.dtype)
    for rows in _chunks(len(joint)):
        labels[rows] = label_of[joint[rows]]
    old, new = codes // base, codes % base
    return FoldBatch(
        labels,
        np.vstack([batch.train[:, old], train_counts[new]]),
        np.vstack([batch.test[:, old], test_counts[new]]),
    )


def _chunks(n_rows):
    for start in range(0, n_rows, _CHUNK_ROWS):
        yield slice(start, min(start + _CHUNK_ROWS, n_rows))
