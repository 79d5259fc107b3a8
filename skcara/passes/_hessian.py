"""Hessian of the mean loss on all rows."""

from dataclasses import dataclass

import numpy as np

from skcara.data import SumTask
from skcara.objective import Problem


@dataclass(frozen=True, eq=False)
class Hessian(SumTask):
    """Hessian of the mean loss, without penalty, in flat coordinates.

    Attributes
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    """

    problem: Problem
    params: np.ndarray

    def visit(self, chunk):
        """Hessian of the rows of a chunk."""
        problem = self.problem
        rows = problem.coordinates.design_rows(chunk.rows)
        hessian = problem.loss.hessian(
            rows,
            problem.shares_of(chunk),
            problem.target_of(chunk),
            rows @ self.params,
        )
        return [hessian]

    def finish(self, total):
        """Return the matrix."""
        return total[0]
