"""Searches find the same wherever the rows are."""

import numpy as np
import pytest
from io_inputs import (
    INPUTS,
    N_FEATURES,
    as_chunks,
    as_dask_array,
    make_classes,
    make_rows,
    pieces,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from twins import needs_recent_twin

from skcara import CaLassoCV, CaLogisticRegressionCV, lasso_path, logistic_path
from skcara.data import SumTask
from skcara.io import from_chunks, from_dask

LASSO = CaLassoCV(alphas=7)
LOGISTIC = CaLogisticRegressionCV(Cs=[1e-3, 0.1, 10.0])


def rows_for(model, *, weighted=False, names=("no", "yes")):
    """X, target and weights for a search."""
    X, y, weights = make_rows()
    if isinstance(model, CaLogisticRegressionCV):
        y = make_classes(X, y, list(names))
    return X, y, weights if weighted else None


def assert_same_search(found, expected, *, rtol=1e-10):
    """Scores, penalties and coefficients agree up to the order of additions."""
    if isinstance(expected, CaLassoCV):
        assert_allclose(found.alphas_, expected.alphas_, rtol=rtol)
        assert_allclose(found.mse_path_, expected.mse_path_, rtol=rtol)
        assert found.alpha_ == pytest.approx(expected.alpha_, rel=rtol)
    else:
        assert_array_equal(found.classes_, expected.classes_)
        assert_allclose(found.scores_, expected.scores_, rtol=rtol)
        assert_allclose(found.coefs_paths_, expected.coefs_paths_, rtol=1e-6, atol=1e-8)
        assert found.C_ == expected.C_
    assert found.l1_ratio_ == expected.l1_ratio_
    size = np.abs(expected.coef_).max()
    # As well as the final fit is solved.
    assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-3 * size)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("model", [LASSO, LOGISTIC], ids=["lasso", "logistic"])
@pytest.mark.parametrize("make", INPUTS)
def test_every_input_gives_what_arrays_give(make, model, weighted, tmp_path):
    X, y, weights = rows_for(model, weighted=weighted)
    expected = clone(model).fit(X, y, sample_weight=weights)
    found = clone(model).fit(*make(X, y, weights, tmp_path))
    assert_same_search(found, expected)
    assert found.n_features_in_ == N_FEATURES


@pytest.mark.parametrize("make", INPUTS)
def test_paths_of_every_input(make, tmp_path):
    X, y, weights = make_rows()
    expected = lasso_path(X, y, alphas=5, fit_intercept=True, sample_weight=weights)
    source, *columns = make(X, y, weights, tmp_path)
    weight = {"sample_weight": columns.pop()} if len(columns) > 1 else {}
    found = lasso_path(source, *columns, alphas=5, fit_intercept=True, **weight)
    assert_allclose(found.alphas, expected.alphas, rtol=1e-10)
    assert_allclose(found.coefs, expected.coefs, rtol=1e-8, atol=1e-10)
    labels, Cs = make_classes(X, y, ["a", "b", "c"]), [0.01, 1.0]
    expected = logistic_path(X, labels, Cs=Cs, class_weight="balanced")
    source, *columns = make(X, labels, None, tmp_path)
    found = logistic_path(source, *columns, Cs=Cs, class_weight="balanced")
    assert_allclose(found.coefs, expected.coefs, rtol=1e-5, atol=1e-7)
    assert (found.optimalities <= 1e-4).all()


class MisplacedLabels(SumTask):
    """Counts rows whose label is not their number."""

    def visit(self, chunk):
        numbers = np.arange(chunk.start, chunk.start + chunk.n_rows)
        return [np.count_nonzero(chunk.atom != numbers), 1]


@pytest.mark.parametrize("make", [as_chunks, as_dask_array])
def test_labels_follow_their_rows(make, tmp_path, monkeypatch):
    # Several chunks in a partition.
    monkeypatch.setattr("skcara.data._source._MAX_CHUNK_ROWS", 1024)
    X, y, _ = make_rows()
    source, *target = make(X, y, None, tmp_path)
    data = from_dask(source, *target) if target else source
    labelled = data.for_regression().with_atoms(np.arange(len(y)))
    [(n_misplaced, n_chunks)] = labelled.run([MisplacedLabels()])
    assert n_misplaced == 0
    assert n_chunks > 15


SPLITTERS = {
    "contiguous": KFold(4),
    "shuffled": KFold(4, shuffle=True, random_state=0),
    "overlapping": ShuffleSplit(3, random_state=0),
    "pairs": [(np.arange(2000), np.arange(2000, 5000)), (np.arange(9), np.arange(9))],
}


@pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS)
@pytest.mark.parametrize("model", [LASSO, LOGISTIC], ids=["lasso", "logistic"])
@pytest.mark.parametrize("make", [as_chunks, as_dask_array])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_folds_of_any_splitter(make, model, cv, tmp_path):
    X, y, _ = rows_for(model)
    model = clone(model).set_params(cv=cv, max_iter=5)
    expected = clone(model).fit(X, y)
    assert_same_search(clone(model).fit(*make(X, y, None, tmp_path)), expected)


STRATIFIED = {
    "number": 3,
    "plain": StratifiedKFold(3),
    "shuffled": StratifiedKFold(3, shuffle=True, random_state=0),
    "overlapping": StratifiedShuffleSplit(3, random_state=0),
}


@pytest.mark.parametrize("cv", STRATIFIED.values(), ids=STRATIFIED)
@pytest.mark.parametrize("names", [("no", "yes"), (3, 1, 7)], ids=["two", "three"])
def test_classes_are_spread_as_in_memory(cv, names, tmp_path):
    X, y, _ = rows_for(LOGISTIC, names=names)
    model = clone(LOGISTIC).set_params(cv=cv)
    expected = clone(model).fit(X, y)
    found = model.fit(*as_chunks(X, y, None, tmp_path))
    assert_same_search(found, expected)
    # One read for the labels, one for the search, some for the final fit.
    assert found.n_passes_ >= 2


def test_contiguous_folds_need_no_labels_and_no_read_for_them():
    X, y, _ = make_rows()
    found = clone(LASSO).fit(from_chunks(lambda: pieces(X, y)))
    assert found.n_passes_ == 1


@pytest.mark.parametrize("make", [as_chunks, as_dask_array])
@pytest.mark.parametrize("model", [LASSO, LOGISTIC], ids=["lasso", "logistic"])
def test_groups_are_routed_to_the_splitter(make, model, tmp_path):
    X, y, _ = rows_for(model)
    groups = np.random.default_rng(0).integers(0, 20, len(y))
    with config_context(enable_metadata_routing=True):
        model = clone(model).set_params(cv=GroupKFold(4))
        expected = clone(model).fit(X, y, groups=groups)
        found = clone(model).fit(*make(X, y, None, tmp_path), groups=groups)
    assert_same_search(found, expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("class_weight", ["balanced", {"no": 3.0, "yes": 0.5}])
@pytest.mark.parametrize("standardize", [False, True])
def test_weights_of_classes(class_weight, weighted, standardize, tmp_path):
    X, y, weights = rows_for(LOGISTIC, weighted=weighted)
    model = clone(LOGISTIC).set_params(
        class_weight=class_weight, standardize=standardize, cv=3
    )
    expected = clone(model).fit(X, y, sample_weight=weights)
    found = model.fit(*as_dask_array(X, y, weights, tmp_path))
    assert_same_search(found, expected)


def mean_label(y, y_pred):
    return np.mean(y_pred == "yes") - 0.1 * np.mean(y == "no")


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "scoring",
    ["accuracy", "balanced_accuracy", "f1_macro", "roc_auc", "neg_brier_score"],
)
@needs_recent_twin
def test_any_scorer_of_predictions(scoring, weighted, tmp_path):
    X, y, weights = rows_for(LOGISTIC, weighted=weighted)
    model = clone(LOGISTIC).set_params(scoring=scoring, cv=3)
    expected = clone(model).fit(X, y, sample_weight=weights)
    found = model.fit(*as_chunks(X, y, weights, tmp_path))
    assert_same_search(found, expected, rtol=1e-9)


def test_a_scorer_that_is_not_scikit_learns(tmp_path):
    X, y, _ = rows_for(LOGISTIC)
    model = clone(LOGISTIC).set_params(scoring=make_scorer(mean_label), cv=3)
    expected = clone(model).fit(X, y)
    assert_same_search(model.fit(*as_chunks(X, y, None, tmp_path)), expected)


def test_scorers_that_look_at_rows_are_refused_by_name(tmp_path):
    def look_at_rows(estimator, X, y):
        return X.mean()

    X, y, _ = rows_for(LOGISTIC)
    model = clone(LOGISTIC).set_params(scoring=look_at_rows)
    with pytest.raises(ValueError, match=r"look_at_rows.* not in memory"):
        model.fit(*as_chunks(X, y, None, tmp_path))
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("model", [LASSO, LOGISTIC], ids=["lasso", "logistic"])
def test_sparse_chunks(model):
    X, y, weights = rows_for(model, weighted=True)
    X = np.where(np.abs(X - 3) > 1, X, 0.0)
    expected = clone(model).fit(sparse.csr_array(X), y, sample_weight=weights)
    source = from_chunks(lambda: pieces(sparse.csr_array(X), y, weights))
    assert_same_search(clone(model).fit(source), expected)


def test_a_search_that_samples_is_as_good_as_in_memory():
    """More rows than fit into the sample: scores are certified, not equal in bits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150_000, 8))
    y = X @ rng.standard_normal(8) + rng.logistic(size=len(X)) > 0
    model = CaLogisticRegressionCV(Cs=[0.01, 1.0], cv=3)
    expected = clone(model).fit(X, y)

    def chunks():
        for start in range(0, len(X), 40_000):
            yield X[start : start + 40_000], y[start : start + 40_000]

    found = model.fit(from_chunks(chunks))
    assert_allclose(found.scores_, expected.scores_, rtol=2e-6)
    assert found.C_ == expected.C_
    assert found.n_passes_ <= 14


# ---- degenerate folds, errors ----------------------------------------------------


def test_a_class_that_a_fold_does_not_train_on(tmp_path):
    X, y, _ = rows_for(LOGISTIC, names=("a", "b", "c"))
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model = clone(LOGISTIC).set_params(cv=KFold(3))
    message = r"Folds \[0, 1, 2\] do not train on all classes"
    with pytest.warns(ConvergenceWarning, match=message):
        expected = clone(model).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=message):
        found = model.fit(*as_chunks(X, y, None, tmp_path))
    assert_same_search(found, expected)


@pytest.mark.parametrize("model", [LASSO, LOGISTIC], ids=["lasso", "logistic"])
def test_a_fold_without_weight_is_an_error_in_words(model, tmp_path):
    X, y, weights = rows_for(model, weighted=True)
    weights[:10_000] = 0.0
    model = clone(model).set_params(cv=KFold(3))
    with pytest.raises(ValueError, match=r"[Ff]old 0 has no"):
        model.fit(*as_chunks(X, y, weights, tmp_path))


def test_targets_are_given_once():
    X, y, _ = make_rows(n_rows=100)
    source = from_chunks(lambda: [(X, y)])
    for search in (CaLassoCV().fit, CaLogisticRegressionCV().fit, lasso_path):
        with pytest.raises(ValueError, match="y must be None when X is a source"):
            search(source, y)
    with pytest.raises(ValueError, match="y must be None when X is a source"):
        logistic_path(source, y)


def test_several_targets_are_refused():
    X, y, _ = make_rows(n_rows=100)
    source = from_chunks(lambda: [(X, np.column_stack([y, y]))])
    with pytest.raises(ValueError, match="one target, got 2"):
        CaLassoCV().fit(source)
    with pytest.raises(ValueError, match="one target, got 2"):
        lasso_path(source)


def test_more_folds_than_rows_are_refused_in_scikit_learns_words():
    X, y, _ = make_rows(n_rows=5)
    with pytest.raises(ValueError, match="n_splits=10"):
        CaLassoCV(cv=10).fit(from_chunks(lambda: [(X, y)]))


def test_what_did_not_converge_is_counted(tmp_path):
    X, y, _ = rows_for(LOGISTIC)
    model = clone(LOGISTIC).set_params(max_iter=1, tol=1e-13)
    with pytest.warns(ConvergenceWarning, match="of 15 fits violate"):
        model.fit(*as_chunks(X, y, None, tmp_path))


# ---- predictions -----------------------------------------------------------------


@pytest.mark.parametrize("model", [LASSO, LOGISTIC], ids=["lasso", "logistic"])
def test_predictions_are_lazy(model, tmp_path):
    X, y, _ = rows_for(model)
    lazy, target = as_dask_array(X, y, None, tmp_path)
    fitted = clone(model).fit(lazy, target)
    expected = fitted.predict(X)
    (source,) = as_chunks(X, y, None, tmp_path)
    for predicted in (
        fitted.predict(lazy).compute(),
        np.concatenate(list(fitted.predict(source))),
    ):
        if model is LOGISTIC:
            assert_array_equal(predicted, expected)
        else:
            # Products round the last rows of a chunk differently, wherever it ends.
            assert_allclose(predicted, expected, rtol=1e-13)
    if model is LOGISTIC:
        proba = fitted.predict_proba(lazy)
        assert proba.shape == (len(X), 2)
        assert_allclose(proba.compute(), fitted.predict_proba(X), rtol=1e-14)
