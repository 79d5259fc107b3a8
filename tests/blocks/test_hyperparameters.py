"""Block rules as hyperparameters of an estimator."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skcara import CaLasso, CaLogisticRegression
from skcara.blocks import rule_names, rule_params


def data():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((150, 5))
    return X, X @ [1.0, 0.0, -2.0, 0.5, 0.0] + 0.3 * rng.standard_normal(150)


def test_grid_search_over_rules_finds_the_same_model_everywhere():
    """Rules change the way, not the optimum: all scores are equal."""
    X, y = data()
    grid = [
        {name: [value] for name, value in rule_params(rule).items()}
        for rule in ("VB_GS_Lb", "Sort_GSL_Hb", "Avg_Random_Lb", "VB_IHT_Hb")
    ]
    estimator = CaLasso(
        alpha=0.05, solver="cabcd", fraction=None, tol=1e-8, random_state=0
    )
    search = GridSearchCV(estimator, grid, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, scores[0], atol=1e-5)


@pytest.mark.parametrize("rule", rule_names(("gradient",)))
def test_every_rule_fits_an_estimator(rule):
    X, y = data()
    params = {"solver": "cabcd", "fraction": None, "tol": 1e-3, "random_state": 0}
    model = CaLogisticRegression(max_iter=1000, **params, **rule_params(rule))
    model.fit(X, y > 0)
    assert model.solver_ == "cabcd"
    assert model.optimality_ <= 1e-3


def test_invalid_rule_is_refused_by_the_estimator():
    X, y = data()
    model = CaLasso(solver="cabcd", partition="Order", selection="IHT")
    with pytest.raises(ValueError, match="not defined for partition"):
        model.fit(X, y)
