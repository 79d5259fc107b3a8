"""Shifted and scaled columns leave predictions alone, and sums exact."""

import numpy as np
import pytest
from data.layouts import LAYOUTS, dense, make_rows
from numpy.testing import assert_allclose

from skcara.data import Coordinates


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("layout", ["c", "fortran", "float32", "csr"])
def test_standardised_coordinates_leave_predictions_alone(layout, shifted):
    rng = np.random.default_rng(0)
    X = LAYOUTS[layout](make_rows(rng, n_rows=500))
    is_shifted = shifted and layout != "csr"
    shift = dense(X).mean(axis=0) if is_shifted else np.zeros(6)
    coordinates = Coordinates(shift, dense(X).std(axis=0), True)
    coef, intercept = rng.standard_normal((6, 2)), rng.standard_normal(2)
    params = coordinates.from_user(coef, intercept)
    expected = dense(X) @ coef + intercept
    assert_allclose(coordinates.design_rows(X) @ params, expected, rtol=1e-9)
    back = coordinates.to_user(params)
    assert_allclose(back[0], coef, rtol=1e-12)
    assert_allclose(back[1], intercept, rtol=1e-9)
    raw_coef, raw_intercept = coordinates.effective_params(params)
    assert_allclose(coordinates.rows(X) @ raw_coef + raw_intercept, expected, 1e-9)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e8])
def test_corrected_sums_are_those_of_the_standardised_rows(offset):
    """Also for columns so far from zero that a rank-one correction would cancel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4)) + offset
    coordinates = Coordinates(X.mean(axis=0), X.std(axis=0), True)
    derivative = rng.standard_normal((3000, 2))
    sums = coordinates.rows(X).T @ derivative
    corrected = coordinates.correct_sums(sums, derivative.sum(axis=0))
    expected = coordinates.design_rows(X).T @ derivative
    assert_allclose(corrected, expected, atol=1e-9)


def test_gradients_are_those_of_the_user():
    """The chain rule: slopes along a step do not depend on the coordinates."""
    rng = np.random.default_rng(0)
    coordinates = Coordinates(rng.standard_normal(4), rng.random(4) + 0.5, True)
    gradient = rng.standard_normal((5, 2))
    step, params = rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
    ends = [np.vstack(coordinates.to_user(params + sign * step)) for sign in (1, -1)]
    user_step = 0.5 * (ends[0] - ends[1])
    slope = np.sum(coordinates.gradient_to_user(gradient) * user_step)
    assert slope == pytest.approx(np.sum(gradient * step))


def test_restricted_coordinates_are_those_of_some_columns():
    rng = np.random.default_rng(0)
    X = make_rows(rng, n_rows=50)
    coordinates = Coordinates(X.mean(axis=0), X.std(axis=0), True)
    features = np.array([1, 4])
    restricted = coordinates.restrict(features).design_rows(X[:, features])
    assert_allclose(restricted, coordinates.design_rows(X)[:, [1, 4, 6]])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_user_data_are_left_alone(layout):
    X = LAYOUTS[layout](make_rows(np.random.default_rng(0), n_rows=50))
    before = dense(X).copy()
    (X if isinstance(X, np.ndarray) else X.data).flags.writeable = False
    coordinates = Coordinates(np.zeros(6), np.arange(1.0, 7.0), True)
    coordinates.rows(X)
    coordinates.design_rows(X)
    assert_allclose(dense(X), before, atol=0)
