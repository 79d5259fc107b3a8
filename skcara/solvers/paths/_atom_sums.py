"""One read that sums the second moments of features and targets by atom."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from skcara.data import gram, row_range, rows_at, scaled_rows
from skcara.solvers.paths._basis import Basis
from skcara.solvers.paths._moments import AtomMoments

# Entries of dense rows that are made at a time, few enough for the last cache. Each
# product writes a matrix, symmetric by a copy of one half: with a quarter of the rows a
# search takes 1.15 times as long with 500 columns, and 1.1 times with 20 or 100.
_PART_ENTRIES = 2**19
# With so many columns BLAS reads rows slower than memory could give them: to copy them
# first, one after the other, and multiply the copy takes 0.85 of the time.
_MIN_COPIED_COLUMNS = 96
# A sparse product of two rows costs so much more per entry than a dense one that it
# pays only for rows with a smaller share of entries than this.
_DENSE_SHARE = 0.06
# Rows are shifted if a column is further from zero than so many deviations.
_MAX_IMPLICIT_SHIFT = 4.0


@dataclass
class _Sums:
    """Sums of some chunks.

    Attributes
    ----------
    batches : list of dict
        For each batch of folds the Gram matrices of the atoms that occurred.
    n_terms : int
        Most additions that an entry has gone through.
    """

    batches: list
    n_terms: int


@dataclass(frozen=True, eq=False)
class AtomSums:
    """Task that sums the Gram matrices of the rows ``(x - c, y - t, 1)`` by atom.

    Attributes
    ----------
    n_atoms : tuple of int
        Number of atoms in each batch of folds.
    shift : ndarray of shape (n_features + n_targets,)
        ``(c, t)``, see :func:`choose_shift`.
    atom_shifts : tuple of ndarray of shape (n_atoms, n_features + n_targets), optional
        A shift for each atom of each batch instead.
    basis : Basis, optional
        The shifted rows of features are transformed before they are summed.
    """

    n_atoms: tuple
    shift: np.ndarray
    atom_shifts: tuple | None = None
    basis: Basis | None = None

    #: Share of the data that the task reads.
    cost = 1.0

    def visit(self, chunk) -> _Sums:
        """Sums of one chunk.

        ``chunk.atom`` has one column for each batch, or is None if all rows are in the
        only atom of the only batch.
        """
        n_rows, n_features = chunk.rows.shape
        labels = np.zeros((n_rows, 1), dtype=np.uint8)
        if chunk.atom is not None:
            labels = chunk.atom.reshape(n_rows, -1)
        step = 1 << (max(_PART_ENTRIES // n_features, 1).bit_length() - 1)
        if _is_sparse(chunk.rows) and not self._makes_dense(n_features):
            step = n_rows
        batches = [
            {
                atom: self._gram(chunk, rows, step, self._shift_of(batch, atom))
                for atom, rows in _rows_by_atom(labels[:, batch])
            }
            for batch in range(labels.shape[1])
        ]
        return _Sums(batches, min(step, n_rows) + -(-n_rows // step))

    def merge(self, left: _Sums, right: _Sums) -> _Sums:
        """Add the sums on the right to those on the left, in place."""
        for totals, terms in zip(left.batches, right.batches, strict=True):
            for atom, sums in terms.items():
                if atom in totals:
                    totals[atom] += sums
                else:
                    totals[atom] = sums
        left.n_terms = max(left.n_terms, right.n_terms) + 1
        return left

    def finish(self, total: _Sums) -> list[AtomMoments]:
        """Moments of the atoms of each batch, relative to the shift of the task."""
        moments, size = [], len(self.shift) + 1
        for batch, sums in enumerate(total.batches):
            stack = np.zeros((self.n_atoms[batch], size, size))
            while sums:
                atom, own = sums.popitem()
                stack[atom] = own
            offsets = self._offsets(batch)
            moments.append(AtomMoments.from_sums(stack, total.n_terms, offsets))
        return moments

    # ---- one atom of one chunk ---------------------------------------------------

    def _makes_dense(self, n_features):
        if self.atom_shifts is not None or self.basis is not None:
            return True
        return bool(self.shift[:n_features].any())

    def _shift_of(self, batch, atom):
        return self.shift if self.atom_shifts is None else self.atom_shifts[batch][atom]

    def _offsets(self, batch):
        """Shifts of the atoms relative to that of the task."""
        if self.atom_shifts is None:
            return None
        offsets = self.atom_shifts[batch] - self.shift
        return offsets if self.basis is None else self.basis.transform_columns(offsets)

    def _gram(self, chunk, rows, step, shift):
        n_features = chunk.rows.shape[1]
        total, shift_rows = 0.0, None
        for part in _parts(rows, step):
            if shift_rows is None and shift[:n_features].any():
                # As many rows as the first part, which is the largest: NumPy is slow at
                # adding a short row to each of many.
                shift_rows = np.tile(shift[:n_features], (_length(part), 1))
            total += self._gram_of_part(chunk, part, shift, shift_rows)
        return total

    def _gram_of_part(self, chunk, part, shift, shift_rows):
        """Gram matrix of ``(x - c, y - t, 1)``, times the roots of the weights."""
        rows = _take(chunk.rows, part)
        n_rows, n_features = rows.shape
        if sparse.issparse(rows):
            if self._makes_dense(n_features) or not _is_sparse(rows):
                rows = rows.toarray()
        elif shift_rows is None and isinstance(part, slice):
            rows = rows.copy() if n_features >= _MIN_COPIED_COLUMNS else rows
        if shift_rows is not None:
            rows = rows - shift_rows[:n_rows]
        rows = rows.astype(np.float64, copy=False)
        if self.basis is not None:
            rows = self.basis.transform(rows)
        rest = np.ones((len(shift) - n_features + 1, n_rows))
        targets = _take(chunk.target, part).reshape(n_rows, -1)
        np.subtract(targets.T, shift[n_features:, None], out=rest[:-1])
        if chunk.weights is not None:
            roots = np.sqrt(_take(chunk.weights, part))
            rows, rest = scaled_rows(rows, roots), rest * roots
        total = np.empty((len(shift) + 1,) * 2)
        features, others = slice(n_features), slice(n_features, None)
        total[features, features] = gram(rows)
        # In this order BLAS reads the long side of both one after the other.
        cross = (rows.T @ rest.T).T if sparse.issparse(rows) else rest @ rows
        total[others, features], total[features, others] = cross, cross.T
        total[others, others] = rest @ rest.T
        return total


def _is_sparse(rows):
    """Whether the product of sparse rows is faster than that of dense ones."""
    return sparse.issparse(rows) and rows.nnz < _DENSE_SHARE * np.prod(rows.shape)


def _take(array, part):
    """Some of the rows, as a slice or by their numbers."""
    if isinstance(part, slice):
        if sparse.issparse(array):
            return row_range(array, part.start, part.stop)
        return array[part]
    return rows_at(array, part)


def _length(part):
    return part.stop - part.start if isinstance(part, slice) else len(part)


def _rows_by_atom(labels):
    """Yield each atom with its rows, as a slice if they are consecutive."""
    if labels[0] == labels[-1] and (labels == labels[0]).all():
        yield int(labels[0]), slice(0, len(labels))
        return
    order = np.argsort(labels, kind="stable")
    sorted_labels = labels[order]
    starts = np.flatnonzero(np.diff(sorted_labels)) + 1
    for start, stop in pairwise([0, *starts.tolist(), len(labels)]):
        rows, atom = order[start:stop], int(sorted_labels[start])
        if rows[-1] - rows[0] == stop - start - 1:
            yield atom, slice(int(rows[0]), int(rows[-1]) + 1)
        else:
            yield atom, rows


def _parts(rows, step):
    """Cut a slice or an array of rows into pieces of at most so many rows."""
    if isinstance(rows, slice):
        for start in range(rows.start, rows.stop, step):
            yield slice(start, min(start + step, rows.stop))
    else:
        for start in range(0, len(rows), step):
            yield rows[start : start + step]


def choose_shift(rows, targets):
    """A shift near the rows, zero for features where zero is near enough.

    Sums over rows that are far from the shift, in units of their standard deviation,
    lose the square of that in accuracy. Rows that need not be shifted need not be
    copied; and shifted rows are not sparse, so that only those are shifted that would
    be multiplied as dense ones in any case.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_sampled, n_features)
        Some rows, taken evenly from all of them.
    targets : ndarray of shape (n_sampled,) or (n_sampled, n_targets)

    Returns
    -------
    shift : ndarray of shape (n_features + n_targets,)
    """
    targets = np.median(targets.reshape(len(targets), -1), axis=0)
    if sparse.issparse(rows):
        if _is_sparse(rows):
            return np.append(np.zeros(rows.shape[1]), targets)
        rows = rows.toarray()
    # The middle of a few rows is not far from all others, as one of them may be.
    middle = np.median(rows, axis=0)
    deviation = np.median(np.abs(rows - middle), axis=0)
    if not (np.abs(middle) > _MAX_IMPLICIT_SHIFT * deviation).any():
        middle = np.zeros(rows.shape[1])
    return np.append(middle, targets)
