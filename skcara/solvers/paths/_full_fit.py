r"""The fit on all rows, which goes on beside the columns of a search.

The penalty that will be chosen is known, most often, long before the last column is
done, and a read for fifty columns can as well be one for a fit on all rows. That starts
where the models of the folds together are least: fold :math:`f` with the total weight
:math:`w_f`, the gradient :math:`g_f` at its best point :math:`a_f` and the Hessian
:math:`H_f` says of the mean loss of all rows

.. math:: \nabla f(p) \approx \frac{1}{\sum_f w_f}
    \sum_f w_f\, (g_f + H_f (p - a_f)) ,

which is exact for a quadratic loss if all rows are in equally many training sets. From
there Newton and secant steps on all rows lead on, as in any other fit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from skcara.objective import Problem
from skcara.solvers._ceiling import bounded_by_zero
from skcara.solvers._driver import Solver
from skcara.solvers._quadratic import QuadraticModel, penalised_model
from skcara.solvers._rounds import Round
from skcara.solvers._strategy import Way
from skcara.solvers.newton import iterate_from_model
from skcara.solvers.paths._fold_column import Column


class FullFit:
    """A fit on all rows that somebody else reads for, until it is driven alone.

    Parameters
    ----------
    number : int
        Of its penalty.
    problem : Problem
        In the coordinates of the solver.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    model : QuadraticModel
        Approximate Hessian there.
    tol : float
    """

    def __init__(
        self,
        number: int,
        problem: Problem,
        params: np.ndarray,
        model: QuadraticModel,
        tol: float,
    ):
        self.number, self._problem, self._tol = number, problem, tol
        self._solver = iterate_from_model(problem, params, model)
        self._rounds: list[Round] = []
        self._request: Any = next(self._solver)

    @property
    def requests(self) -> list:
        """What it wants to be read: nothing, or one thing."""
        return [] if self._request is None else [self._request]

    def learn(self, answers: list) -> None:
        """Take in the answers to the requests."""
        for answer in answers:
            self._request = self._advance(answer)

    def _advance(self, answer):
        """The next request, or None if there need not be another one."""
        try:
            item = self._solver.send(answer)
            while isinstance(item, Round):
                self._rounds.append(item)
                if item.is_converged(self._tol):
                    return None
                item = next(self._solver)
        except StopIteration:
            return None
        return item

    def resume(self) -> Solver:
        """A solver that tells the rounds so far, and goes on."""
        return bounded_by_zero(self._problem, self._resume())

    def _resume(self):
        yield Way.NEWTON
        yield from self._rounds
        try:
            item = next(self._solver) if self._request is None else self._request
            while True:
                item = self._solver.send((yield item))
        except StopIteration:
            return


class FullFits:
    """Follows the penalty that scores best with a fit on all rows.

    Parameters
    ----------
    problem_of : callable
        The problem of a penalty by its number, on all rows and in the coordinates of
        the solver.
    best_of : callable
        Number of the best penalty, from losses of shape (n_folds, n_penalties).
    tol : float

    Attributes
    ----------
    current : FullFit or None
    """

    def __init__(
        self,
        problem_of: Callable[[int], Problem],
        best_of: Callable[[np.ndarray], int],
        tol: float,
    ):
        self._problem_of, self._best_of, self._tol = problem_of, best_of, tol
        self.current: FullFit | None = None

    @property
    def requests(self) -> list:
        """What the current fit wants to be read."""
        return [] if self.current is None else self.current.requests

    def learn(self, answers: list, columns: list[Column]) -> None:
        """Take in what was read, for the current fit and for the columns.

        Another penalty may be the best one then. If its columns have no models any
        more, which are what a fit starts from, there is none.

        Parameters
        ----------
        answers : list
        columns : list of Column
            Ordered by fold, then by penalty.
        """
        if self.current is not None:
            self.current.learn(answers)
        losses = np.array([column.score_loss for column in columns])
        if not np.isfinite(losses).all():
            return
        number = self._best_of(losses.reshape(columns[-1].fold + 1, -1))
        if self.current is not None and self.current.number == number:
            return
        folds = [column for column in columns if column.number == number]
        self.current = None
        if all(column.model is not None for column in folds):
            problem = self._problem_of(number)
            params, model = _start_from(folds, problem)
            self.current = FullFit(number, problem, params, model, self._tol)


def _start_from(columns, problem):
    """Where the models of the folds are least together, and their mean."""
    n_coords, n_outputs = problem.n_coords, problem.n_outputs
    weights = np.array([column.problem.total_weight for column in columns])
    hessian, slope = np.zeros((n_coords, n_coords)), np.zeros(n_coords)
    for column, weight in zip(columns, weights / weights.sum(), strict=True):
        _, l2, _ = column.problem.penalty.flat(n_outputs)
        own = column.model.matrix - np.diag(l2)
        hessian += weight * own
        gradient = column.anchor.gradient.ravel()
        slope += weight * (gradient - own @ column.anchor.params.ravel())
    point = np.mean([column.anchor.params for column in columns], axis=0).ravel()
    model = penalised_model(hessian, problem.penalty, n_outputs)
    params = model.minimize(point, slope + model.matrix @ point)
    return params.reshape(problem.n_params, n_outputs), model
