"""No fit returns more than the objective at zero."""

import warnings

import numpy as np
import pytest
from certificates import logistic_objective, squared_objective
from solvers.tall_problems import gaussian, labels, make_problem

from skcara import CaLasso, CaLogisticRegression
from skcara.solvers import Round
from skcara.solvers._ceiling import bounded_by_zero


def test_loose_tolerance_is_no_excuse():
    rng = np.random.default_rng(3)
    X = (rng.uniform(size=(1567, 2)) < 0.03).astype(float)
    y = rng.integers(0, 2, 1567)
    model = CaLogisticRegression(C=7.6, tol=0.07).fit(X, y)
    objective = logistic_objective(X, y, model.coef_, model.intercept_, 7.6)
    assert objective <= np.log(2) * (1 + 1e-12)


def test_outlier_in_a_hard_problem():
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(15_484, 16)) < 0.5, 0.3, -0.3)
    X[5, 3] *= 1e6
    y = rng.integers(0, 4, len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CaLogisticRegression(C=1e12, tol=3e-9, max_iter=3).fit(X, y)
    objective = logistic_objective(X, y, model.coef_, model.intercept_, 1e12)
    assert objective <= np.log(4) * (1 + 1e-12)
    assert model.objective_ == pytest.approx(objective, rel=1e-10)


@pytest.mark.parametrize("alpha", [1e20, 1e42, 1e114, 1e150])
def test_penalties_beyond_all_measure(alpha):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 3)), rng.standard_normal(100)
    model = CaLasso(alpha).fit(X, y)
    assert not model.coef_.any()
    objective = squared_objective(X, y, model.coef_, model.intercept_)
    assert objective <= 0.5 * np.mean(y**2)


def test_a_solver_that_ends_above_zero_is_not_believed():
    X, score, rng = gaussian(500, 3)
    case = make_problem(X, labels(score, rng), "logistic", l2=1e-3)
    far = case.evaluate(case.zeros + 5.0)
    assert far.objective > 2 * np.log(2)

    def solver():
        yield Round(far._replace(stop_value=0.0))

    result = case.solve(bounded_by_zero(case.problem, solver()), tol=1.0, max_iter=5)
    assert result.evaluation.objective == pytest.approx(np.log(2))
    assert not result.evaluation.params.any()
