"""ValidationDisplay shows mean and spread over folds, and marks what was chosen."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from plotting.searches import logistic_search
from problems import classification, regression
from sklearn.linear_model import ElasticNetCV, LassoCV, LogisticRegressionCV
from sklearn.metrics import log_loss, make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from twins import twin_grid

from skcara import ValidationDisplay


def band_heights(band):
    """Lower and upper edge of a band at each penalty, in the order of the axis."""
    vertices = band.get_paths()[0].vertices
    columns = np.unique(vertices[:, 0])
    return np.array(
        [
            (
                vertices[vertices[:, 0] == x, 1].min(),
                vertices[vertices[:, 0] == x, 1].max(),
            )
            for x in columns
        ]
    )


def test_line_is_the_mean_and_band_one_standard_deviation():
    search = LassoCV(cv=4).fit(*regression())
    display = ValidationDisplay.from_estimator(search)
    (line,), (band,) = display.lines_, display.bands_
    mean, spread = search.mse_path_.mean(axis=1), search.mse_path_.std(axis=1)
    assert_array_equal(line.get_xdata(), search.alphas_)
    assert_allclose(line.get_ydata(), mean)
    ascending = slice(None, None, -1)
    assert_allclose(
        band_heights(band),
        np.column_stack([mean - spread, mean + spread])[ascending],
    )
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "mean squared error on the held-out fold"
    texts = [text.get_text() for text in display.ax_.get_legend().texts]
    assert texts == [
        "mean of 4 folds",
        "± standard deviation of 4 folds",
        f"chosen alpha = {search.alpha_:.3g}",
    ]


def test_mark_is_the_best_mean():
    search = LassoCV().fit(*regression())
    display = ValidationDisplay.from_estimator(search)
    assert_allclose(display.chosen_.get_xdata(), search.alpha_)
    assert_allclose(display.chosen_.get_ydata(), search.mse_path_.mean(axis=1).min())


def test_one_line_per_ratio():
    ratios = [0.2, 0.7, 1.0]
    search = ElasticNetCV(l1_ratio=ratios, **twin_grid(20)).fit(*regression())
    display = ValidationDisplay.from_estimator(search)
    assert len(display.lines_) == len(display.bands_) == 3
    for row, (ratio, line) in enumerate(zip(ratios, display.lines_, strict=True)):
        assert line.get_label() == f"l1_ratio={ratio:g}"
        assert_array_equal(line.get_xdata(), search.alphas_[row])
        assert_allclose(line.get_ydata(), search.mse_path_[row].mean(axis=1))
    chosen = display.lines_[ratios.index(search.l1_ratio_)]
    assert display.chosen_.get_color() == chosen.get_color()


@pytest.mark.parametrize(
    ("scoring", "label"),
    [
        (None, "neg_log_loss on the held-out fold"),
        ("roc_auc", "roc_auc on the held-out fold"),
        (make_scorer(log_loss), "score on the held-out fold"),
    ],
    ids=str,
)
def test_logistic_searches_are_drawn_over_their_penalty(scoring, label):
    search = logistic_search()
    search.scoring = scoring
    search.scores_ = np.random.default_rng(0).random((3, 2, 5))
    display = ValidationDisplay.from_estimator(search)
    assert_allclose(display.lines_[1].get_ydata(), search.scores_[:, 1].mean(axis=0))
    assert display.ax_.get_xlim() == (search.Cs_.min(), search.Cs_.max())
    assert display.ax_.get_ylabel() == label
    assert_allclose(display.chosen_.get_xdata(), 1.0)


def test_layout_is_that_of_the_twin_in_scikit_learn():
    options = {"use_legacy_attributes": False, "l1_ratios": (0.0,)}
    try:
        search = LogisticRegressionCV(scoring="neg_log_loss", Cs=4, **options)
    except TypeError:
        pytest.skip("scikit-learn >= 1.9 has this layout")
    search.fit(*classification())
    display = ValidationDisplay.from_estimator(search)
    assert_allclose(display.chosen_.get_xdata(), search.C_)
    means = display.lines_[0].get_ydata()
    assert_allclose(display.chosen_.get_ydata(), means.max())


def test_given_axes_and_names_are_used():
    _, ax = plt.subplots()
    search = LassoCV().fit(*regression())
    display = ValidationDisplay.from_estimator(
        search, ax=ax, score_name="error", color="red"
    )
    assert display.ax_ is ax
    assert display.lines_[0].get_color() == "red"
    assert ax.get_ylabel() == "error"


def test_pipelines_are_told_which_part_to_pass():
    pipeline = make_pipeline(StandardScaler(), LassoCV()).fit(*regression())
    with pytest.raises(TypeError, match=r"got Pipeline.*pipeline\[-1\]"):
        ValidationDisplay.from_estimator(pipeline)
    ValidationDisplay.from_estimator(pipeline[-1])
