"""scikit-learn's own checks, for the defaults and for each solver."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

ESTIMATORS = [
    cls(**parameters)
    for cls in (CaLeastSquares, CaLasso, CaLogisticRegression)
    for parameters in ({}, {"solver": "cabcd"}, {"solver": "cagd"})
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_contract(estimator, check):
    check(estimator)
