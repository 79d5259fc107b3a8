"""Short cuts for small fits: they skip only what could not have gone wrong."""

import numpy as np
import pytest
from sklearn.utils._param_validation import validate_parameter_constraints

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.estimators._validation import _is_clean

ESTIMATORS = [CaLeastSquares, CaLasso, CaLogisticRegression]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_defaults_are_valid(estimator):
    """A fit does not validate them again."""
    model = estimator()
    validate_parameter_constraints(
        model._parameter_constraints, model.get_params(), type(model).__name__
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "wrong", [{"tol": -1.0}, {"max_iter": 100.0}, {"fit_intercept": 2}, {"solver": 1}]
)
def test_parameters_that_differ_are_validated(estimator, wrong):
    """Also those that are equal to a valid value of another type."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter"):
        estimator(**wrong).fit(X, X[:, 0] > 0)


CLEAN = np.ones((5, 2)), np.ones(5)
UNCLEAN = {
    "list": ([[1.0]], [1.0]),
    "empty": (np.ones((0, 2)), np.ones(0)),
    "no columns": (np.ones((5, 0)), np.ones(5)),
    "lengths": (np.ones((5, 2)), np.ones(4)),
    "column": (np.ones((5, 2)), np.ones((5, 1))),
    "vector": (np.ones(5), np.ones(5)),
    "nan": (np.full((5, 2), np.nan), np.ones(5)),
    "nan in y": (np.ones((5, 2)), np.full(5, np.inf)),
    "strings": (np.ones((5, 2)), np.full(5, "a")),
    "objects": (np.ones((5, 2), dtype=object), np.ones(5)),
    "complex": (np.ones((5, 2), dtype=complex), np.ones(5)),
}


@pytest.mark.parametrize("case", UNCLEAN)
def test_whatever_is_not_clean_is_left_to_scikit_learn(case):
    assert _is_clean(*CLEAN)
    assert not _is_clean(*UNCLEAN[case])
