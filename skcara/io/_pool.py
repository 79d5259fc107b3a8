r"""A pool of random rows, taken along in a single read.

*Priority sampling*: with a number :math:`u_i` in (0, 1) that depends on the number of
the row alone, the rows of the largest priorities :math:`w_i / u_i` are kept, and with
the largest priority :math:`\tau` that was not kept a row stands for the weight
:math:`\max(w_i, \tau)`. The expected sum of these weights over any set of rows is that
of :math:`w`, and the kept rows depend neither on how the rows are cut into parts nor on
who reads them. Solvers that want random rows get them from the pool, which costs no
further read. Where rows can be taken by their numbers at any time, the pool holds no
more than numbers and targets: few solvers want all of its rows, and some want none.

No row below :math:`\tau = W / k` is kept, with the total weight :math:`W` and room for
:math:`k` rows: about :math:`k` rows are above. Parts on other machines that know this
bound do not send all they have; the estimates stay unbiased.
"""

from typing import NamedTuple

import numpy as np

from skcara.data import Chunk, rare_uniforms
from skcara.io._blocks import Block, join_blocks, pick_rows

# The rows are a function of their numbers; what `random_state` chooses from.
_SEED = 0
# Most bytes of a pool. In memory, samples of more than this many bytes were never
# worth their time, and a share of the rows would be gigabytes at a billion of them.
_POOL_BYTES = 2**25
_MIN_POOL_ROWS = 2**10


def pool_rows(row_bytes: float) -> int:
    """Most rows of a pool."""
    return max(int(_POOL_BYTES / row_bytes), _MIN_POOL_ROWS)


def lower_bound(n_rows: int, total_weight: float, capacity: int) -> float:
    """Priority below which no row is kept; zero if there is room for all."""
    return total_weight / capacity if n_rows > capacity else 0.0


class PooledRows(NamedTuple):
    """The rows of a pool.

    Attributes
    ----------
    indices : ndarray of int
        Numbers of the rows, ascending.
    target : ndarray
        Their targets.
    weights : ndarray of float
        What they stand for: sums over any set of rows are unbiased.
    block : Block or None
        The rows with their targets and own weights, if the pool holds them.
    """

    indices: np.ndarray
    target: np.ndarray
    weights: np.ndarray
    block: Block | None


class Pool:
    """Random rows of what was read so far.

    Parameters
    ----------
    capacity : int
        Most rows that are kept.
    threshold : float
        Priority from which a row is a candidate.
    holds_rows : bool
        Whether rows are held, or their numbers, targets and weights only.
    """

    def __init__(
        self, capacity: int, threshold: float = 0.0, *, holds_rows: bool = True
    ):
        self.capacity = capacity
        self.threshold = threshold
        self.holds_rows = holds_rows
        self._pieces: list[tuple[np.ndarray, np.ndarray, Block]] = []
        self._n_held = 0

    def fresh(self) -> "Pool":
        """Return an empty pool with the same room and threshold."""
        return Pool(self.capacity, self.threshold, holds_rows=self.holds_rows)

    def offer(self, chunk: Chunk):
        """Keep the rows of a chunk whose priority is high enough, as copies."""
        weights = chunk.weights
        highest = 1.0 if weights is None else float(weights.max())
        most = highest / self.threshold if self.threshold else np.inf
        rows, uniforms = rare_uniforms(_SEED, chunk.start, chunk.n_rows, most)
        priorities = (1.0 if weights is None else weights[rows]) / uniforms
        is_kept = priorities > self.threshold
        kept = rows[is_kept]
        if kept.size:
            held = chunk.rows if self.holds_rows else np.empty((chunk.n_rows, 0))
            block = pick_rows(Block(held, chunk.target, weights), kept)
            self._hold(chunk.start + kept, priorities[is_kept], block)

    def absorb(self, other: "Pool"):
        """Keep the rows of another pool whose priority is high enough."""
        self.threshold = max(self.threshold, other.threshold)
        for piece in other._pieces:
            self._hold(*piece)

    def _hold(self, indices, priorities, block):
        self._pieces.append((indices, priorities, block))
        self._n_held += len(indices)
        # Sorting out at every second doubling costs less than at every chunk.
        if self._n_held > 2 * self.capacity:
            self.shrink()

    def shrink(self):
        """Drop the rows of lowest priority that do not fit, and raise the threshold."""
        if not self._pieces:
            return
        indices = np.concatenate([piece[0] for piece in self._pieces])
        priorities = np.concatenate([piece[1] for piece in self._pieces])
        blocks = [piece[2] for piece in self._pieces]
        if len(priorities) > self.capacity:
            n_dropped = len(priorities) - self.capacity
            dropped = np.partition(priorities, n_dropped - 1)[n_dropped - 1]
            self.threshold = max(self.threshold, float(dropped))
        is_kept = priorities > self.threshold
        self._pieces = []
        # Rows are dropped before they are joined, so that no row is copied in vain.
        ends = np.cumsum([block.n_rows for block in blocks])
        kept = [
            _kept(block, is_kept[end - block.n_rows : end])
            for block, end in zip(blocks, ends, strict=True)
        ]
        self._n_held = int(is_kept.sum())
        if self._n_held:
            piece = indices[is_kept], priorities[is_kept], join_blocks(kept)
            self._pieces = [piece]

    def finish(self, n_rows: int, total_weight: float) -> PooledRows | None:
        """Rows in the order of their numbers; None if no row has a weight.

        Parameters
        ----------
        n_rows : int
        total_weight : float
            Of all rows that were offered.
        """
        bound = lower_bound(n_rows, total_weight, self.capacity)
        self.threshold = max(self.threshold, bound)
        self.shrink()
        if not self._pieces:
            return None
        ((indices, _, block),) = self._pieces
        if (np.diff(indices) < 0).any():
            order = np.argsort(indices)
            indices, block = indices[order], pick_rows(block, order)
        own = np.ones(len(indices)) if block.weights is None else block.weights
        weights = np.maximum(own, self.threshold)
        held = block if self.holds_rows else None
        return PooledRows(indices, block.target, weights, held)


def _kept(block: Block, is_kept) -> Block:
    return block if is_kept.all() else pick_rows(block, np.flatnonzero(is_kept))
