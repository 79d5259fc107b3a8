"""How coordinates are grouped into the candidates that a selection rule ranks.

A partition is a function of the coordinate curvatures. A *fixed* partition cuts
all coordinates into blocks once; a rule then picks whole blocks. Without a fixed
partition (``"VB"``, variable blocks) every coordinate is a candidate of its own and
a rule forms new blocks of the coordinates it ranks first.

References
----------
.. [1] J. Nutini, I. Laradji and M. Schmidt, "Let's Make Block Coordinate Descent
   Converge Faster", Journal of Machine Learning Research 23 (2022),
   arXiv:1712.08859.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Candidates:
    """What a selection rule chooses from.

    Attributes
    ----------
    units : tuple of ndarray
        Disjoint sets of coordinates that cover all of them: the blocks of a fixed
        partition, or one coordinate each.
    block_size : int
        Largest number of coordinates in a block.
    is_fixed : bool
        Whether `units` are blocks already.
    """

    units: tuple[np.ndarray, ...]
    block_size: int
    is_fixed: bool

    @property
    def n_coords(self):
        """Number of coordinates."""
        return sum(unit.size for unit in self.units)

    @property
    def units_per_block(self):
        """How many units, ranked one after the other, make one block."""
        return 1 if self.is_fixed else self.block_size

    def blocks(self, order):
        """Blocks made of the units numbered `order`, in that order.

        Parameters
        ----------
        order : ndarray of int
            Distinct unit numbers.

        Returns
        -------
        blocks : list of ndarray
            Ascending coordinates; only the last block may be shorter.
        """
        if self.is_fixed:
            return [self.units[number] for number in order]
        return cut_into_blocks(np.asarray(order), self.block_size)


def cut_into_blocks(order, block_size):
    """Consecutive pieces of `order`, each sorted; the last one may be shorter."""
    starts = range(0, order.size, block_size)
    return [np.sort(order[start : start + block_size]) for start in starts]


class Partition(ABC):
    """How coordinates are lined up before they are cut into blocks."""

    #: Whether the blocks stay the same in all rounds.
    is_fixed: bool
    #: Whether the order depends on L_i.
    needs_lipschitz: bool

    @staticmethod
    @abstractmethod
    def coordinate_order(n_coords, curvature) -> np.ndarray:
        """Coordinates in the order in which they are cut into blocks.

        Parameters
        ----------
        n_coords : int
            Number of coordinates.
        curvature : Curvature
            Asked for L_i by the partitions that sort.
        """


class VariableBlocks(Partition):
    """VB: no fixed partition, each round forms its blocks from any coordinates."""

    is_fixed = False
    needs_lipschitz = False

    @staticmethod
    def coordinate_order(n_coords, curvature):
        """Every coordinate in its natural place."""
        return np.arange(n_coords)


class Order(Partition):
    """Order: consecutive coordinates share a block."""

    is_fixed = True
    needs_lipschitz = False

    @staticmethod
    def coordinate_order(n_coords, curvature):
        """Every coordinate in its natural place."""
        return np.arange(n_coords)


class Sort(Partition):
    """Sort: coordinates of similar curvature L_i share a block, largest first."""

    is_fixed = True
    needs_lipschitz = True

    @staticmethod
    def coordinate_order(n_coords, curvature):
        """Descending L_i, ties in the natural order."""
        return np.argsort(-curvature.lipschitz(), kind="stable")


class Avg(Partition):
    """Avg: small and large curvatures alternate, so that blocks are alike.

    The order is smallest, largest, second smallest, second largest, ...; for an odd
    number of coordinates the middle one comes last.
    """

    is_fixed = True
    needs_lipschitz = True

    @staticmethod
    def coordinate_order(n_coords, curvature):
        """Alternate from both ends of the coordinates sorted by L_i."""
        ascending = np.argsort(curvature.lipschitz(), kind="stable")
        order = np.empty_like(ascending)
        n_small = (n_coords + 1) // 2
        order[0::2] = ascending[:n_small]
        order[1::2] = ascending[n_small:][::-1]
        return order


PARTITIONS: dict[str, type[Partition]] = {
    "VB": VariableBlocks,
    "Sort": Sort,
    "Order": Order,
    "Avg": Avg,
}


def make_candidates(partition, n_coords, block_size, curvature):
    """Candidates of the partition called `partition`.

    Parameters
    ----------
    partition : str
        Name in ``PARTITIONS``.
    n_coords : int
        Number of coordinates.
    block_size : int
        Coordinates per block; more than `n_coords` means one block.
    curvature : Curvature
        Asked for L_i by the partitions that sort.

    Returns
    -------
    candidates : Candidates
        The units that a selection rule ranks.
    """
    rule = PARTITIONS[partition]
    block_size = min(block_size, n_coords)
    order = rule.coordinate_order(n_coords, curvature)
    units = cut_into_blocks(order, block_size if rule.is_fixed else 1)
    return Candidates(tuple(units), block_size, rule.is_fixed)
