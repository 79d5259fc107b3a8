"""A weight of zero removes a row, a weight of k repeats it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import classification, regression

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.estimators._class_weight import ClassWeights

CASES = [
    (CaLeastSquares(tol=1e-10), regression),
    (CaLasso(0.05, tol=1e-12), regression),
    (CaLogisticRegression(tol=1e-9), classification),
    (CaLasso(0.05, tol=1e-12, solver="cabcd"), regression),
    (CaLasso(0.05, tol=1e-12, solver="cagd"), regression),
]


@pytest.mark.parametrize(
    ("model", "make"), CASES, ids=lambda case: getattr(case, "__name__", str(case))
)
def test_weights_are_repetitions(model, make):
    X, y = make()
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = model.fit(X, y, sample_weight=weights).coef_
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).coef_
    assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-6)


def test_only_ratios_of_weights_matter_for_regressors():
    X, y = regression()
    weights = np.random.default_rng(0).random(len(y))
    model = CaLasso(0.05, tol=1e-10)
    coef = model.fit(X, y, sample_weight=weights).coef_
    assert_allclose(model.fit(X, y, sample_weight=1e6 * weights).coef_, coef, 1e-8)


def test_doubling_weights_is_doubling_c():
    X, y = classification()
    double = CaLogisticRegression(C=0.1, tol=1e-9).fit(X, y, np.full(len(y), 2.0))
    assert_allclose(
        double.coef_, CaLogisticRegression(C=0.2, tol=1e-9).fit(X, y).coef_, rtol=1e-6
    )


def test_class_weight_multiplies_into_sample_weight():
    X, y = classification(n_classes=3)
    weights = np.random.default_rng(0).random(len(y))
    by_class = CaLogisticRegression(class_weight={0: 2.0, 2: 0.5}, tol=1e-9)
    factors = np.array([2.0, 1.0, 0.5])[y]
    expected = CaLogisticRegression(tol=1e-9).fit(X, y, weights * factors)
    assert_allclose(by_class.fit(X, y, weights).coef_, expected.coef_, rtol=1e-6)


def test_balanced_classes_have_equal_weight():
    X, y = classification(n_classes=3)
    masses = np.bincount(y)
    factors = len(y) / (3 * masses)
    expected = CaLogisticRegression(tol=1e-9).fit(X, y, factors[y])
    balanced = CaLogisticRegression(class_weight="balanced", tol=1e-9).fit(X, y)
    assert_allclose(balanced.coef_, expected.coef_, rtol=1e-6)


def test_class_weight_of_an_unknown_class_is_an_error():
    X, y = classification()
    with pytest.raises(ValueError, match="class"):
        CaLogisticRegression(class_weight={7: 1.0}).fit(X, y)


def test_weights_of_classes_are_summed_accurately():
    """Equal weights, added one after the other, round in the same direction."""
    codes = np.arange(100_000) % 2
    weights = ClassWeights("balanced", np.arange(2), codes, np.full(100_000, 0.1))
    assert abs(weights.sum() - 1e4) <= 1e-14 * 1e4
