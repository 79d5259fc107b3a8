"""No fit returns more than the objective at zero, whatever its tolerance.

A loose tolerance may hold at a point that is worse than doing nothing, and rounding may
lead a solver there. The objective at zero is known without a pass.
"""

import numpy as np

from skcara.objective import Problem
from skcara.passes import evaluate_first
from skcara.solvers._driver import Solver
from skcara.solvers._rounds import Round

# The objective of a round is rounded, and so is the one at zero.
_NOISE = 1e-12


def bounded_by_zero(problem: Problem, solver: Solver) -> Solver:
    """Pass on what a solver yields; a round above the objective at zero is no end.

    The first such round is followed by one at zero, which is the best so far.
    """
    ceiling = problem.objective_at_zero
    answer, has_zero = None, ceiling is None
    try:
        while True:
            try:
                item = solver.send(answer)
            except StopIteration:
                return
            answer = None  # it may be a copy of many rows
            is_above = False
            if ceiling is not None and isinstance(item, Round):
                # Written so that a NaN is above.
                is_above = not item.evaluation.objective <= ceiling * (1 + _NOISE)
            if is_above:
                evaluation = item.evaluation._replace(stop_value=np.inf)
                item = item._replace(evaluation=evaluation)
            answer = yield item
            if is_above and not has_zero:
                has_zero = True
                yield from _round_at_zero(problem)
    finally:
        solver.close()


def _round_at_zero(problem):
    params = np.zeros((problem.n_params, problem.n_outputs))
    _, evaluation = yield from evaluate_first(problem, params)
    yield Round(evaluation)
