r"""Rows drawn in proportion to what they say about single coordinates.

A uniform sample represents a coordinate ``c = (param j, output k)`` well if its Hessian
entry :math:`H_{cc} = \sum_i \mu_i h_{ik} x_{ij}^2` is a sum of many terms of similar
size. Rare levels of a category, rare classes and heavy tails are different: a few rows
make up the sum, and a sample without them knows nothing about the coordinate. The
*influence* of a row,

.. math:: s_i = \tfrac12 \mu_i \sum_{jk} (h_{ik} + r_{ik}^2)\, x_{ij}^2 / H_{cc} ,

adds up its shares in all coordinates, with the curvature :math:`h_{ik}` and the
derivative :math:`r_{ik}` of its loss (whose square has the same mean). Sampling in
proportion to the influence keeps such rows with certainty and with their own weight.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skcara.data import PriorityRows, predictions, squared
from skcara.objective import Problem

# Entries of the diagonal smaller than this share of the typical one are unknown.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class DrawInfluential:
    """Draw rows, half by their influence and half by their weight, in one pass.

    The answer is a pair: the ascending numbers of the rows, and the weights with which
    they represent all rows.

    Attributes
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    diagonal : ndarray of shape (n_params, n_outputs)
        Diagonal of the Hessian, as far as it is known.
    n_draws, seed : int
    """

    problem: Problem
    params: np.ndarray
    diagonal: np.ndarray
    n_draws: int
    seed: int

    cost = 1.0

    @cached_property
    def _quadratic_form(self):
        """Square, linear and constant terms of ``(x - shift)^2 / (scale^2 H)``.

        They are applied to the rows as they are.
        """
        diagonal, coordinates = self.diagonal, self.problem.coordinates
        typical = np.mean(diagonal, where=diagonal > 0) if diagonal.any() else 1.0
        inverse = 1.0 / np.maximum(diagonal, _NEGLIGIBLE * typical)
        shift = coordinates.implicit_shift[:, None]
        n_features = coordinates.n_features
        quadratic = inverse[:n_features] / coordinates.implicit_scale[:, None] ** 2
        constant = (shift**2 * quadratic).sum(axis=0)
        constant += inverse[n_features:].sum(axis=0)
        return quadratic, -2 * shift * quadratic, constant

    def influence(self, rows, target, shares):
        """Influence of rows as :meth:`Coordinates.rows` gives them, at most one.

        A row has no more than the whole of a coordinate, and where the diagonal is
        unknown nothing else bounds its share.
        """
        problem = self.problem
        coef, intercept = problem.coordinates.effective_params(self.params)
        quadratic, linear, constant = self._quadratic_form
        prediction = predictions(rows, coef) + intercept
        size = rows @ linear + constant if linear.any() else constant
        size = np.maximum(size + squared(rows) @ quadratic, 0.0)
        importance = problem.loss.curvature(target, prediction)
        importance += np.square(problem.loss.derivative(target, prediction))
        influence = 0.5 * np.einsum("ik,ik->i", importance, size)
        influence *= shares
        return np.minimum(influence, 1.0, out=influence)

    def visit(self, chunk):
        """Candidates of a chunk."""
        problem = self.problem
        shares = problem.shares_of(chunk)
        rows = problem.coordinates.rows(chunk.rows)
        density = self.influence(rows, problem.target_of(chunk), shares)
        # With a known diagonal, the influence of all rows adds up to the number of
        # coordinates.
        density /= problem.n_coords
        density += shares
        return PriorityRows.of_chunk(
            chunk.start, density, shares, n_draws=self.n_draws, seed=self.seed
        )

    def merge(self, left, right):
        """Candidates among the rows of both."""
        return left.merge(right, self.n_draws)

    def finish(self, total):
        """Return numbers and weights."""
        return total.sample(self.n_draws)
