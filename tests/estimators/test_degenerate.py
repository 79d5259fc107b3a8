"""Degenerate data: fits end, and their certificates stay true."""

import warnings

import numpy as np
import pytest
from certificates import lasso_dual_gap, squared_objective
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from skcara import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
    lasso_path,
    logistic_path,
)
from skcara.solvers.descent._control import Secant, secant_curvature


@pytest.mark.parametrize("n_rows", [100, 70_000])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_penalty_that_leaves_nothing(n_rows, fit_intercept):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n_rows, 16)), rng.standard_normal(n_rows)
    model = CaLasso(alpha=10.0, fit_intercept=fit_intercept).fit(X, y)
    assert not model.coef_.any()
    assert model.dual_gap_ == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("n_rows", [1, 7, 1000])
@pytest.mark.parametrize("value", [0.7, -0.1, 3.0])
@pytest.mark.parametrize("model", [CaLasso(alpha=0.01), CaLeastSquares()], ids=repr)
def test_constant_column_gets_no_coefficient(model, value, n_rows):
    y = np.arange(n_rows, dtype=float)
    model.fit(np.full((n_rows, 1), value), y)
    assert model.coef_ == 0.0
    assert model.intercept_ == pytest.approx(y.mean())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("difference", [1e-3, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("alpha", [1e-9, 1e-8, 1e-4])
def test_certificate_sees_directions_without_curvature(
    alpha, difference, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    Z = rng.standard_normal((50, 2))
    X, y = Z[:, :1] + difference * Z, Z[:, 1]
    model = CaLasso(alpha=alpha, tol=1e-10, fit_intercept=False)
    model.fit(X, y)
    true_gap = lasso_dual_gap(X, y, model.coef_, 0.0, alpha, fit_intercept=False)
    # Coefficients of up to 1/difference make predictions that inaccurate, and a tiny
    # alpha magnifies the error of a gap.
    rounding = 1e-13 * (1 + np.abs(model.coef_).max())
    assert model.dual_gap_ >= 0.5 * true_gap - rounding
    objective = squared_objective(X, y, model.coef_, 0.0, alpha)
    assert model.objective_ == pytest.approx(objective, rel=1e-10, abs=rounding)


def test_columns_without_information_and_several_classes():
    y = [0, 0, 2, 1, 1, 1, 2, 0, 1, 0, 1, 2]
    model = CaLogisticRegression(C=0.01, tol=1e-10).fit(np.zeros((12, 1)), y)
    frequencies = np.bincount(y) / len(y)
    np.testing.assert_allclose(model.predict_proba([[0.0]])[0], frequencies, 1e-8)


def test_nearly_separable_classes_with_l1_penalty():
    X, y = load_iris(return_X_y=True)
    model = CaLogisticRegression(C=1e3, l1_ratio=1.0, tol=1e-8).fit(X, y)
    assert model.optimality_ <= 1e-8
    assert model.score(X, y) > 0.97


def test_columns_many_decades_apart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2)) * [1e-8, 1e8]
    y = X[:, 1] + 1e7 * rng.standard_normal(100)
    model = CaLasso(alpha=1e15, l1_ratio=0.5).fit(X, y)
    half = 0.5e15
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, half, half)
    assert gap <= 1e-4 * y.var()
    assert model.coef_[1] == pytest.approx(0.909, abs=1e-3)


def test_more_coordinates_than_rows_in_several_classes():
    """Singular models of hundreds of coordinates are not solved to the last digit."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((57, 97)), rng.integers(6, size=57)
    weights = 10.0 ** rng.uniform(-12, 0, 57)
    model = CaLogisticRegression(C=77.0, l1_ratio=1.0, tol=1e-8)
    model.fit(X, y, sample_weight=weights)
    assert model.optimality_ <= 1e-8


@pytest.mark.parametrize("as_form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "model", [CaLasso(), CaLeastSquares(), CaLogisticRegression()], ids=repr
)
def test_values_whose_squares_overflow_are_named(model, as_form):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), rng.integers(0, 2, 200)
    X[3, 0] = -1e300
    with pytest.raises(
        ValueError, match=r"X contains -1e\+300, whose square overflows"
    ):
        model.fit(as_form(X), y)


@pytest.mark.parametrize("as_form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [-1e300, 1e160])
@pytest.mark.parametrize(
    "call",
    [
        lasso_path,
        logistic_path,
        CaLassoCV().fit,
        CaLassoCV(standardize=True).fit,
        CaLogisticRegressionCV().fit,
        CaLogisticRegressionCV(refit=False).fit,
        CaLogisticRegressionCV(standardize=True, refit=False).fit,
    ],
    ids=lambda call: str(getattr(call, "__self__", call.__name__)),
)
def test_searches_name_values_whose_squares_overflow(call, value, as_form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    y = (X[:, 0] + rng.standard_normal(500) > 0).astype(float)
    X[3, 2] = value
    with pytest.raises(
        ValueError, match=r"X contains -?1e\+\d+, whose square overflows"
    ):
        call(as_form(X), y)


@pytest.mark.parametrize("model", [CaLasso(), CaLeastSquares()], ids=repr)
def test_targets_whose_squares_overflow(model):
    y = np.arange(200.0)
    y[3] = 1e300
    with pytest.raises(ValueError, match="too large"):
        model.fit(np.arange(200.0)[:, None], y)


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(14),
        np.arange(14.0) * 1e9,
        np.array(list("abcdefghijklmn")),
        np.array(list("abcdefghijklmn"), dtype=object),
        np.append(np.arange(13.0), 9.97e36),
    ],
    ids=lambda labels: f"{labels.dtype}-{labels[-1]}",
)
def test_labels_that_occur_once_do_not_warn(labels):
    """Warnings are errors here; scikit-learn's own check suspects a regression."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.concatenate([labels, labels[:6]])
    assert len(CaLogisticRegression().fit(X, y).classes_) == 14


def test_continuous_labels_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        CaLogisticRegression().fit(X, X[:, 0])


def test_displacements_whose_squares_vanish():
    """Moves of 1e-170 have a length of zero; no curvature can be read off them."""
    secant = Secant(np.array([1e-170, -1e-180]), np.array([1.0, 2.0]))
    assert secant_curvature(secant, np.ones(2)) is None


def test_penalty_of_dependent_columns_in_newton_steps_of_blocks():
    """Coordinate descent alone would need thousands of sweeps for each of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + 1e-4 * rng.standard_normal((40, 6))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    model = CaLasso(1e-6, solver="cabcd", direction="Hb", block_size=6, tol=1e-8)
    model.fit(X, y)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 1e-6)
    assert gap <= 1e-8 * y.var()


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize(
    "model",
    [
        CaLasso(0.0, fit_intercept=False),
        CaLeastSquares(fit_intercept=False),
        CaLeastSquares(fit_intercept=False, positive=True),
        CaLeastSquares(),
    ],
    ids=repr,
)
def test_nothing_but_zeros(model, n_columns):
    model.fit(np.zeros((5, n_columns)), np.arange(5.0))
    assert not model.coef_.any()


@pytest.mark.parametrize("positive", [False, True])
def test_one_row_of_positive_weight_is_fitted_without_warning(positive):
    """All columns are constant there: what is left of their covariance is rounding."""
    X = sparse.csr_array([[1000, 1000, 2000], [0, 1000, 1000], [1000, 0, 0]])
    y = np.full(3, 1.18290534)
    model = CaLeastSquares(positive=positive).fit(X, y, [0.0, 2.0, 0.0])
    assert model.predict(X[[1]]) == pytest.approx(y[1], rel=1e-14)


@pytest.mark.parametrize("method", ["auto", "calibration", "tree", None])
def test_perfect_fit_of_nearly_dependent_columns_converges(method):
    # Two rows that differ by less than the root of the rounding, in one column.
    X = np.array([[0.84, 4.6131939, 1.63, -1.9, 6.03]] * 2)
    X[1, 1] -= 7e-7
    y = np.full(2, 67.55535844)
    model = CaLeastSquares(recombination=method)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(sparse.csc_array(X), y, sample_weight=[0.87, 0.56])
    assert model.predict(X) == pytest.approx(y, rel=1e-15)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("recombination", ["auto", "davis"])
@pytest.mark.parametrize("value", [1.0, -1e9])
def test_intercept_of_a_constant_target_is_exact(value, recombination, form):
    """Weights that are all alike round alike: a mean is wrong by many units."""
    X = np.zeros((3000, 1))
    X[:: 30 if value == 1.0 else 1] = value
    y, weights = np.full(3000, 1.3533698549209328), np.full(3000, 18995.45246171)
    model = CaLeastSquares(positive=True, recombination=recombination)
    model.fit(form(X), y, sample_weight=weights)
    assert model.coef_ == 0.0
    assert model.intercept_ == pytest.approx(y[0], rel=1e-15)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [60, 3000])
def test_classes_that_can_be_separated_are_named(n_rows, n_classes, form):
    """A small gradient says nothing where coefficients grow without bound."""
    place = np.random.default_rng(0).uniform(-1, 1, n_rows)
    y = np.digitize(place, np.linspace(-1, 1, n_classes + 1)[1:-1])
    # On a parabola lines divide any intervals.
    X = np.column_stack([place, place**2])
    model = CaLogisticRegression(C=np.inf)
    with pytest.warns(ConvergenceWarning, match="classes are separable"):
        model.fit(form(X), y)
    # A row on the wrong side that has no weight does not count, one that has does.
    inside = np.median(place[y == n_classes - 1])
    X, y = np.vstack([X, [inside, inside**2]]), np.append(y, 0)
    weights = np.ones(len(y))
    weights[-1] = 0.0
    with pytest.warns(ConvergenceWarning, match="classes are separable"):
        model.fit(form(X), y, sample_weight=weights)
    model.fit(form(X), y)
    model.set_params(C=1.0).fit(form(X), y, sample_weight=weights)
