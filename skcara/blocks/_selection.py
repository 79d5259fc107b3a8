r"""What all selection rules share, and the rules that do not look at the gradient.

A rule ranks the units of a :class:`~skcara.blocks.Candidates` and takes the first
ones. How many it takes is `fraction`:

- ``None``: one block, as in Nutini et al. [1]_;
- a number :math:`\varphi`: several blocks. A rule that draws or walks takes
  :math:`\lfloor \varphi n / s \rfloor` blocks (at least one), a greedy rule the
  shortest prefix of its ranking that carries more than the share
  :math:`\varphi` of :math:`\sum_i |g_i|` (and at least one block), as in the
  article's Algorithms 3 and 2.

Here and in the greedy rules :math:`g` is the smallest subgradient of the objective:
without an L1 term the gradient, with it the signed violation of the optimality
conditions, so that a coordinate that cannot move never wins.

References
----------
.. [1] J. Nutini, I. Laradji and M. Schmidt, "Let's Make Block Coordinate Descent
   Converge Faster", Journal of Machine Learning Research 23 (2022),
   arXiv:1712.08859.
"""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np


class Curvature(Protocol):
    """Upper bounds of the second derivatives that a rule said it needs."""

    def lipschitz(self) -> np.ndarray:
        """L_i: bounds of the diagonal of the Hessian, shape (n_coords,)."""

    def block_hessians(self, blocks) -> list[np.ndarray]:
        """H_B: bounds of the Hessian of each block, shape (block, block)."""

    def hessian(self) -> np.ndarray:
        """H: bound of the whole Hessian, shape (n_coords, n_coords)."""


def largest_eigenvalues(matrices):
    """Largest eigenvalue of each symmetric matrix: L_B from H_B."""
    return np.array([np.linalg.eigvalsh(matrix)[-1] for matrix in matrices])


class SelectionRule(ABC):
    """Base of the rules; an instance belongs to one run of a solver.

    Parameters
    ----------
    candidates : Candidates
        What to choose from.
    fraction : float or None
        Share that moves in one round, see the module's description.
    """

    # Whether the rule is defined without (VB) and with a fixed partition.
    on_variable = True
    on_fixed = True
    # Whether the rule asks for L_i.
    needs_lipschitz = False

    def __init__(self, candidates, fraction=None):
        self.candidates = candidates
        self.fraction = fraction

    @abstractmethod
    def select(self, gradient, curvature, rng):
        """Blocks that move in this round.

        Parameters
        ----------
        gradient : ndarray of shape (n_coords,)
            Smallest subgradient of the objective.
        curvature : Curvature
            Bounds of the second derivatives.
        rng : numpy.random.RandomState or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        blocks : list of ndarray
            Disjoint, each ascending and of at most ``block_size`` coordinates;
            empty if nothing can move.
        """

    def needed_blocks(self):
        """Blocks whose H_B the rule will ask for; they are read before."""
        return []

    def _n_units(self):
        """Units of one round for the rules that draw or walk."""
        candidates = self.candidates
        n_blocks = 1
        if self.fraction is not None:
            n_coords = candidates.n_coords
            n_blocks = max(1, int(n_coords * self.fraction / candidates.block_size))
        return min(n_blocks * candidates.units_per_block, len(candidates.units))


class Random(SelectionRule):
    """Random: blocks drawn uniformly without replacement.

    References
    ----------
    .. [1] P. Richtárik and M. Takáč, "Iteration complexity of randomized
       block-coordinate descent methods", Mathematical Programming 144 (2014),
       arXiv:1107.2848.
    """

    def select(self, gradient, curvature, rng):
        """Draw blocks; the gradient is not used."""
        order = rng.permutation(len(self.candidates.units))
        return self.candidates.blocks(order[: self._n_units()])


class Lipschitz(SelectionRule):
    """Lipschitz: drawn without replacement with probability proportional to L.

    L is L_i for variable blocks and L_B, the largest eigenvalue of H_B, for a fixed
    partition. Units without curvature, which a penalty may still move, count as much
    as the least curved one.

    References
    ----------
    .. [1] Y. Nesterov, "Efficiency of coordinate descent methods on huge-scale
       optimization problems", SIAM Journal on Optimization 22 (2012),
       doi:10.1137/100802001.
    """

    def __init__(self, candidates, fraction=None):
        super().__init__(candidates, fraction)
        self._rates = None
        self.needs_lipschitz = not candidates.is_fixed

    def needed_blocks(self):
        """The blocks of a fixed partition."""
        return list(self.candidates.units) if self.candidates.is_fixed else []

    def select(self, gradient, curvature, rng):
        """Draw blocks by their curvature."""
        if self._rates is None:
            rates = self._unit_lipschitz(curvature)
            is_curved = rates > 0
            least = rates[is_curved].min() if is_curved.any() else 1.0
            self._rates = np.where(is_curved, rates, least)
        # The first arrivals of independent exponential clocks are a sample without
        # replacement with probabilities proportional to the rates.
        arrivals = rng.standard_exponential(self._rates.size) / self._rates
        order = np.argsort(arrivals, kind="stable")
        return self.candidates.blocks(order[: self._n_units()])

    def _unit_lipschitz(self, curvature):
        if self.candidates.is_fixed:
            hessians = curvature.block_hessians(self.candidates.units)
            return largest_eigenvalues(hessians)
        return curvature.lipschitz()


class Cyclic(SelectionRule):
    """Cyclic: blocks in their order, again and again; nothing is random.

    References
    ----------
    .. [1] A. Beck and L. Tetruashvili, "On the convergence of block coordinate
       descent type methods", SIAM Journal on Optimization 23 (2013),
       doi:10.1137/120887679.
    """

    def __init__(self, candidates, fraction=None):
        super().__init__(candidates, fraction)
        self._remaining = np.empty(0, dtype=np.intp)

    def select(self, gradient, curvature, rng):
        """Take the next blocks; a round never reaches into the next epoch."""
        if self._remaining.size == 0:
            self._remaining = self._epoch_order(rng)
        n_units = self._n_units()
        order, self._remaining = np.split(self._remaining, [n_units])
        return self.candidates.blocks(order)

    def _epoch_order(self, rng):
        return np.arange(len(self.candidates.units))


class Perm(Cyclic):
    """Perm: as Cyclic, in an order that is shuffled anew for every epoch.

    References
    ----------
    .. [1] S. J. Wright, "Coordinate descent algorithms", Mathematical Programming
       151 (2015), arXiv:1502.04759.
    """

    def _epoch_order(self, rng):
        return rng.permutation(len(self.candidates.units))
