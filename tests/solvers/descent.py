"""Problems for the descent solvers and a judge that shares no code with them."""

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax

from skcara.data import Design
from skcara.objective import (
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    SeparablePenalty,
    SquaredLoss,
)
from skcara.solvers import run_rounds

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
    design = Design(X, fit_intercept=fit_intercept, n_jobs=n_jobs)
    return Problem(design, y, loss, penalty, KKTViolation(), sample_weight)


def run(iterate, problem, options, *, params=None, tol=1e-9, max_iter=2000, seed=0):
    """Run a solver to the end."""
    rounds = iterate(problem, start(problem, params), options, rng(seed))
    return run_rounds(rounds, tol=tol, max_iter=max_iter)


def trajectory(iterate, problem, options, n_rounds, *, params=None, seed=0):
    """First rounds of a solver, the starting point included."""
    rounds = iterate(problem, start(problem, params), options, rng(seed))
    return [one for _, one in zip(range(n_rounds + 1), rounds, strict=False)]


def start(problem, params=None):
    if params is None:
        return np.zeros((problem.n_params, problem.n_outputs))
    return np.array(params, dtype=float)


def rng(seed):
    return np.random.RandomState(seed)


def dense_design(problem):
    """Columns of the problem as a plain matrix."""
    X = problem.design.X
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    if problem.design.fit_intercept:
        X = np.column_stack([X, np.ones(len(X))])
    return X


def textbook_gradient(problem, params):
    """Gradient of the mean loss, from the textbook formulas and a dense matrix."""
    X, y, mu = dense_design(problem), problem.target, np.array(problem.weights)
    prediction = X @ params
    if isinstance(problem.loss, SquaredLoss):
        derivative = prediction - y[:, None]
    elif isinstance(problem.loss, LogisticLoss):
        derivative = expit(prediction) - y[:, None]
    else:
        derivative = softmax(prediction, axis=1)
        derivative[np.arange(len(y)), y] -= 1
    return X.T @ (mu[:, None] * derivative)


def kkt_violation(problem, params):
    """Largest distance to the subdifferential, independent of the package."""
    penalty = problem.penalty
    gradient = textbook_gradient(problem, params) + penalty.l2 * params
    l1 = np.broadcast_to(penalty.l1, params.shape)
    positive = np.broadcast_to(penalty.positive, params.shape)
    away = np.abs(gradient + l1 * np.sign(params))
    free_zero = np.maximum(np.abs(gradient) - l1, 0)
    bound_zero = np.maximum(-gradient - l1, 0)
    at_zero = np.where(positive, bound_zero, free_zero)
    assert np.all(params[positive] >= 0)
    return np.where(params == 0, at_zero, away).max()
