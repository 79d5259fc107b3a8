"""Certificates from sums of second moments hold for the worst that rounding can do.

The judge works in extended precision on the same bits of the data.
"""

import numpy as np
import pytest
from cases import Trace
from certificates import extended, lasso_dual_gap, squared_objective
from solvers.tall_problems import make_problem

from skcara import CaLasso
from skcara.objective._rounding import PassRounding
from skcara.passes import Evaluate
from skcara.solvers.squared import iterate_statistics

N_ROWS = 40_000
# What the additions of the rows of a chunk, one after the other, may do to a sum.
MAX_ROUNDING = 16_384 * np.finfo(float).eps


def balanced(rng):
    """Columns of zeros and ones, half and half."""
    return (rng.random((N_ROWS, 8)) < 0.5).astype(float)


def correlated(rng):
    """Columns of +-0.3, whose sums of products are not exact, nearly all alike."""
    common = rng.choice([-0.3, 0.3], (N_ROWS, 1))
    own = rng.choice([-0.3, 0.3], (N_ROWS, 8))
    return np.where(rng.random((N_ROWS, 8)) < 0.9, common, own)


def in_order(rng):
    """Sorted rows: all the partial sums are as large as they can be."""
    return np.sort(np.abs(rng.standard_normal((N_ROWS, 8))), axis=0)


DESIGNS = {
    "balanced": balanced,
    "correlated": correlated,
    "sorted": in_order,
    "offset": lambda rng: rng.standard_normal((N_ROWS, 8)) + 3.0,
    "far offset": lambda rng: rng.standard_normal((N_ROWS, 8)) + 1e5,
    "scales": lambda rng: rng.standard_normal((N_ROWS, 8)) * np.logspace(-6, 6, 8),
    "heavy": lambda rng: rng.standard_t(2, (N_ROWS, 8)),
    "float32": lambda rng: rng.standard_normal((N_ROWS, 8)).astype(np.float32),
    "int8": lambda rng: rng.integers(-100, 100, (N_ROWS, 8)).astype(np.int8),
}
PENALTIES = {"none": {}, "l1": {"l1": 1e-3}, "elastic-net": {"l1": 1e-3, "l2": 1e-3}}


def data(design, seed=0):
    rng = np.random.default_rng(seed)
    X = DESIGNS[design](rng)
    score = X @ (rng.standard_normal(8) / np.abs(X).max(axis=0).astype(float))
    return X, score + rng.standard_normal(N_ROWS) + 0.7, rng


def exact_evaluation(case, params, weights):
    """Loss and gradient in the coordinates of the solver, in extended precision."""
    coordinates, source = case.problem.coordinates, case.source
    rows = source.X.astype(np.longdouble) - coordinates.shift
    rows /= coordinates.scale
    rows = np.hstack([rows, np.ones((N_ROWS, 1), dtype=np.longdouble)])
    mu = np.ones(N_ROWS) if weights is None else weights
    mu = mu.astype(np.longdouble) / mu.astype(np.longdouble).sum()
    residual = rows @ params[:, 0].astype(np.longdouble) - source.target
    return 0.5 * (mu @ residual**2), (mu * residual) @ rows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("design", DESIGNS)
def test_errors_of_statistics_are_within_their_bounds(design, penalty, weighted):
    X, y, rng = data(design)
    weights = rng.random(N_ROWS) if weighted else None
    case = make_problem(X, y, "squared", sample_weight=weights, **penalty)
    case, trace = case.standardised(), Trace()
    solver = trace.follow(iterate_statistics(case.problem, case.zeros))
    case.solve(solver, tol=np.inf, max_iter=1)
    claimed = trace.rounds[0].evaluation
    assert claimed.gradient_error is not None, "the first round needs no exact pass"
    loss, gradient = exact_evaluation(case, claimed.params, weights)
    assert abs(claimed.loss - loss) <= claimed.loss_error
    error = np.abs(claimed.gradient[:, 0] - gradient)
    assert (error <= claimed.gradient_error[:, 0]).all()
    # A bound that is far from the truth would cost passes.
    assert claimed.loss_error <= 1e-8 * loss


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("design", DESIGNS)
def test_errors_of_passes_are_within_their_bounds(design, weighted):
    X, y, rng = data(design)
    weights = rng.random(N_ROWS) if weighted else None
    case = make_problem(X, y, "squared", sample_weight=weights, l1=1e-3).standardised()
    params = rng.standard_normal(case.zeros.shape)
    answer = case.ask(Evaluate(case.problem, params, with_moments=True))
    claimed = answer.evaluation
    bounds = PassRounding(answer.problem, params, claimed.loss)
    loss, gradient = exact_evaluation(case, params, weights)
    error = np.abs(claimed.gradient[:, 0] - gradient)
    assert (error <= bounds.gradient).all()
    assert 2 * abs(claimed.loss - loss) <= bounds.square
    # A bound that is far from the truth would be of no use.
    assert bounds.square <= 1e-8 * loss


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("design", DESIGNS)
def test_dual_gap_is_no_smaller_than_the_exact_one(design, l1_ratio, weighted):
    X, y, rng = data(design)
    weights = rng.random(N_ROWS) if weighted else None
    model = CaLasso(1e-3, l1_ratio=l1_ratio, tol=1e-6)
    model.fit(X, y, sample_weight=weights)
    strengths = 1e-3 * l1_ratio, 1e-3 * (1 - l1_ratio)
    fitted = *extended(X, y, model.coef_, model.intercept_), *strengths
    [mu] = extended(weights)
    gap = lasso_dual_gap(*fitted, sample_weight=mu)
    objective = squared_objective(*fitted, sample_weight=mu)
    # Coefficients and intercept of the user are rounded once more.
    noise = 1e-14 * y.var() * (1 + np.abs(model.intercept_) / y.std())
    assert model.dual_gap_ >= 0.99 * gap - noise
    assert gap <= 1e-6 * y.var() + noise
    # A dual point leaves room for the rounding of its products with the columns; what
    # that costs is as much for each unit of a coefficient.
    sizes = np.sqrt(np.mean(np.square(X, dtype=float), axis=0))
    room = MAX_ROUNDING * sizes.max() * y.std() * np.abs(model.coef_).sum()
    assert model.dual_gap_ <= 1e-6 * y.var() * 1.01 + room
    assert model.objective_ == pytest.approx(float(objective), rel=1e-9)
