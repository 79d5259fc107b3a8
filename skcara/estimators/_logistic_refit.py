"""The final fit of CaLogisticRegressionCV, on all rows with the best penalty."""

import numpy as np

from skcara.data import Coordinates, Source
from skcara.estimators._logistic_grid import LogisticGrid
from skcara.estimators._logistic_search import Found
from skcara.solvers import Solver, SolverFactory

# Up to this many entries a fit takes milliseconds, and the final fit starts from zero:
# it is that of an estimator without a search. The mean of the folds may be within the
# tolerance and not as accurate.
_SMALL_ENTRIES = 2**18


def final_solver(
    source: Source, grid: LogisticGrid, number: int, found: Found, seed
) -> tuple[Solver, Coordinates]:
    """A solver for all rows: the one that went along with the search, if it can.

    Another one starts from the mean of the folds if there are many rows.

    Returns
    -------
    solver : Solver
    coordinates : Coordinates
        In which it works.
    """
    fit = found.full_fit
    if fit is not None and fit.number == number:
        return fit.resume(), found.coordinates
    factory = SolverFactory(
        "canewton", {"recombination": "auto"}, source, grid.fit_intercept
    )
    start = found.paths[:, number].mean(axis=0)
    if source.facts.n_entries <= _SMALL_ENTRIES:
        start = np.zeros_like(start)
    n_features = source.facts.n_features
    intercept = start[:, -1] if grid.fit_intercept else np.zeros(len(start))
    problem = grid.full_problem(source, number, found.units)
    coef = start[:, :n_features].T.copy()
    return factory.start(problem, coef, intercept, seed), factory.coordinates
