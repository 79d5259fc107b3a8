"""ConvergenceDisplay shows what the history says, and explains what it cannot show."""

import builtins

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import classification, regression
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcara import CaLasso, CaLogisticRegression, ConvergenceDisplay


@pytest.fixture(scope="module")
def fitted():
    return CaLogisticRegression(solver="cagd").fit(*classification())


def test_curves_are_the_history(fitted):
    display = ConvergenceDisplay.from_estimator(fitted, reference=0.0)
    history = fitted.history_
    for column, horizontal in enumerate(("passes", "seconds")):
        for row, values in enumerate((history["objective"], history["criterion"])):
            line = display.lines_[row, column]
            assert_array_equal(line.get_xdata(), history[horizontal])
            assert_array_equal(line.get_ydata(), values)
            assert display.axes_[row, column].get_yscale() == "log"
    assert display.figure_ is display.axes_[0, 0].figure
    assert display.lines_[0, 0].get_label() == "CaLogisticRegression, cagd"


def test_gap_without_reference_is_to_the_lowest_objective(fitted):
    display = ConvergenceDisplay.from_estimator(fitted)
    gap = display.lines_[0, 0].get_ydata()
    lowest = fitted.history_["objective"].argmin()
    assert np.isnan(gap[lowest])
    assert (np.delete(gap, lowest) > 0).all()


def test_certified_bound_is_the_reference_where_there_is_one():
    X, y = regression()
    model = CaLasso(0.01, solver="cabcd").fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    last = display.lines_[0, 0].get_ydata()[-1]
    assert_allclose(last, model.dual_gap_, rtol=1e-6)
    assert (display.lines_[0, 0].get_ydata() > 0).all()


def test_single_round_is_drawn_and_explained():
    model = CaLasso(0.01).fit(*regression())
    display = ConvergenceDisplay.from_estimator(model)
    assert len(model.history_) == len(display.lines_[0, 0].get_xdata())
    assert np.isfinite(display.lines_[0, 0].get_ydata()).all()
    note = display.axes_[0, 0].texts[0].get_text()
    assert note == "a single round: data read once, no curve to draw"
    assert display.axes_[0, 0].get_xlim()[0] == 0
    display.figure_.canvas.draw()
    # tol is far above the only dot: its label is inside of the axes nevertheless.
    panel = display.axes_[1, 0]
    label = panel.texts[0].get_window_extent()
    assert label.y1 < panel.get_window_extent().y1


def test_two_runs_share_the_axes_of_the_first(fitted):
    first = ConvergenceDisplay.from_estimator(fitted)
    second = ConvergenceDisplay.from_estimator(fitted, ax=first.axes_, name="again")
    assert second.figure_ is first.figure_
    assert [line.get_label() for line in first.axes_[0, 0].lines][1] == "again"


def test_one_panel_fits_into_given_axes(fitted):
    _, ax = plt.subplots()
    display = ConvergenceDisplay.from_estimator(
        fitted, against=("passes",), quantities=("optimality",), ax=ax, color="red"
    )
    assert display.axes_.shape == (1, 1)
    assert display.axes_[0, 0] is ax
    assert display.lines_[0, 0].get_color() == "red"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"against": ("time",)}, r"against must be a tuple.*'passes', 'seconds'"),
        ({"quantities": "gap"}, r"quantities must be a tuple.*'gap',.*'optimality'"),
        ({"quantities": ()}, "quantities must be a tuple"),
    ],
    ids=str,
)
def test_unknown_panels_are_refused(fitted, options, message):
    with pytest.raises(ValueError, match=message):
        ConvergenceDisplay.from_estimator(fitted, **options)


def test_wrong_number_of_axes_is_refused(fitted):
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="needs 2 x 2 axes"):
        ConvergenceDisplay.from_estimator(fitted, ax=ax)


def test_unfitted_estimators_are_refused():
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(CaLasso())


def test_pipelines_are_told_which_part_to_pass():
    pipeline = make_pipeline(StandardScaler(), CaLogisticRegression())
    pipeline.fit(*classification())
    with pytest.raises(TypeError, match=r"Pipeline does not have.*pipeline\[-1\]"):
        ConvergenceDisplay.from_estimator(pipeline)
    ConvergenceDisplay.from_estimator(pipeline[-1])


def test_several_targets_have_a_line_each():
    X, y = regression()
    targets = np.column_stack([y, 2 * y + X[:, 0]])
    model = CaLasso(0.01, solver="cabcd").fit(X, targets)
    display = ConvergenceDisplay.from_estimator(model)
    assert display.lines_.shape == (2, 2, 2)
    for target, history in enumerate(model.history_):
        line = display.lines_[0, 0, target]
        assert_array_equal(line.get_xdata(), history["passes"])
        assert_allclose(line.get_ydata()[-1], model.dual_gap_[target], rtol=1e-6)
        assert line.get_label() == f"CaLasso, cabcd, target {target}"


def test_many_targets_share_a_colour_and_a_line_of_the_legend(fitted):
    histories = [fitted.history_] * 12
    display = ConvergenceDisplay(histories, name="twelve").plot()
    texts = [text.get_text() for text in display.axes_[0, 1].get_legend().texts]
    assert texts == ["twelve, 12 targets"]
    assert len({line.get_color() for line in display.lines_[0, 0]}) == 1


def test_criterion_is_drawn_with_tol():
    X, y = regression()
    model = CaLasso(0.01, solver="cabcd", tol=1e-3).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    panel = display.axes_[1, 0]
    assert panel.get_ylabel() == "what is compared with tol"
    assert_array_equal(display.lines_[1, 0].get_ydata(), model.history_["criterion"])
    assert_array_equal(panel.lines[1].get_ydata(), model.tol)


def test_tol_is_drawn_once_for_two_runs(fitted):
    first = ConvergenceDisplay.from_estimator(fitted)
    ConvergenceDisplay.from_estimator(fitted, ax=first.axes_)
    assert len(first.axes_[1, 0].lines) == 3


def test_label_of_the_gap_says_what_the_reference_is(fitted):
    X, y = regression()
    lasso = CaLasso(0.01, solver="cabcd").fit(X, y)

    def label(model, **options):
        display = ConvergenceDisplay.from_estimator(model, **options)
        return display.axes_[0, 0].get_ylabel()

    assert label(lasso) == "objective − dual bound"
    assert label(lasso, reference=0.0) == "objective − minimum"
    assert label(fitted) == "objective − lowest of the run"
    shared = ConvergenceDisplay.from_estimator(lasso).axes_
    assert label(fitted, ax=shared) == "objective − its reference"


def test_missing_matplotlib_is_explained(fitted, monkeypatch):
    real_import = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=r"needs matplotlib.*skcara\[plot\]"):
        ConvergenceDisplay.from_estimator(fitted)
