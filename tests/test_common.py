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

# Larger blocks need fewer rounds: a quarter of the time, for the same checks.
ESTIMATORS = [
    cls(**parameters)
    for cls in (CaLeastSquares, CaLasso, CaLogisticRegression)
    for parameters in ({}, {"solver": "cabcd", "block_size": 5}, {"solver": "cagd"})
]
ESTIMATORS += [CaLassoCV(), CaLassoCV(l1_ratio=[0.5, 1.0], standardize=True)]
ESTIMATORS += [
    CaLogisticRegressionCV(),
    CaLogisticRegressionCV(
        Cs=3, cv=3, l1_ratios=[0.5, 1.0], standardize=True, scoring="accuracy"
    ),
]


def parametrize_with_list_of_checks(estimators):
    """scikit-learn's decorator with its checks in a list.

    Its older versions hand an iterator to pytest, whose newer versions want a list.
    """
    decorator = parametrize_with_checks(estimators)
    names, checks = decorator.args
    return pytest.mark.parametrize(names, list(checks), **decorator.kwargs)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@parametrize_with_list_of_checks(ESTIMATORS)
def test_sklearn_contract(estimator, check):
    check(estimator)
