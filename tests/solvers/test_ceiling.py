"""No fit returns more than the objective at zero."""

import warnings

import numpy as np
import pytest
from certificates import logistic_objective, squared_objective

from skcara import CaLasso, CaLogisticRegression


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
