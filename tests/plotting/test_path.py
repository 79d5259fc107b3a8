"""PathDisplay shows every coefficient at every penalty, and where they are zero."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from plotting.searches import lasso_search, logistic_search
from problems import regression
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import enet_path, lasso_path

import skcara
from skcara import CaLasso, PathDisplay
from skcara.plotting._path import zero_crossings


def test_curves_are_the_coefficients():
    X, y = regression()
    alphas, coefs, _ = lasso_path(X, y)
    display = PathDisplay.from_path(alphas, coefs, chosen=alphas[7])
    assert display.lines_.shape == (1, X.shape[1])
    for feature, line in enumerate(display.lines_[0]):
        assert_array_equal(line.get_xdata(), alphas)
        assert_array_equal(line.get_ydata(), coefs[feature])
    (ax,) = display.axes_
    assert ax.get_xscale() == "log"
    assert ax.get_xlim() == (alphas.max(), alphas.min())
    assert display.figure_ is ax.figure
    texts = [text.get_text() for text in ax.get_legend().texts]
    assert texts[-1] == f"chosen alpha = {alphas[7]:.3g}"
    display.figure_.canvas.draw()


def test_targets_have_a_panel_each():
    coefs = np.random.default_rng(0).standard_normal((2, 3, 4))
    display = PathDisplay.from_path(np.geomspace(1, 0.1, 4), coefs)
    assert len(display.axes_) == 2
    assert_array_equal(display.lines_[1, 2].get_ydata(), coefs[1, 2])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_paths_are_drawn_without_the_intercept(fit_intercept):
    rng = np.random.default_rng(0)
    coefs = rng.standard_normal((5, 3, 4 + fit_intercept))
    Cs = np.geomspace(1e-2, 1e2, 5)
    display = PathDisplay.from_path(
        Cs, coefs, penalty_name="C", fit_intercept=fit_intercept
    )
    assert display.lines_.shape == (3, 4)
    assert_array_equal(display.lines_[2, 1].get_ydata(), coefs[:, 2, 1])
    assert display.axes_[0].get_xlim() == (Cs.min(), Cs.max())


def test_crossings_are_where_the_sign_or_the_support_changes():
    penalties = np.array([1000.0, 100.0, 10.0, 1.0, 0.1])
    enters = zero_crossings(penalties, np.array([0.0, 0.0, 2.0, 1.0, 3.0]))
    assert_allclose(enters, [100.0])
    leaves = zero_crossings(penalties, np.array([1.0, 2.0, 0.0, 0.0, 0.0]))
    assert_allclose(leaves, [10.0])
    changes = zero_crossings(penalties, np.array([-1.0, 1.0, 1.0, 1.0, 1.0]))
    assert_allclose(changes, [10**2.5])
    assert zero_crossings(penalties, np.zeros(5)).size == 0


def test_crossings_are_marked_on_the_zero_line():
    X, y = regression()
    alphas, coefs, _ = lasso_path(X, y)
    display = PathDisplay.from_path(alphas, coefs)
    for feature, marks in enumerate(display.crossings_[0]):
        assert_array_equal(marks.get_xdata(), zero_crossings(alphas, coefs[feature]))
        assert not marks.get_ydata().any()


def test_furthest_curves_are_named_the_same_in_all_panels():
    coefs = np.zeros((2, 3, 4))
    coefs[0, :, 2] = 5.0
    coefs[1, :, 3] = -9.0
    names = ["a", "b", "c", "d"]
    display = PathDisplay([3.0, 2.0, 1.0], coefs, feature_names=names).plot(n_named=2)
    labels = {line.get_label() for line in display.lines_[0]}
    assert {"c", "d"} <= labels
    assert not {"a", "b"} & labels
    colors = [[line.get_color() for line in row] for row in display.lines_]
    assert colors[0] == colors[1]


def test_logistic_search_shows_the_mean_over_folds_at_the_chosen_ratio():
    search = logistic_search(n_classes=3)
    display = PathDisplay.from_estimator(search)
    expected = search.coefs_paths_[:, 1].mean(axis=0)
    for label in range(3):
        assert display.axes_[label].get_title() == f"class {label}"
        for feature, line in enumerate(display.lines_[label]):
            assert_array_equal(line.get_ydata(), expected[:, label, feature])
    assert display.lines_.shape == (3, 4)
    assert display.axes_[0].get_ylabel() == "coefficient, mean of 3 folds"
    assert display.chosen == search.C_


def test_two_classes_and_given_axes():
    _, ax = plt.subplots()
    display = PathDisplay.from_estimator(logistic_search(fit_intercept=False), ax=ax)
    assert display.axes_[0] is ax
    assert display.lines_.shape == (1, 4)
    assert ax.get_title() == ""


@pytest.fixture
def asked(monkeypatch):
    """What the display asks of ``lasso_path``, answered by scikit-learn."""
    asked = SimpleNamespace()

    def path(X, y, *, alphas, l1_ratio, **options):
        vars(asked).update(X=X, alphas=alphas, l1_ratio=l1_ratio, options=options)
        return enet_path(X, y, alphas=alphas, l1_ratio=l1_ratio)

    monkeypatch.setattr(skcara, "lasso_path", path, raising=False)
    return asked


@pytest.mark.parametrize("l1_ratio", [1.0, [0.5, 0.9]], ids=str)
def test_lasso_search_is_recomputed_at_its_own_penalties(asked, l1_ratio):
    X, y = regression()
    search = lasso_search(l1_ratio)
    display = PathDisplay.from_estimator(search, X, y)
    own = search.alphas_ if np.ndim(l1_ratio) == 0 else search.alphas_[-1]
    assert_array_equal(asked.alphas, own)
    assert asked.l1_ratio == search.l1_ratio_
    assert asked.options["fit_intercept"] is True
    expected = enet_path(X, y, alphas=own, l1_ratio=search.l1_ratio_)[1]
    assert_array_equal(display.lines_[0, 0].get_ydata(), expected[0])
    assert display.chosen == search.alpha_


def test_standardised_search_is_drawn_in_the_units_of_the_user(asked):
    X, y = regression()
    X = X * np.geomspace(0.1, 10, X.shape[1])
    display = PathDisplay.from_estimator(lasso_search(standardize=True), X, y)
    assert_allclose(asked.X.std(axis=0), 1.0)
    expected = enet_path(asked.X, y, alphas=asked.alphas, l1_ratio=1.0)[1]
    expected /= X.std(axis=0)[:, None]
    for feature, line in enumerate(display.lines_[0]):
        assert_allclose(line.get_ydata(), expected[feature])


def test_lasso_search_needs_the_data():
    with pytest.raises(ValueError, match=r"keeps no coefficients.*pass X and y"):
        PathDisplay.from_estimator(lasso_search())


def test_other_estimators_are_refused_with_a_way_out():
    X, y = regression()
    with pytest.raises(TypeError, match=r"needs a fitted CaLassoCV.*use from_path"):
        PathDisplay.from_estimator(CaLasso(0.1).fit(X, y))
    with pytest.raises(NotFittedError):
        PathDisplay.from_estimator(CaLasso())


def test_what_cannot_be_drawn_is_refused():
    coefs = np.ones((3, 2))
    with pytest.raises(ValueError, match="Every alpha must be positive and finite"):
        PathDisplay.from_path([1.0, 0.0], coefs)
    with pytest.raises(ValueError, match="penalty_name must be one of"):
        PathDisplay.from_path([2.0, 1.0], coefs, penalty_name="lambda")
    with pytest.raises(ValueError, match="needs 1 axes, one per target or class"):
        PathDisplay.from_path([2.0, 1.0], coefs, ax=plt.subplots(1, 2)[1])
