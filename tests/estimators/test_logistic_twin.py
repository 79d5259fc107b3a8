"""CaLogisticRegressionCV is LogisticRegressionCV, on any folds."""

import pickle
import warnings

import numpy as np
import pytest
from certificates import logistic_violation
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from twins import needs_recent_twin

from skcara import CaLogisticRegression, CaLogisticRegressionCV

N_ROWS, N_FEATURES = 150, 4
CS = [0.1, 1.0, 10.0]


def make_rows(seed, n_classes=2, n_rows=N_ROWS, n_features=N_FEATURES):
    """Rows and classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) + np.arange(n_features)
    scores = X @ rng.standard_normal((n_features, n_classes))
    y = (scores + 2 * rng.gumbel(size=scores.shape)).argmax(axis=1)
    return X, y


def twin_of(model, **options):
    """scikit-learn's class with the same parameters, solved tightly."""
    parameters = {
        name: getattr(model, name)
        for name in ("Cs", "l1_ratios", "cv", "scoring", "refit", "class_weight")
    }
    parameters["scoring"] = parameters["scoring"] or "neg_log_loss"
    defaults = {"tol": 1e-10, "max_iter": 10_000, "fit_intercept": model.fit_intercept}
    # The parameters of scikit-learn 1.9; older versions had legacy attributes only.
    try:
        return LogisticRegressionCV(
            use_legacy_attributes=False, **parameters, **defaults, **options
        )
    except TypeError:
        pytest.skip("needs the attributes of scikit-learn 1.8")


def assert_same_search(model, twin, *, rtol=1e-6):
    assert_array_equal(model.classes_, twin.classes_)
    assert_allclose(model.scores_, twin.scores_, rtol=rtol)
    assert model.scores_.shape == twin.scores_.shape
    assert model.coefs_paths_.shape == twin.coefs_paths_.shape
    assert_allclose(model.coefs_paths_, twin.coefs_paths_, rtol=1e-3, atol=1e-4)
    assert model.C_ == pytest.approx(twin.C_)
    assert model.l1_ratio_ == pytest.approx(twin.l1_ratio_)
    assert model.coef_.shape == twin.coef_.shape
    assert_allclose(model.coef_, twin.coef_, rtol=1e-3, atol=1e-4)
    assert_allclose(model.intercept_, twin.intercept_, rtol=1e-3, atol=1e-4)


CASES = {
    "plain": {},
    "no intercept": {"fit_intercept": False},
    "accuracy": {"scoring": "accuracy"},
    "balanced": {"class_weight": "balanced", "scoring": "balanced_accuracy"},
    "weights of classes": {"class_weight": {0: 1.0, 1: 3.0, 2: 0.5}},
    "no refit": {"refit": False},
    "shuffled": {"cv": StratifiedKFold(4, shuffle=True, random_state=0)},
    "repeated": {
        "cv": RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    },
    "overlapping": {"cv": ShuffleSplit(3, random_state=0)},
    "pairs": {
        "cv": [(np.arange(90), np.arange(90, 150)), (np.arange(60, 150), [3, 4])]
    },
    "proba": {"scoring": "neg_brier_score"},
    "auc": {"scoring": "roc_auc_ovr"},
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_it_finds_what_the_twin_finds(options, n_classes, weighted, global_random_seed):
    X, y = make_rows(global_random_seed, n_classes)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    if isinstance(options.get("class_weight"), dict):
        factors = options["class_weight"]
        options = {"class_weight": {code: factors[code] for code in range(n_classes)}}
    model = CaLogisticRegressionCV(Cs=CS, tol=1e-8).set_params(**options)
    twin = twin_of(model).fit(X, y, sample_weight=weights)
    assert_same_search(model.fit(X, y, sample_weight=weights), twin)


def test_ratios(global_random_seed):
    """Certified on the rows of each fold; saga is wrong where all is zero."""
    X, y = make_rows(global_random_seed)
    model = CaLogisticRegressionCV(Cs=CS, l1_ratios=[0.0, 0.5, 1.0], tol=1e-8).fit(X, y)
    twin = twin_of(model, solver="saga").set_params(tol=1e-9).fit(X, y)
    assert model.scores_.shape == twin.scores_.shape == (5, 3, 3)
    n_compared = 0
    for fold, (train, _) in enumerate(StratifiedKFold(5).split(X, y)):
        for place in np.ndindex(3, 3):
            found, other = (
                logistic_violation(
                    X[train],
                    y[train],
                    one.coefs_paths_[fold][place][:, :-1],
                    one.coefs_paths_[fold][place][:, -1],
                    CS[place[1]],
                    model.l1_ratios_[place[0]],
                )
                for one in (model, twin)
            )
            assert found <= 1e-8
            if other <= 1e-7:
                n_compared += 1
                expected = twin.scores_[fold][place]
                assert model.scores_[fold][place] == pytest.approx(expected, rel=1e-6)
    assert n_compared > 30


def test_every_fold_is_certified_on_its_own_rows(global_random_seed):
    """By code that shares nothing with the search, where rows are sampled."""
    X, _ = make_rows(global_random_seed, 2, n_rows=120_000, n_features=9)
    noise = np.random.default_rng(1).logistic(size=len(X))
    y = ((X - X.mean(axis=0)) @ np.linspace(-1, 1, 9) + noise > 0).astype(int)
    model = CaLogisticRegressionCV(Cs=[0.01, 1.0, 100.0], cv=KFold(3), tol=1e-5)
    model.fit(X, y)
    for fold, (train, test) in enumerate(KFold(3).split(X)):
        for place, C in enumerate(model.Cs_):
            coef = model.coefs_paths_[fold, 0, place]
            violation = logistic_violation(
                X[train], y[train], coef[:, :-1], coef[:, -1], C, 0.0
            )
            assert violation <= model.tol
            exact = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)
            log_proba = exact.fit(X[train], y[train]).predict_log_proba(X[test])
            loss = -log_proba[np.arange(len(test)), y[test]].mean()
            assert model.scores_[fold, 0, place] == pytest.approx(-loss, rel=1e-6)
    assert model.n_passes_ <= 14


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_final_fit_is_that_of_the_estimator(C, global_random_seed):
    X, y = make_rows(global_random_seed, 3)
    found = CaLogisticRegressionCV(Cs=[C]).fit(X, y)
    expected = CaLogisticRegression(C=C).fit(X, y)
    assert_allclose(found.coef_, expected.coef_, rtol=1e-8)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-10)


def test_a_scaler_in_every_fold(global_random_seed):
    X, y = make_rows(global_random_seed, 3)
    X = X * np.logspace(-3, 3, N_FEATURES)
    model = CaLogisticRegressionCV(Cs=CS, standardize=True, tol=1e-8).fit(X, y)
    for place, C in enumerate(CS):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=C, tol=1e-10))
        scores = cross_val_score(pipeline, X, y, cv=5, scoring="neg_log_loss")
        assert_allclose(model.scores_[:, 0, place], scores, rtol=1e-6)


# ---- degenerate folds ------------------------------------------------------------


def test_a_class_is_missing_in_test_sets(global_random_seed):
    X, y = make_rows(global_random_seed, 3)
    y[:N_ROWS] = np.where(np.arange(N_ROWS) < 100, y % 2, y)
    model = CaLogisticRegressionCV(Cs=CS, cv=KFold(3, shuffle=True, random_state=0))
    # lbfgs leaves errors of 1e-5 in directions that few rows determine.
    twin = twin_of(model, solver="newton-cholesky")
    assert_same_search(model.fit(X, y), twin.fit(X, y))


@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_a_class_is_missing_in_training_sets(scoring):
    """There is no minimiser: a warning says which folds, accuracy is as the twin's."""
    X, _ = make_rows(0)
    y = np.repeat([0, 1, 2], [50, 60, 40])
    model = CaLogisticRegressionCV(Cs=CS, cv=KFold(3), scoring=scoring)
    with pytest.warns(ConvergenceWarning, match=r"Folds \[0, 2\] do not train on all"):
        model.fit(X, y)
    assert np.isfinite(model.scores_).all()
    if scoring == "accuracy":
        assert_allclose(model.scores_, twin_of(model).fit(X, y).scores_)


def test_a_class_with_fewer_rows_than_folds():
    X, y = make_rows(0, 2)
    y[:3] = 2
    model = CaLogisticRegressionCV(Cs=CS, tol=1e-8)
    with pytest.warns(UserWarning, match="least populated class in y has only 3"):
        twin = twin_of(model).fit(X, y)
    with pytest.warns(UserWarning, match="least populated class in y has only 3"):
        model.fit(X, y)
    assert_same_search(model, twin, rtol=1e-5)


def test_a_column_is_constant_in_a_training_set(global_random_seed):
    X, y = make_rows(global_random_seed)
    X[:120, 1] = 3.0
    model = CaLogisticRegressionCV(Cs=CS, cv=KFold(5), tol=1e-8)
    assert_same_search(model.fit(X, y), twin_of(model).fit(X, y))
    model.set_params(standardize=True).fit(X, y)
    assert np.isfinite(model.scores_).all()


def test_fewer_rows_than_columns(global_random_seed):
    X, _ = make_rows(global_random_seed, n_rows=30, n_features=50)
    y = np.arange(30) // 2 % 2
    model = CaLogisticRegressionCV(Cs=CS, cv=3, tol=1e-8)
    # lbfgs leaves errors of 1e-5 in directions that few rows determine.
    twin = twin_of(model, solver="newton-cholesky")
    assert_same_search(model.fit(X, y), twin.fit(X, y))


def test_folds_without_weight():
    X, y = make_rows(0)
    weights = np.repeat([1.0, 0.0], [100, 50])
    with pytest.raises(ValueError, match="test set of fold 2 has no rows of positive"):
        CaLogisticRegressionCV(cv=KFold(3)).fit(X, y, sample_weight=weights)


# ---- scores ----------------------------------------------------------------------


def test_scores_that_nobody_can_compute_are_nan():
    X, _ = make_rows(0)
    y = np.repeat([0, 1], [110, 40])
    model = CaLogisticRegressionCV(Cs=CS, cv=KFold(5), scoring="roc_auc")
    with pytest.warns(UserWarning, match="Only one class is present"):
        model.fit(X, y)
    assert np.isnan(model.scores_[0]).all()
    assert np.isfinite(model.scores_[3]).all()


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "scoring", ["precision_macro", "matthews_corrcoef", "recall_micro"]
)
@pytest.mark.filterwarnings("ignore:Precision is ill-defined")
def test_scores_that_count_classes_are_those_of_the_rows(
    scoring, n_classes, is_weighted
):
    """Weights of rows count in scores, those of classes do not."""
    X, y = make_rows(0, n_classes)
    model, weights = CaLogisticRegressionCV(Cs=CS, scoring=scoring, cv=KFold(4)), None
    if is_weighted:
        weights = np.random.default_rng(0).random(len(y))
        model.set_params(class_weight="balanced")
    model.fit(X, y, sample_weight=weights)
    stub = clone(model).fit(X, y)
    for fold, (_, test) in enumerate(KFold(4).split(X)):
        own = None if weights is None else weights[test]
        for place in range(len(CS)):
            coef = model.coefs_paths_[fold, 0, place]
            stub.coef_, stub.intercept_ = coef[:, :-1], coef[:, -1]
            expected = stub.score(X[test], y[test], sample_weight=own)
            assert model.scores_[fold, 0, place] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scoring", [None, "accuracy", "roc_auc"])
def test_rows_count_as_often_as_they_are_held_out(scoring):
    X, y = make_rows(0)
    rng, numbers = np.random.default_rng(0), np.arange(N_ROWS)
    tests = [np.sort(rng.choice(half, N_ROWS)) for half in np.split(numbers, 2)]
    folds = [(np.setdiff1d(numbers, test), test) for test in tests]
    model = CaLogisticRegressionCV(Cs=CS, cv=folds, scoring=scoring, tol=1e-8).fit(X, y)
    stub = clone(model).fit(X, y)
    for fold, (_, test) in enumerate(folds):
        for place in range(len(CS)):
            coef = model.coefs_paths_[fold, 0, place]
            stub.coef_, stub.intercept_ = coef[:, :-1], coef[:, -1]
            expected = stub.score(X[test], y[test])
            assert model.scores_[fold, 0, place] == pytest.approx(expected, rel=1e-6)


def test_a_callable_gets_the_rows():
    def negative_margin(estimator, X, y):
        assert X.shape[1] == N_FEATURES
        return -np.abs(estimator.decision_function(X)).mean()

    X, y = make_rows(0)
    model = CaLogisticRegressionCV(Cs=CS, scoring=negative_margin).fit(X, y)
    assert model.C_ == CS[0]


def test_labels_may_be_strings():
    X, y = make_rows(0, 3)
    model = CaLogisticRegressionCV(Cs=CS, scoring="accuracy").fit(X, y)
    names = np.array(["a", "b", "c"])
    named = clone(model).fit(X, names[y])
    assert_array_equal(named.scores_, model.scores_)
    assert_array_equal(named.predict(X), names[model.predict(X)])
    assert named.score(X, names[y]) == model.score(X, y)


# ---- as an estimator of scikit-learn ----------------------------------------------


@pytest.mark.parametrize("layout", ["csr", "csc", "float32", "pandas", "polars"])
@needs_recent_twin
def test_formats(layout):
    X, y = make_rows(0, 3)
    expected = CaLogisticRegressionCV(Cs=CS).fit(X.astype(np.float32), y)
    if layout in ("pandas", "polars"):
        frames = pytest.importorskip(layout)
        names = [f"x{number}" for number in range(N_FEATURES)]
        columns = dict(zip(names, X.astype(np.float32).T, strict=True))
        given = frames.DataFrame(columns)
    elif layout == "float32":
        given = X.astype(np.float32)
    else:
        given = sparse.csr_array(X.astype(np.float32)).asformat(layout)
    model = CaLogisticRegressionCV(Cs=CS).fit(given, y)
    assert_allclose(model.scores_, expected.scores_, rtol=1e-6)
    if layout in ("pandas", "polars"):
        assert_array_equal(model.feature_names_in_, names)
    assert_array_equal(model.predict(given), expected.predict(X.astype(np.float32)))


def test_tools(global_random_seed):
    X, y = make_rows(global_random_seed, 3)
    model = CaLogisticRegressionCV(Cs=CS, cv=3)
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(
        pipeline, {"calogisticregressioncv__l1_ratios": [[0.0], [1.0]]}
    )
    search.fit(X, y)
    assert search.best_estimator_[-1].C_ in CS
    assert "CaLogisticRegressionCV" in pipeline._repr_html_()
    model.fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "coef_")


def test_groups_and_weights_are_routed():
    X, y = make_rows(0)
    groups, weights = np.arange(N_ROWS) % 7, np.linspace(0.5, 2, N_ROWS)
    with config_context(enable_metadata_routing=True):
        model = CaLogisticRegressionCV(
            Cs=CS,
            cv=GroupKFold(3),
            scoring=make_scorer(
                lambda y, p, sample_weight=None: np.average(
                    y == p, weights=sample_weight
                )
            ).set_score_request(sample_weight=True),
        ).set_fit_request(sample_weight=True)
        model.fit(X, y, groups=groups, sample_weight=weights)
    pairs = list(GroupKFold(3).split(X, y, groups))
    expected = CaLogisticRegressionCV(Cs=CS, cv=pairs, scoring="accuracy")
    expected.fit(X, y, sample_weight=weights)
    assert_allclose(model.scores_, expected.scores_)


def test_a_search_says_how_far_it_is(capsys):
    X, y = make_rows(0)
    model = CaLogisticRegressionCV(Cs=CS, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["reads", "seconds", "fits", "done", "optimality"]
    assert any("15 / 15" in line for line in lines)
    assert model.n_passes_ >= 1


def test_what_did_not_converge_is_counted_once():
    X, y = make_rows(0)
    model = CaLogisticRegressionCV(Cs=CS, max_iter=1, tol=1e-15)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert len(caught) == 1
    assert caught[0].category is ConvergenceWarning
    assert caught[0].filename == __file__
    assert "of 15 fits violate" in str(caught[0].message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": [0.0, 1.0]}, "Cs must be positive"),
        ({"Cs": []}, "Cs must be a number or a list"),
        ({"l1_ratios": [2.0]}, "between 0 and 1"),
        ({"l1_ratios": []}, "between 0 and 1"),
        ({"cv": []}, "yields no folds"),
        ({"scoring": "best"}, "scoring"),
    ],
)
def test_bad_parameters_are_named(options, message):
    X, y = make_rows(0)
    with pytest.raises(ValueError, match=message):
        CaLogisticRegressionCV(**options).fit(X, y)
