"""A loss from outside of the package runs on every solver that can run it."""

import numpy as np
import pytest
from cases import Trace, make_case
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import gammaln
from sklearn.linear_model import PoissonRegressor

from skcara.objective import KKTViolation, Loss, SeparablePenalty
from skcara.solvers import SOLVERS, SolverFactory, Status, Way, drive
from skcara.solvers.newton._newton import iterate_newton

PARAMETERS = {
    "recombination": "auto",
    "block_size": 2,
    "partition": "VB",
    "selection": "GS",
    "fraction": "auto",
    "direction": "auto",
    "step_size": "auto",
    "momentum": 0.0,
    "control": "auto",
    "max_inner_iter": "auto",
}


class PoissonLoss(Loss):
    """Negative log-likelihood of counts with a logarithmic link."""

    def value(self, target, prediction):
        z = prediction[:, 0]
        return np.exp(z) - target * z + gammaln(target + 1.0)

    def derivative(self, target, prediction):
        return np.exp(prediction) - target[:, None]

    def second_derivative(self, target, prediction):
        return np.exp(prediction[:, 0])


class HuberisedLoss(Loss):
    """A smooth loss of bounded curvature: the logarithm of the hyperbolic cosine."""

    curvature_bound = np.ones((1, 1))

    def value(self, target, prediction):
        residual = np.abs(prediction[:, 0] - target)
        return residual + np.log1p(np.exp(-2 * residual)) - np.log(2.0)

    def derivative(self, target, prediction):
        return np.tanh(prediction - target[:, None])

    def second_derivative(self, target, prediction):
        return 1.0 / np.cosh(np.clip(prediction[:, 0] - target, -300, 300)) ** 2


def make_problem(loss, n_rows=2000, n_features=6, *, l1=0.0, l2=0.0, to_X=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features))
    coef = np.linspace(-0.5, 0.5, n_features) * np.sqrt(6 / n_features)
    score = X @ coef + 0.5
    if isinstance(loss, PoissonLoss):
        target = rng.poisson(np.exp(score)).astype(float)
    else:
        target = score + rng.standard_t(2, n_rows)
    is_feature = (np.arange(n_features + 1) < n_features)[:, None]
    penalty = SeparablePenalty(is_feature * l1, is_feature * l2, is_feature & False)
    weights = rng.random(n_rows)
    weights[::5] = 0.0
    return make_case(
        to_X(X), target, loss, penalty, KKTViolation(), sample_weight=weights
    )


def fit(name, case, tol=1e-8, **changes):
    parameters = {**PARAMETERS, **changes}
    factory = SolverFactory(name, parameters, case.source, fit_intercept=True)
    start = case.problem.coordinates.to_user(case.zeros)
    solver = factory.start(case.problem, *start, np.random.RandomState(0))
    [result] = drive([solver], case.source, tol=tol, max_iter=3000)
    return result, factory.coordinates.to_user(result.evaluation.params)


def violation(case, coef, intercept):
    """Distance to the subdifferential, from the derivative of the loss alone."""
    X, source = case.source.X, case.source
    X = X.toarray() if sparse.issparse(X) else X
    derivative = case.problem.loss.derivative(source.target, X @ coef + intercept)
    slopes = derivative[:, 0] * source.weights / source.weights.sum()
    l1, l2 = (getattr(case.problem.user_penalty, key)[0, 0] for key in ("l1", "l2"))
    gradient, coef = X.T @ slopes + l2 * coef[:, 0], coef[:, 0]
    at_zero = np.maximum(np.abs(gradient) - l1, 0.0)
    distance = np.where(coef == 0, at_zero, np.abs(gradient + l1 * np.sign(coef)))
    return max(distance.max(), abs(slopes.sum()))


@pytest.mark.parametrize("penalty", [{}, {"l1": 0.05}, {"l2": 0.1}], ids=str)
@pytest.mark.parametrize("method", ["auto", "tree", None])
@pytest.mark.parametrize(
    ("n_rows", "to_X"),
    [(2000, np.asarray), (2000, sparse.csr_array), (160_000, np.asarray)],
)
def test_poisson_regression_on_canewton_reaches_a_kkt_point(
    n_rows, to_X, method, penalty
):
    case = make_problem(PoissonLoss(), n_rows, to_X=to_X, **penalty)
    result, (coef, intercept) = fit("canewton", case, recombination=method)
    assert result.status is Status.CONVERGED
    assert violation(case, coef, intercept) <= 1.01e-8
    if n_rows == 160_000:
        expected = {
            "auto": Way.CALIBRATED_SAMPLE,
            "tree": Way.RECOMBINED_GROUPS,
            None: Way.NEWTON,
        }
        assert result.way is expected[method]


@pytest.mark.parametrize(
    ("shape", "penalty", "way"),
    [
        ((3000, 120), {"l2": 0.1}, Way.SECANT_STEPS),
        ((300, 400), {"l1": 0.2}, Way.WORKING_SETS),
        ((200_000, 6), {}, Way.CALIBRATED_SAMPLE),
    ],
    ids=str,
)
def test_poisson_regression_goes_every_way(shape, penalty, way):
    case = make_problem(PoissonLoss(), *shape, **penalty)
    result, (coef, intercept) = fit("canewton", case)
    assert result.way is way
    assert result.status is Status.CONVERGED
    assert violation(case, coef, intercept) <= 1.01e-8


@pytest.mark.parametrize("name", ["cagd", "cabcd"])
def test_loss_without_a_bound_is_refused_by_name(name):
    """Not by a NaN in the middle of the run."""
    with pytest.raises(ValueError, match="PoissonLoss") as error:
        fit(name, make_problem(PoissonLoss()))
    assert f"solver={name!r}" in str(error.value)
    assert "canewton" in str(error.value), "the message says what to do"


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_loss_with_a_bound_runs_on_all_solvers(name):
    case = make_problem(HuberisedLoss(), l1=0.02)
    result, (coef, intercept) = fit(name, case, tol=1e-7)
    assert result.status is Status.CONVERGED
    assert violation(case, coef, intercept) <= 1.01e-7


def test_poisson_regression_is_that_of_scikit_learn():
    case = make_problem(PoissonLoss(), l2=0.1)
    _, (coef, intercept) = fit("canewton", case)
    twin = PoissonRegressor(alpha=0.1, tol=1e-10, solver="newton-cholesky")
    twin.fit(case.source.X, case.source.target, case.source.weights)
    assert_allclose(coef[:, 0], twin.coef_, atol=1e-6)
    assert_allclose(intercept[0], twin.intercept_, atol=1e-6)


def test_newton_steps_that_overshoot_are_shortened():
    """Far from the target the curvature vanishes, and full steps would diverge."""
    case = make_problem(HuberisedLoss())
    start = np.zeros_like(case.zeros)
    start[-1] = 5.0
    trace = Trace()
    solver = trace.follow(iterate_newton(case.problem, case.evaluate(start)))
    result = case.solve(solver, tol=1e-8, max_iter=50)
    assert result.status is Status.CONVERGED
    assert trace.rounds[0].evaluation.objective > case.evaluate(start).objective
