"""Problems for the descent solvers and a judge that shares no code with them."""

from itertools import accumulate
from typing import NamedTuple

import numpy as np
from cases import Case, Trace, make_case
from scipy import sparse
from scipy.special import expit, softmax

from skcara.objective import (
    Evaluation,
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    SeparablePenalty,
    SquaredLoss,
)
from skcara.solvers import Measure

LOSSES = ["squared", "logistic", "multinomial"]


def make_data(loss="squared", n_rows=200, n_features=12, seed=0):
    """Correlated columns of different scales and targets that fit the loss."""
    rng = np.random.RandomState(seed)
    mixing = np.eye(n_features) + 0.2 * rng.standard_normal((n_features, n_features))
    X = rng.standard_normal((n_rows, n_features)) @ mixing
    coef = rng.standard_normal((n_features, 3)) * (rng.rand(n_features, 1) < 0.6)
    if loss == "squared":
        return X, X @ coef[:, 0] + rng.standard_normal(n_rows)
    if loss == "logistic":
        return X, (rng.rand(n_rows) < expit(X @ coef[:, 0])).astype(int)
    return X, np.argmax(X @ coef + rng.gumbel(size=(n_rows, 3)), axis=1)


def make_problem(
    X,
    y,
    loss="squared",
    *,
    l1=0.0,
    l2=0.0,
    positive=False,
    fit_intercept=False,
    sample_weight=None,
    n_jobs=None,
):
    """Problem in the coordinates of the user; the intercept is not penalised."""
    losses = {"squared": SquaredLoss, "logistic": LogisticLoss}
    loss = losses[loss]() if loss in losses else MultinomialLoss(int(y.max()) + 1)
    n_params = X.shape[1] + fit_intercept
    penalised = (np.arange(n_params) < X.shape[1])[:, None]
    penalty = SeparablePenalty(l1 * penalised, l2 * penalised, positive & penalised)
    return make_case(
        X,
        y,
        loss,
        penalty,
        KKTViolation(),
        fit_intercept=fit_intercept,
        sample_weight=sample_weight,
        n_jobs=n_jobs,
    )


def solver_of(iterate, case: Case, options, params=None, seed=0):
    """Return a solver that is ready to be driven."""
    start = case.zeros if params is None else np.array(params, dtype=float)
    rng = np.random.RandomState(seed)
    return iterate(case.problem, start, options, rng, n_jobs=case.source.n_jobs)


def run(iterate, case, options, *, params=None, tol=1e-9, max_iter=2000, seed=0):
    """Run a solver to the end."""
    solver = solver_of(iterate, case, options, params, seed)
    return case.solve(solver, tol=tol, max_iter=max_iter)


class Stage(NamedTuple):
    """What is known after a round; counts since the start, as in `history_`."""

    evaluation: Evaluation
    passes: float
    n_recombinations: int
    inner_steps: int
    measure: Measure | None


def trajectory(iterate, case, options, n_rounds, *, params=None, seed=0, trace=None):
    """First rounds of a solver, the starting point included."""
    trace = Trace() if trace is None else trace
    solver = trace.follow(solver_of(iterate, case, options, params, seed))
    # No criterion is negative: only the number of rounds ends the run.
    result = case.solve(solver, tol=-1.0, max_iter=n_rounds)
    counts = accumulate(one.n_recombinations for one in trace.rounds)
    return [
        Stage(one.evaluation, passes, count, one.inner_steps, one.measure)
        for one, passes, count in zip(
            trace.rounds, result.history["passes"], counts, strict=True
        )
    ]


def evaluations_of(trace: Trace):
    """Return all evaluations that a solver asked for, also for refused moves."""
    return [answer for answer in trace.answers if isinstance(answer, Evaluation)]


def dense_design(case):
    """Columns of the problem as a plain matrix."""
    X = case.source.X
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    if case.problem.coordinates.fit_intercept:
        X = np.column_stack([X, np.ones(len(X))])
    return X


def shares(case):
    """Weights of the rows, summing to one."""
    weights = case.source.weights
    weights = np.ones(case.source.n_rows) if weights is None else weights
    return weights / weights.sum()


def hessian_bound(case):
    """Bound of the Hessian at every point, from a dense matrix."""
    X, problem = dense_design(case), case.problem
    gram = X.T @ (shares(case)[:, None] * X)
    ridge = np.repeat(problem.penalty.l2[:, 0], problem.n_outputs)
    return np.kron(gram, problem.loss.curvature_bound) + np.diag(ridge)


def textbook_gradient(case, params):
    """Gradient of the mean loss, from the textbook formulas and a dense matrix."""
    X, y, mu = dense_design(case), case.source.target, shares(case)
    prediction, loss = X @ params, case.problem.loss
    if isinstance(loss, SquaredLoss):
        derivative = prediction - y[:, None]
    elif isinstance(loss, LogisticLoss):
        derivative = expit(prediction) - y[:, None]
    else:
        derivative = softmax(prediction, axis=1)
        derivative[np.arange(len(y)), y] -= 1
    return X.T @ (mu[:, None] * derivative)


def kkt_violation(case, params):
    """Largest distance to the subdifferential, independent of the package."""
    penalty = case.problem.penalty
    gradient = textbook_gradient(case, params) + penalty.l2 * params
    l1 = np.broadcast_to(penalty.l1, params.shape)
    positive = np.broadcast_to(penalty.positive, params.shape)
    away = np.abs(gradient + l1 * np.sign(params))
    free_zero = np.maximum(np.abs(gradient) - l1, 0)
    bound_zero = np.maximum(-gradient - l1, 0)
    at_zero = np.where(positive, bound_zero, free_zero)
    assert np.all(params[positive] >= 0)
    return np.where(params == 0, at_zero, away).max()
