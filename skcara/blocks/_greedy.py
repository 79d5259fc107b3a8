r"""Greedy selection rules: the units that promise the largest decrease.

Each rule maximises, over the units, a bound of the decrease of the objective:
with :math:`d` the move of the block,

.. math:: f(x) - f(x + d) \ge -g_B^\top d_B - \tfrac12 d_B^\top M_B d_B

for a matrix :math:`M_B` that dominates the Hessian. The rules differ in
:math:`M_B`: :math:`L I` (GS), a diagonal :math:`D` (GSD, GSDHb), :math:`L_B I`
(GSL) and :math:`H_B` itself (GSQ, IHT).

References
----------
.. [1] J. Nutini, I. Laradji and M. Schmidt, "Let's Make Block Coordinate Descent
   Converge Faster", Journal of Machine Learning Research 23 (2022),
   arXiv:1712.08859.
.. [2] J. Nutini, M. Schmidt, I. Laradji, M. Friedlander and H. Koepke, "Coordinate
   Descent Converges Faster with the Gauss-Southwell Rule Than Random Selection",
   ICML (2015), arXiv:1506.00552.
"""

from abc import abstractmethod

import numpy as np

from skcara.blocks._selection import SelectionRule, largest_eigenvalues

# Relative to the largest diagonal entry: keeps the factorisation of a singular H_B
# from dividing by zero and is far below the curvature of any useful direction.
HESSIAN_JITTER = 1e-10


def divide_by_curvature(numerator, curvature):
    """`numerator` / `curvature`, where 0 / 0 is 0 and anything else / 0 infinite.

    A coordinate of a column of zeros is moved by the penalty alone, as far as it
    wants to go: it comes first.
    """
    quotient = np.where(numerator > 0, np.inf, 0.0)
    return np.divide(numerator, curvature, out=quotient, where=curvature > 0)


class GreedyRule(SelectionRule):
    """Rank the units by a score and take the first ones."""

    def select(self, gradient, curvature, rng):
        """Take the units with the largest scores."""
        if not np.any(gradient):
            return []
        order = np.argsort(-self.scores(gradient, curvature), kind="stable")
        return self.candidates.blocks(order[: self._n_moving(gradient, order)])

    @abstractmethod
    def scores(self, gradient, curvature):
        """Score of every unit; the largest moves first."""

    def _n_moving(self, gradient, order):
        """Length of the shortest prefix of `order` with more than the share."""
        n_block = self.candidates.units_per_block
        if self.fraction is None:
            return n_block
        masses = self._unit_sums(np.abs(gradient))[order]
        cumulated = np.cumsum(masses)
        n_needed = np.searchsorted(
            cumulated, self.fraction * cumulated[-1], side="right"
        )
        return min(max(n_needed + 1, n_block), order.size)

    def _unit_sums(self, values):
        """Sum of a value per coordinate over every unit."""
        if not self.candidates.is_fixed:
            return values
        return np.array([values[unit].sum() for unit in self.candidates.units])


class GS(GreedyRule):
    r"""GS: the largest :math:`\|g_B\|_2` (Gauss-Southwell), [2]_."""

    def scores(self, gradient, curvature):
        """Squared norms, which rank as the norms do."""
        return self._unit_sums(gradient**2)


class GSD(GreedyRule):
    r"""GSD: the largest :math:`\sum_{i \in B} g_i^2 / L_i`, [1]_."""

    needs_lipschitz = True

    def scores(self, gradient, curvature):
        """Decrease under the diagonal majoriser diag(L_i)."""
        scaled = divide_by_curvature(gradient**2, curvature.lipschitz())
        return self._unit_sums(scaled)


class GSDHb(GreedyRule):
    r"""GSDHb: the largest :math:`g_i^2 / \sum_j |H_{ij}|`, [1]_.

    The row sums are Gershgorin's diagonal majoriser of H, valid for every block.
    """

    on_fixed = False

    def needed_blocks(self):
        """One block of all coordinates."""
        return [np.arange(self.candidates.n_coords)]

    def scores(self, gradient, curvature):
        """Decrease under Gershgorin's majoriser."""
        return divide_by_curvature(gradient**2, np.abs(curvature.hessian()).sum(axis=1))


class _BlockGreedyRule(GreedyRule):
    """Greedy rule whose score needs the Hessians of the fixed blocks."""

    on_variable = False

    def __init__(self, candidates, fraction=None):
        super().__init__(candidates, fraction)
        self._prepared = None

    def needed_blocks(self):
        """All blocks of the partition."""
        return list(self.candidates.units)

    def _prepare_once(self, curvature):
        """Turn the block Hessians, which bound all rounds, into score factors."""
        if self._prepared is None:
            hessians = curvature.block_hessians(self.candidates.units)
            self._prepared = self._prepare(hessians)
        return self._prepared

    @staticmethod
    @abstractmethod
    def _prepare(hessians):
        """What the score needs of the Hessians of all blocks."""


class GSL(_BlockGreedyRule):
    r"""GSL: the largest :math:`\|g_B\|_2^2 / L_B`, [2]_."""

    def scores(self, gradient, curvature):
        """Decrease of a step of length 1 / L_B."""
        lipschitz = self._prepare_once(curvature)
        return divide_by_curvature(self._unit_sums(gradient**2), lipschitz)

    @staticmethod
    def _prepare(hessians):
        return largest_eigenvalues(hessians)


class GSQ(_BlockGreedyRule):
    r"""GSQ: the largest :math:`g_B^\top H_B^{-1} g_B`, [1]_."""

    def scores(self, gradient, curvature):
        """Twice the decrease of the block's Newton step."""
        inverses = self._prepare_once(curvature)
        return np.array(
            [
                gradient[unit] @ inverse @ gradient[unit]
                for unit, inverse in zip(self.candidates.units, inverses, strict=True)
            ]
        )

    @staticmethod
    def _prepare(hessians):
        inverses = []
        for hessian in hessians:
            jitter = HESSIAN_JITTER * (hessian.diagonal().max() or 1.0)
            shifted = hessian + jitter * np.eye(len(hessian))
            inverses.append(np.linalg.pinv(shifted, hermitian=True))
        return inverses


class IHT(GreedyRule):
    r"""IHT: support of the best sparse move, by iterative hard thresholding.

    Approximates :math:`\min_d\; g^\top d + \tfrac12 d^\top H d` subject to
    :math:`\|d\|_0 \le q`, with as many coordinates :math:`q` as the round moves, by
    :math:`d \leftarrow T_q(d - (g + H d) / \lambda_{\max}(H))` from :math:`d = 0`,
    where :math:`T_q` keeps the q largest entries.

    References
    ----------
    .. [1] T. Blumensath and M. E. Davies, "Iterative hard thresholding for
       compressed sensing", Applied and Computational Harmonic Analysis 27 (2009),
       arXiv:0805.0510.
    """

    on_fixed = False
    n_iter = 10
    # Below this relative change the support no longer moves.
    change_tol = 1e-10

    def __init__(self, candidates, fraction=None):
        super().__init__(candidates, fraction)
        self._lipschitz = None

    def needed_blocks(self):
        """One block of all coordinates."""
        return [np.arange(self.candidates.n_coords)]

    def scores(self, gradient, curvature):
        """Size of the sparse move; coordinates outside its support score 0."""
        hessian = curvature.hessian()
        if self._lipschitz is None:
            self._lipschitz = np.linalg.eigvalsh(hessian)[-1] or 1.0
        n_moving = self._n_moving(gradient)
        move = np.zeros_like(gradient)
        for _ in range(self.n_iter):
            step = (gradient + hessian @ move) / self._lipschitz
            updated = keep_largest(move - step, n_moving)
            change = np.abs(updated - move).max()
            move = updated
            if change <= self.change_tol * np.abs(move).max():
                break
        return np.abs(move)

    def _n_moving(self, gradient, order=None):
        # The Gauss-Southwell ranking decides how many coordinates move, since the
        # sparse move, which decides which ones, needs their number first.
        by_gradient = np.argsort(-np.abs(gradient), kind="stable")
        return super()._n_moving(gradient, by_gradient)


def keep_largest(values, n_kept):
    """`values` with all but the `n_kept` largest in absolute value set to zero."""
    kept = np.argsort(-np.abs(values), kind="stable")[:n_kept]
    sparse = np.zeros_like(values)
    sparse[kept] = values[kept]
    return sparse
