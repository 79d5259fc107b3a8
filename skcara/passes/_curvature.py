"""An evaluation together with the curvature of single coordinates."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skcara.data import SumTask, predictions, squared_sums, weighted_sums
from skcara.objective import Evaluation, Problem


class CurvatureSums(NamedTuple):
    r"""Sums over all rows, in the coordinates of the solver.

    With the weights :math:`\mu_i` and the curvature :math:`h_{ik}` of the loss of row
    ``i`` in output ``k``:

    Attributes
    ----------
    mass : ndarray of shape (n_outputs,)
        :math:`\sum_i \mu_i h_{ik}`.
    first : ndarray of shape (n_features, n_outputs)
        :math:`\sum_i \mu_i h_{ik} x_{ij}`.
    second : ndarray of shape (n_features, n_outputs) or None
        :math:`\sum_i \mu_i h_{ik} x_{ij}^2`, the diagonal of the Hessian.
    """

    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray | None


class Curved(NamedTuple):
    """Answer to :class:`EvaluateCurvature`."""

    evaluation: Evaluation
    sums: CurvatureSums


@dataclass(frozen=True, eq=False)
class EvaluateCurvature(SumTask):
    """Evaluate a problem at a point, and sum the curvature there.

    Attributes
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    has_second : bool
        Whether the second moments are asked for: of dense rows they cost another pass,
        the first ones next to nothing.
    """

    problem: Problem
    params: np.ndarray
    has_second: bool = True

    @cached_property
    def _effective_params(self):
        return self.problem.coordinates.effective_params(self.params)

    def visit(self, chunk):
        """Sums of a chunk."""
        problem, loss = self.problem, self.problem.loss
        rows = problem.coordinates.rows(chunk.rows)
        target, weights = problem.target_of(chunk), chunk.weights
        coef, intercept = self._effective_params
        prediction = predictions(rows, coef, is_cached=problem.facts.are_cached)
        prediction += intercept
        square = float(np.vdot(prediction, prediction))
        curvature = loss.curvature(target, prediction)
        if weights is not None:
            curvature *= weights[:, None]
        value, derivative = loss.weighted_sum(target, prediction, weights)
        n_wrong = problem.count_wrong(derivative, weights)
        # One product for both would be slower: BLAS is at its best with one vector.
        sums = np.hstack([weighted_sums(rows, one) for one in (derivative, curvature)])
        mass = np.concatenate([derivative.sum(axis=0), curvature.sum(axis=0)])
        terms = [value, n_wrong, square, mass, sums]
        if self.has_second:
            terms.append(squared_sums(rows, curvature))
        return terms

    def finish(self, total):
        """Return the evaluation and the sums."""
        problem, n_outputs = self.problem, self.problem.n_outputs
        for terms in total[3:]:
            terms /= problem.total_weight
        value, n_wrong, square, mass, sums, *second = total
        if second:
            second = [self._corrected(second[0], sums[:, n_outputs:], mass[n_outputs:])]
        sums = problem.coordinates.correct_sums(sums, mass)
        evaluation = problem.certify(
            self.params,
            float(value) / problem.total_weight,
            np.ascontiguousarray(sums[:, :n_outputs]),
            is_separated=bool(problem.may_be_unbounded and n_wrong == 0),
            has_overflowed=not np.isfinite(square),
        )
        first = sums[: problem.n_features, n_outputs:]
        return Curved(
            evaluation,
            CurvatureSums(mass[n_outputs:], first, second[0] if second else None),
        )

    def _corrected(self, second, first, mass):
        """Second moments in the coordinates of the solver."""
        coordinates = self.problem.coordinates
        shift = coordinates.implicit_shift[:, None]
        second = second - 2 * shift * first + shift**2 * mass
        return np.maximum(second, 0.0) / coordinates.implicit_scale[:, None] ** 2
