"""A starting point from ever larger parts of a sample.

Newton steps far from the optimum are taken where they cost little: on every 36th row,
then on every 6th, then on the whole sample, each part starting from the solution of the
one before. A sample of ``m`` rows determines the optimum up to a relative
suboptimality of about ``n_coords / m``, so each part needs one or two steps only.
"""

from dataclasses import dataclass

import numpy as np

from skcara.solvers._quadratic import QuadraticModel
from skcara.solvers.newton._reduced import ReducedProblem
from skcara.solvers.newton._reduced_steps import minimize_reduced

# The first part has about this many rows per column, the next ones six times more.
_ROWS_PER_PARAM = 50
_GROWTH = 6
#: How well a part is solved, relative to the distance from its optimum.
ACCURACY = 0.02


@dataclass(frozen=True)
class Start:
    """A starting point, the rows that were read for it, and a Hessian near it."""

    params: np.ndarray
    reduced_rows: float = 0.0
    model: QuadraticModel | None = None


def run_pilot(
    sample: ReducedProblem,
    full,
    params,
    *,
    finest: int = 0,
    accuracy: float = ACCURACY,
) -> Start:
    """Minimise on parts of a sample, from coarse to fine.

    Parameters
    ----------
    sample : ReducedProblem
    full : Problem
        The problem of which it is a sample.
    params : ndarray of shape (n_params, n_outputs)
    finest : {0, 1}
        Whether the whole sample is the last part (0) or left out (1).
    accuracy : float
        See :data:`ACCURACY`.
    """
    coarsest = 0
    if not full.loss.is_quadratic:  # for which one step is exact
        ratio = max(sample.n_rows / (_ROWS_PER_PARAM * full.n_params), 1.0)
        coarsest = round(np.log(ratio) / np.log(_GROWTH))
    reduced_rows, model = 0.0, None
    for level in range(coarsest, finest - 1, -1):
        stride = _GROWTH**level
        start = minimize_part(sample, full, params, stride=stride, accuracy=accuracy)
        params, model = start.params, start.model
        reduced_rows += start.reduced_rows
    return Start(params, reduced_rows, model)


def minimize_part(
    sample: ReducedProblem, full, params, *, stride: int = 1, accuracy: float = ACCURACY
) -> Start:
    """Minimise on every ``stride``-th row of a sample, to an accuracy.

    A column that is rare in the sample may separate the classes there: the prior
    keeps its coefficient from running away.
    """
    weights = sample.weights[::stride]
    part = ReducedProblem(
        # A slice of a sparse matrix is a copy.
        sample.rows if stride == 1 else sample.rows[::stride],
        sample.target[::stride],
        weights / weights.sum(),
        sample.loss,
        sample.penalty,
    )
    nothing = np.zeros(part.shape)
    part = part.tilted(nothing, nothing, prior(full, part.n_rows))
    start = part.evaluate(params.ravel())
    solution = minimize_reduced(part, start, accuracy=accuracy)
    reduced_rows = (1 + solution.evaluations + solution.hessians) * part.n_rows
    return Start(solution.params.reshape(params.shape), reduced_rows, solution.model)


def prior(full, n_rows):
    """Curvature worth one more among ``n_rows`` for every feature (unit variance)."""
    curvature = np.zeros((full.n_params, 1))
    curvature[: full.n_features] = 1.0 / n_rows
    return curvature
