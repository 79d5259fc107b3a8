"""scikit-learn's own checks, for the defaults and for each solver."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcara import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
)

ESTIMATORS = [
    cls(**parameters)
    for cls in (CaLeastSquares, CaLasso, CaLogisticRegression)
    for parameters in ({}, {"solver": "cabcd"}, {"solver": "cagd"})
]
ESTIMATORS += [CaLassoCV(), CaLassoCV(l1_ratio=[0.5, 1.0], standardize=True)]
ESTIMATORS += [
    CaLogisticRegressionCV(),
    CaLogisticRegressionCV(
        Cs=3, cv=3, l1_ratios=[0.5, 1.0], standardize=True, scoring="accuracy"
    ),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_contract(estimator, check):
    check(estimator)
