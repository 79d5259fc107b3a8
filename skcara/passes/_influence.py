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

Coordinates are not all directions: of a rare level whose column is centred, all rows
have a little of the coordinate, and only the few rows of the level have anything of the
direction that the intercept leaves over. With the block :math:`H_k` of the Hessian that
belongs to an output, the *leverage*,

.. math:: s_i = \tfrac12 \mu_i \sum_k (h_{ik} + r_{ik}^2)\, x_i^\top H_k^{-1} x_i ,

is the same in all coordinates. A few random directions :math:`g` with covariance
:math:`H_k^{-1}` tell it well enough for a draw, because :math:`E (g^\top x)^2 =
x^\top H_k^{-1} x`: that costs a few products for each row instead of as many as there
are coordinates.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skcara.data import PriorityRows, predictions, squared_product
from skcara.objective import Problem

# Entries of the diagonal smaller than this share of the typical one are unknown.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class _DrawByInfluence(ABC):
    """Draw rows, half by their influence and half by their weight, in one pass.

    The answer is a pair: the ascending numbers of the rows, and the weights with which
    they represent all rows.

    Attributes
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
        Where curvatures and derivatives are taken.
    """

    problem: Problem
    params: np.ndarray

    n_draws = 0
    seed = 0
    cost = 1.0

    @abstractmethod
    def sizes(self, rows):
        """Squares of rows in the inverse Hessian, shape (n_rows, n_outputs)."""

    def influence(self, rows, target, shares):
        """Influence of rows as :meth:`Coordinates.rows` gives them, at most one.

        A row has no more than the whole of a coordinate, and where the Hessian is
        unknown nothing else bounds its share.
        """
        problem = self.problem
        coef, intercept = problem.coordinates.effective_params(self.params)
        prediction = predictions(rows, coef) + intercept
        importance = problem.loss.curvature(target, prediction)
        importance += np.square(problem.loss.derivative(target, prediction))
        influence = 0.5 * np.einsum("ik,ik->i", importance, self.sizes(rows))
        influence *= shares
        return np.minimum(influence, 1.0, out=influence)

    def visit(self, chunk):
        """Candidates of a chunk."""
        problem = self.problem
        shares = problem.shares_of(chunk)
        rows = problem.coordinates.rows(chunk.rows)
        density = self.influence(rows, problem.target_of(chunk), shares)
        # With a known Hessian, the influence of all rows adds up to the number of
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


@dataclass(frozen=True, eq=False)
class DrawInfluential(_DrawByInfluence):
    """Draw rows by their shares in single coordinates.

    Attributes
    ----------
    diagonal : ndarray of shape (n_params, n_outputs)
        Diagonal of the Hessian, as far as it is known.
    n_draws, seed : int
    """

    diagonal: np.ndarray
    n_draws: int
    seed: int

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

    def sizes(self, rows):
        """Sums of the squared entries, each divided by its entry of the diagonal."""
        quadratic, linear, constant = self._quadratic_form
        size = rows @ linear + constant if linear.any() else constant
        size = size + squared_product(rows, quadratic)
        return np.maximum(size, 0.0, out=size)


@dataclass(frozen=True, eq=False)
class DrawByLeverage(_DrawByInfluence):
    """Draw rows by their leverage in one of several Hessians, the largest.

    Attributes
    ----------
    directions : ndarray of shape (n_hessians, n_directions, n_params, n_outputs)
        Random, with the inverse of a block of a Hessian as the sum of their second
        moments.
    n_draws, seed : int
    """

    directions: np.ndarray
    n_draws: int
    seed: int

    @cached_property
    def _effective(self):
        flat = np.moveaxis(self.directions, 2, 0).reshape(self.problem.n_params, -1)
        return self.problem.coordinates.effective_params(flat)

    def sizes(self, rows):
        """Estimated squares of the rows in the inverse Hessians."""
        coef, intercept = self._effective
        n_hessians, n_directions, _, n_outputs = self.directions.shape
        products = predictions(rows, coef) + intercept
        products = products.reshape(-1, n_hessians, n_directions, n_outputs)
        return np.einsum("rhdk,rhdk->rhk", products, products).max(axis=1)
