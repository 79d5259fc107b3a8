"""Labels of rows: which atom each belongs to, by the number of the row.

Whatever has labels is sliced by rows, or indexed by their numbers. Labels that follow
from the number of a row need no memory; others take one small integer for each row.
``between`` gives the labels of some consecutive rows, as light as those of all, to be
sent to where these rows are.
"""

import numpy as np


class ContiguousLabels:
    """Labels 0, 1, 2, ... of consecutive ranges of rows.

    Parameters
    ----------
    lengths : array-like of int
        Number of rows of each range.
    """

    def __init__(self, lengths):
        self._ends = np.cumsum(lengths)
        self._dtype = np.min_scalar_type(len(self._ends))

    def __len__(self):
        return int(self._ends[-1])

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            lengths = self._clipped_lengths(start, max(start, stop))
            labels = np.arange(len(lengths), dtype=self._dtype)
            return np.repeat(labels, lengths)[::step]
        labels = np.searchsorted(self._ends, rows, side="right")
        return labels.astype(self._dtype)

    def _clipped_lengths(self, start, stop):
        return np.diff(np.clip(self._ends, start, stop), prepend=start)

    def between(self, start: int, stop: int) -> "ContiguousLabels":
        """Labels of some consecutive rows."""
        return ContiguousLabels(self._clipped_lengths(start, stop))


class StackedLabels:
    """Several labels for each row side by side, without a copy of them.

    Sliced or indexed by rows it is an array of shape (n_rows, n_labels).

    Parameters
    ----------
    labels : list of labels
    """

    def __init__(self, labels):
        self._labels = labels

    def __getitem__(self, rows):
        return np.column_stack([labels[rows] for labels in self._labels])

    def between(self, start: int, stop: int) -> "StackedLabels":
        """Labels of some consecutive rows."""
        return StackedLabels([labels_between(one, start, stop) for one in self._labels])


def labels_between(labels, start: int, stop: int):
    """Labels of some consecutive rows; a view for those in an array."""
    if isinstance(labels, np.ndarray):
        return labels[start:stop]
    return labels.between(start, stop)
