"""Where the entries lie in memory, and how wide they are, changes nothing."""

import numpy as np
import pytest
from data.layouts import unaligned
from numpy.testing import assert_allclose, assert_array_equal
from problems import classification, regression
from sklearn.base import clone

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

SOLVERS = ["auto", "cabcd", "cagd"]
MODELS = [CaLeastSquares(), CaLasso(0.02), CaLogisticRegression()]


def data_for(model, n_rows=3000):
    is_classifier = isinstance(model, CaLogisticRegression)
    return (classification if is_classifier else regression)(n_rows=n_rows)


@pytest.mark.parametrize("n_rows", [3000, 140_000])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_unaligned_data_give_the_same_bits(model, solver, n_rows):
    X, y = data_for(model, n_rows)
    model = clone(model).set_params(solver=solver)
    coef = model.fit(X, y).coef_
    assert_array_equal(model.fit(unaligned(X), y).coef_, coef)


@pytest.mark.parametrize("solver", [*SOLVERS, "canewton"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_extended_precision_is_read_as_double(model, solver):
    X, y = data_for(model)
    model = clone(model).set_params(solver=solver)
    coef = model.fit(X, y).coef_
    wide = model.fit(X.astype(np.longdouble), y)
    assert wide.coef_.dtype == np.float64
    assert_allclose(wide.coef_, coef, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_extended_precision_is_sampled_and_recombined(model):
    X, y = data_for(model, 140_000)
    model = clone(model).set_params(tol=1e-6)
    if isinstance(model, CaLogisticRegression):
        model.set_params(recombination="tree")
    coef = model.fit(X, y).coef_
    wide = model.fit(X.astype(np.longdouble), y)
    assert_allclose(wide.coef_, coef, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_results_do_not_depend_on_the_number_of_threads(model, solver):
    X, y = data_for(model, 140_000)
    one, two = (
        clone(model).set_params(solver=solver, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2)
    )
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.intercept_, two.intercept_)
    for name in ("objective", "optimality", "criterion", "passes"):
        assert_array_equal(one.history_[name], two.history_[name])
