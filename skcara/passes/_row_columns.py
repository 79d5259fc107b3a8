"""What is known of the rows besides their features: targets, weights, atoms."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skcara.data import SumTask


class RowColumns(NamedTuple):
    """Targets and weights of all rows, in their order.

    Attributes
    ----------
    target : ndarray of shape (n_rows,) or (n_rows, n_targets)
    weights : ndarray of shape (n_rows,) or None
    """

    target: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True, eq=False)
class GatherColumns(SumTask):
    """Copy the targets of all rows, and their weights; a :class:`RowColumns`.

    The only task whose answer is as long as the data: for what cannot be summed.
    """

    def visit(self, chunk):
        """Copies of the columns of a chunk."""
        weights = [] if chunk.weights is None else [chunk.weights.copy()]
        return [[chunk.target.copy()], weights]

    def finish(self, total):
        """Join the parts."""
        targets, weights = total
        return RowColumns(
            np.concatenate(targets), np.concatenate(weights) if weights else None
        )


@dataclass(frozen=True, eq=False)
class AtomMasses(SumTask):
    """Weights of the rows of each atom and class.

    The answer is a list with one array of shape (n_atoms, n_classes) for each batch of
    folds. No features are needed.

    Attributes
    ----------
    n_atoms : tuple of int
        Number of atoms in each batch.
    n_classes : int
    """

    n_atoms: tuple[int, ...]
    n_classes: int

    def visit(self, chunk):
        """Masses of the rows of a chunk."""
        labels = chunk.atom.reshape(len(chunk.target), -1).astype(np.intp)
        masses = []
        for own, n_atoms in zip(labels.T, self.n_atoms, strict=True):
            numbers = own * self.n_classes + chunk.target
            counts = np.bincount(numbers, chunk.weights, n_atoms * self.n_classes)
            masses.append(counts.reshape(n_atoms, -1).astype(np.float64))
        return masses
