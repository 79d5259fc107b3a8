"""MeasureDisplay shows the rows of the measure where they are, at their weight."""

import builtins
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import classification, regression
from scipy import sparse

from skcara import CaLasso, CaLogisticRegression, MeasureDisplay


@pytest.fixture(scope="module")
def data():
    return classification()


@pytest.fixture(scope="module")
def fitted(data):
    return CaLogisticRegression(solver="cagd").fit(*data)


def test_chosen_columns_and_weights_are_drawn(fitted, data):
    X, _ = data
    display = MeasureDisplay.from_estimator(fitted, X, features=(3, 1))
    assert_array_equal(
        display.support_scatter_.get_offsets(), X[fitted.support_][:, [3, 1]]
    )
    assert_array_equal(display.cloud_scatter_.get_offsets(), X[:, [3, 1]])
    areas = display.support_scatter_.get_sizes()
    assert_allclose(
        areas / areas.sum(), fitted.support_weights_ / fitted.support_weights_.sum()
    )
    assert display.ax_.get_xlabel() == "column 3"
    assert display.figure_ is display.ax_.figure


def test_principal_components_keep_the_most_variance(fitted, data):
    X, _ = data
    display = MeasureDisplay.from_estimator(fitted, X)
    shown = np.var(display.cloud_scatter_.get_offsets(), axis=0)
    largest = np.linalg.eigvalsh(np.cov(X, rowvar=False, bias=True))[::-1][:2]
    assert_allclose(shown, largest)


def test_names_of_columns_are_accepted_and_shown(data):
    X, y = data
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    model = CaLogisticRegression(solver="cagd").fit(table, y)
    display = MeasureDisplay.from_estimator(model, table, features=("f2", 0))
    assert display.ax_.get_xlabel() == "f2"
    assert display.ax_.get_ylabel() == "f0"


def test_sparse_data_are_drawn_like_dense(fitted, data):
    X, _ = data
    _, ax = plt.subplots()
    dense = MeasureDisplay.from_estimator(fitted, X, features=(0, 1), ax=ax)
    other = MeasureDisplay.from_estimator(fitted, sparse.csr_matrix(X), features=(0, 1))
    assert dense.ax_ is ax
    assert_array_equal(dense.points, other.points)


def test_few_of_many_rows_are_drawn_behind(fitted, data):
    X, _ = data
    display = MeasureDisplay.from_estimator(fitted, X, max_cloud=50)
    assert len(display.cloud_scatter_.get_offsets()) == 50
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels[0] == "600 rows"


def test_crowds_are_drawn_by_colour_light_rows_last(data):
    X, _ = data
    weights = np.geomspace(1, 100, len(X))
    display = MeasureDisplay(
        X[:, :2], weights, cloud=X[:, :2], n_rows=len(X), labels=("a", "b")
    ).plot()
    scatter = display.support_scatter_
    assert_array_equal(scatter.get_array(), weights[::-1])
    assert_array_equal(scatter.get_offsets(), X[::-1, :2])
    assert len(scatter.get_sizes()) == 1
    assert display.colorbar_.ax.get_ylabel() == "weight"
    legend = display.ax_.get_legend()
    assert "colour = weight" in legend.get_texts()[1].get_text()
    typical = display.support_scatter_.to_rgba(np.median(display.weights))
    display.figure_.canvas.draw()
    assert np.allclose(legend.legend_handles[1].get_facecolor(), typical)


def test_each_target_has_its_measure():
    X, y = regression()
    model = CaLasso(0.01, solver="cabcd").fit(X, np.column_stack([y, X[:, 0] - y]))
    display = MeasureDisplay.from_estimator(model, X, features=(0, 1), target=1)
    assert_array_equal(display.points, X[model.support_[1]][:, :2])
    assert_array_equal(display.weights, model.support_weights_[1])
    assert display.colorbar_ is None
    with pytest.raises(ValueError, match=r"target must be below 2.*got 2"):
        MeasureDisplay.from_estimator(model, X, target=2)


def test_nothing_reduced_is_explained():
    X, y = regression()
    model = CaLasso(0.01).fit(X, y)
    assert model.support_ is None
    with pytest.raises(ValueError, match=r"reduced nothing.*support_ is None.*'cagd'"):
        MeasureDisplay.from_estimator(model, X)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ((0, 99), "features contains 99"),
        (("a", 1), "features contains 'a'"),
        ((0, 1, 2), "must be a pair, got 3"),
    ],
    ids=str,
)
def test_unknown_columns_are_named(fitted, data, features, message):
    with pytest.raises(ValueError, match=message):
        MeasureDisplay.from_estimator(fitted, data[0], features=features)


def test_other_data_are_refused(fitted, data):
    with pytest.raises(ValueError, match="pass the X of the fit"):
        MeasureDisplay.from_estimator(fitted, data[0][: fitted.support_.max()])


def test_one_column_is_refused(data):
    X, y = data
    model = CaLogisticRegression(solver="cagd").fit(X[:, :1], y)
    with pytest.raises(ValueError, match="X has one column"):
        MeasureDisplay.from_estimator(model, X[:, :1])


def test_missing_matplotlib_is_explained(fitted, data, monkeypatch):
    real_import = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match="MeasureDisplay needs matplotlib"):
        MeasureDisplay.from_estimator(fitted, data[0])


def test_import_of_the_package_does_not_import_matplotlib():
    code = "import sys, skcara; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
