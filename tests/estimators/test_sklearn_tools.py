"""Pipelines, searches, routing, callbacks, representation, warm start, printing."""

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from problems import classification, regression
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara._sklearn_compat import HAS_CALLBACKS

ESTIMATORS = [CaLeastSquares(), CaLasso(0.01), CaLogisticRegression()]


def data_for(model, **options):
    make = classification if isinstance(model, CaLogisticRegression) else regression
    return make(**options)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_grid_search_in_parallel(backend):
    X, y = regression()
    grid = {"alpha": [0.01, 0.1], "selection": ["GS", "Random"]}
    search = GridSearchCV(CaLasso(solver="cabcd", random_state=0), grid, n_jobs=2, cv=3)
    with parallel_config(backend=backend):
        search.fit(X, y)
    assert search.best_params_["alpha"] == 0.01
    assert search.score(X, y) > 0.8


def test_subclasses_have_parameters_of_their_own():
    """Parameter names are kept from fit to fit, but not from class to class."""

    class Rounded(CaLasso):
        def __init__(self, alpha=1.0, digits=3):
            super().__init__(alpha=alpha)
            self.digits = digits

    assert "l1_ratio" in CaLasso().get_params()
    assert list(Rounded().get_params()) == ["alpha", "digits"]
    assert clone(Rounded(digits=5)).digits == 5


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_pipelines_and_cross_validation(model):
    X, y = data_for(model)
    pipeline = make_pipeline(StandardScaler(), clone(model))
    scores = cross_val_score(pipeline, X, y, cv=3, n_jobs=2)
    assert scores.min() > 0.6


@pytest.mark.parametrize("solver", ["auto", "cabcd", "cagd"])
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_results_do_not_depend_on_n_jobs(model, solver):
    X, y = data_for(model, n_rows=150_000, n_features=4)
    model = clone(model).set_params(solver=solver, random_state=0)
    one = clone(model).set_params(n_jobs=1).fit(X, y)
    two = clone(model).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(one.coef_, two.coef_)
    assert one.n_passes_ == two.n_passes_


def test_same_seed_same_result():
    X, y = regression(n_rows=20_000)
    for solver in ("auto", "cabcd", "cagd"):
        model = CaLasso(0.01, solver=solver, random_state=1)
        assert_array_equal(model.fit(X, y).coef_, clone(model).fit(X, y).coef_)


def test_sample_weight_is_routed():
    X, y = regression()
    weights = np.random.default_rng(0).random(len(y))
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = CaLasso(0.05).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(scaler, model)
        pipeline.fit(X, y, sample_weight=weights)
    expected = CaLasso(0.05).fit(StandardScaler().fit_transform(X), y, weights)
    assert_allclose(pipeline[-1].coef_, expected.coef_)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_html_representation_does_not_list_the_fields_of_the_history(model):
    """The type of a structured array is a line that is wider than a page."""
    shown = estimator_html_repr(clone(model).fit(*data_for(model)))
    assert "(&#x27;round&#x27;" not in shown
    if HAS_CALLBACKS:  # with the same version came tables of fitted attributes
        assert "ndarray[8 fields](" in shown


def test_html_representation_has_no_dead_link():
    X, y = regression()
    for model in (CaLasso(), CaLasso().fit(X, y)):
        html = estimator_html_repr(model)
        assert "CaLasso" in html
        assert 'href="http' not in html


@pytest.mark.parametrize("model", [CaLasso(0.01), CaLogisticRegression()], ids=str)
def test_warm_start_needs_no_more_rounds(model):
    X, y = data_for(model, n_rows=20_000)
    model = clone(model).set_params(warm_start=True).fit(X, y)
    coef, first, objective = model.coef_.copy(), model.n_passes_, model.objective_
    model.fit(X, y)
    assert model.n_passes_ <= first
    if isinstance(model, CaLasso):
        assert model.n_passes_ <= 1.01, "the dual gap confirms the old solution"
        assert_allclose(model.coef_, coef)
    else:
        # A gradient alone confirms nothing: one more step, with a model.
        assert model.n_iter_ <= 1
        assert model.objective_ <= objective
        assert_allclose(model.coef_, coef, rtol=1e-3, atol=1e-4)


def test_warm_start_ignores_a_fit_of_another_shape():
    X, y = classification(n_classes=3)
    model = CaLogisticRegression(warm_start=True).fit(X, y)
    cold = CaLogisticRegression().fit(X[:, :5], y)
    assert_allclose(model.fit(X[:, :5], y).coef_, cold.coef_)
    X, y = classification(n_classes=2)
    assert model.fit(X, y).coef_.shape == (1, X.shape[1])


@pytest.mark.parametrize("solver", ["auto", "cabcd", "cagd"])
def test_verbose_prints_one_aligned_line_per_round(solver, capsys):
    X, y = regression(n_rows=5000)
    model = CaLasso(0.01, solver=solver, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.history_) + 1
    assert lines[0].split()[:3] == ["round", "passes", "seconds"]
    assert len({len(line) for line in lines}) == 1


def test_silence_by_default(capsys):
    CaLasso(0.01).fit(*regression())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("solver", ["auto", "cabcd", "cagd"])
def test_history_tells_the_run(solver):
    X, y = regression(n_rows=20_000)
    model = CaLasso(0.01, solver=solver, random_state=0).fit(X, y)
    history = model.history_
    assert history.dtype.names == (
        "round",
        "passes",
        "seconds",
        "objective",
        "optimality",
        "support_size",
        "inner_steps",
        "criterion",
    )
    assert_array_equal(history["round"], np.arange(len(history)))
    assert (np.diff(history["passes"]) > 0).all()
    assert history["passes"][-1] == model.n_passes_
    assert history["objective"].min() == pytest.approx(model.objective_, rel=1e-9)
    assert model.n_iter_ == max(len(history) - 1, 1)


def test_support_carries_the_weight_of_all_rows():
    X, y = classification(n_rows=50_000)
    model = CaLogisticRegression(solver="cagd", random_state=0).fit(X, y)
    assert model.n_recombinations_ > 0
    assert model.support_weights_.sum() == pytest.approx(len(y))
    assert (model.support_weights_ > 0).all()
    plain = CaLogisticRegression(solver="cagd", recombination=None).fit(X, y)
    assert plain.support_ is None
    assert plain.support_weights_ is None
    assert plain.n_recombinations_ == 0


class StopAfter:
    """Callback that counts rounds and stops after some of them."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds
        self.scores = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        if context.parent is None:
            return False
        self.scores.append(fitted_estimator.score(X, y))
        return len(self.scores) >= self.n_rounds

    def teardown(self, estimator, context):
        pass


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has no callbacks")
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_callbacks_see_every_round_and_may_stop(model):
    X, y = data_for(model, n_rows=5000)
    model = clone(model).set_params(solver="cabcd", tol=1e-12)
    stop = StopAfter(2)
    model.set_callbacks(stop)
    model.fit(X, y)
    assert len(stop.scores) == 2
    assert len(model.history_) == 2


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has no callbacks")
def test_progress_bar_of_sklearn(capsys):
    from sklearn.callback import ProgressBar

    X, y = regression()
    CaLasso(0.01).set_callbacks(ProgressBar()).fit(X, y)
    assert "CaLasso" in capsys.readouterr().out


def test_a_value_that_was_valid_once_makes_no_other_valid():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    CaLasso(alpha=0.5, max_iter=7, l1_ratio=1).fit(X, y)
    # Equal and hashed alike, but of other types.
    for wrong in ({"max_iter": 7.0}, {"fit_intercept": 1.0}, {"max_iter": "7"}):
        for _ in range(2):  # what is refused is refused again
            with pytest.raises(ValueError, match=next(iter(wrong))):
                CaLasso(**wrong).fit(X, y)
    # Valid for one parameter or estimator only.
    with pytest.raises(ValueError, match="l1_ratio"):
        CaLasso(alpha=7, l1_ratio=7).fit(X, y)
    with pytest.raises(ValueError, match="tol"):
        CaLasso(alpha=0.5, tol=[0.5]).fit(X, y)
