"""What users hand over: types, layouts, bad input, degenerate input."""

import io
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import classification, regression
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara._sklearn_compat import HAS_CALLBACKS

REGRESSORS = [CaLeastSquares(), CaLasso(0.01)]
ESTIMATORS = [*REGRESSORS, CaLogisticRegression()]
SOLVERS = ["auto", "cabcd", "cagd"]
POLARS_FRAME = pytest.param(
    pl.DataFrame,
    marks=pytest.mark.skipif(
        not HAS_CALLBACKS, reason="recent polars needs scikit-learn 1.9"
    ),
)


def data_for(model, **options):
    make = classification if isinstance(model, CaLogisticRegression) else regression
    return make(**options)


def memory_mapped(X, tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize(
    "layout", ["fortran", "float32", "read-only", "memmap", "csc", "csr-int64"]
)
def test_layouts_give_the_same_model(layout, model, solver, tmp_path):
    X, y = data_for(model)
    X = X.astype(np.float32).astype(np.float64)  # so that float32 loses nothing
    expected = clone(model).set_params(solver=solver).fit(X, y)
    if layout == "fortran":
        other = np.asfortranarray(X)
    elif layout == "float32":
        other = X.astype(np.float32)
    elif layout == "read-only":
        other = X.copy()
        other.flags.writeable = False
    elif layout == "memmap":
        other = memory_mapped(X, tmp_path)
    elif layout == "csc":
        other = sparse.csc_matrix(X)
    else:
        other = sparse.csr_array(X)
        other.indices = other.indices.astype(np.int64)
        other.indptr = other.indptr.astype(np.int64)
    fitted = clone(model).set_params(solver=solver).fit(other, y)
    assert_allclose(fitted.coef_, expected.coef_, rtol=0.02, atol=2e-3)
    assert_array_equal(fitted.predict(X[:5]).shape, expected.predict(X[:5]).shape)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_input_arrays_are_left_alone(model):
    X, y = data_for(model)
    weights = np.random.default_rng(0).random(len(y))
    copies = X.copy(), y.copy(), weights.copy()
    clone(model).fit(X, y, sample_weight=weights)
    for array, copy in zip((X, y, weights), copies, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize("frame", [pd.DataFrame, POLARS_FRAME])
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_data_frames_keep_their_names(model, frame):
    X, y = data_for(model)
    names = [f"column_{j}" for j in range(X.shape[1])]
    table = frame(dict(zip(names, X.T, strict=True)))
    fitted = clone(model).fit(table, y)
    assert_array_equal(fitted.feature_names_in_, names)
    assert_allclose(fitted.predict(table), clone(model).fit(X, y).predict(X))


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [False, True], [-1, 1], [0.0, 1.0], [10**6, 10**9]],
    ids=str,
)
def test_labels_of_any_kind(labels):
    X, y = classification()
    labels = np.array(labels)
    model = CaLogisticRegression().fit(X, labels[y])
    assert_array_equal(model.classes_, labels)
    assert set(model.predict(X)) <= set(labels)
    assert_allclose(model.coef_, CaLogisticRegression().fit(X, y).coef_)


def test_probabilities_are_those_of_the_scores():
    for n_classes in (2, 4):
        X, y = classification(n_classes=n_classes)
        model = CaLogisticRegression().fit(X, y)
        proba = model.predict_proba(X)
        assert proba.shape == (len(y), n_classes)
        assert_allclose(proba.sum(axis=1), 1.0)
        assert_allclose(np.log(proba), model.predict_log_proba(X))
        assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
        far = model.predict_log_proba(1e4 * X)
        assert np.isfinite(far).all()


def test_several_targets_are_fitted_one_by_one():
    X, y = regression()
    Y = np.column_stack([y, -2 * y, X[:, 1]])
    for model in (CaLasso(0.01), CaLeastSquares()):
        joint = clone(model).fit(X, Y)
        assert joint.coef_.shape == (3, X.shape[1])
        assert joint.predict(X).shape == Y.shape
        assert len(joint.history_) == 3
        for target in range(3):
            single = clone(model).fit(X, Y[:, target])
            # Products of many targets at once round differently, and the third one
            # has coefficients of zero.
            assert_allclose(joint.coef_[target], single.coef_, atol=1e-13)
            assert_allclose(joint.intercept_[target], single.intercept_, atol=1e-13)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(model, bad):
    X, y = data_for(model)
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(model).fit(X, y)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(600, -1.0), "sample_weight.*non-negative"),
        (np.zeros(600), "weights.*non-zero"),
        (np.ones(7), r"sample_weight must have shape \(600,\)"),
        (np.full(600, np.nan), "sample_weight contains NaN"),
    ],
    ids=["negative", "zero", "length", "nan"],
)
def test_bad_weights_are_refused(model, weights, message):
    X, y = data_for(model)
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "newton"}, "'solver' parameter"),
        ({"recombination": "magic"}, "'recombination' parameter"),
        ({"solver": "cabcd", "selection": "best"}, "'selection' parameter"),
        ({"tol": -1}, "'tol' parameter"),
        ({"momentum": 1.0, "solver": "cagd"}, "'momentum' parameter"),
        ({"block_size": 3}, "block_size=3 has no effect with solver='auto'"),
        ({"solver": "cagd", "selection": "Random"}, "selection='Random' has no effect"),
        (
            {"solver": "canewton", "step_size": 0.1},
            r"choose solver from \['cabcd', 'cagd'\]|choose solver from",
        ),
        ({"solver": "cabcd", "partition": "Sort", "selection": "IHT"}, "IHT"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(parameters, message):
    X, y = regression()
    with pytest.raises(ValueError, match=message):
        CaLasso(**parameters).fit(X, y)


def test_one_class_is_refused():
    X, _ = classification()
    with pytest.raises(ValueError, match=r"at least 2 classes.*only one class: 'a'"):
        CaLogisticRegression().fit(X, ["a"] * len(X))


def test_continuous_labels_are_refused():
    X, y = regression()
    with pytest.raises(ValueError, match="continuous"):
        CaLogisticRegression().fit(X, y)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
@pytest.mark.parametrize("case", ["one-row", "few-rows", "zero-X", "constant-y"])
def test_degenerate_regressions_have_correct_answers(case, model, solver):
    X, y = regression(n_rows=40)
    if case == "one-row":
        X, y = X[:1], y[:1]
    elif case == "few-rows":
        X, y = X[:5], y[:5]
    elif case == "zero-X":
        X = np.zeros_like(X)
    else:
        y = np.full(len(y), 3.0)
    fitted = clone(model).set_params(solver=solver).fit(X, y)
    if case in ("zero-X", "constant-y"):
        assert_allclose(fitted.coef_, 0.0, atol=1e-10)
        assert_allclose(fitted.intercept_, y.mean())
    else:
        weaker = 0.3 if isinstance(model, CaLasso) else 1e-4
        assert_allclose(fitted.predict(X), y, atol=weaker)


@pytest.mark.parametrize("solver", SOLVERS)
def test_separable_data_without_penalty_warn_and_stay_finite(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2))
    y = X[:, 0] > 0
    model = CaLogisticRegression(C=np.inf, solver=solver, tol=1e-12, max_iter=20)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_warning_says_what_was_reached(solver):
    # More columns than one round can look at.
    X = np.random.default_rng(0).standard_normal((300, 400))
    y = X[:, :100].sum(axis=1)
    model = CaLasso(1e-3, solver=solver, tol=1e-16, max_iter=1)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert len(caught) == 1
    text = str(caught[0].message)
    for part in ("CaLasso", model.solver_, "rounds", "tol=1e-16", "duality gap"):
        assert part in text
    assert text.endswith("Increase max_iter or tol.") == (solver == "auto")
    assert ("leave solver at 'auto'" in text) == (solver != "auto")


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_pickles_are_small_and_predict_the_same(model):
    X, y = data_for(model, n_rows=20_000)
    fitted = clone(model).fit(X, y)
    text = pickle.dumps(fitted)
    assert len(text) < X.nbytes / 2
    assert_array_equal(pickle.load(io.BytesIO(text)).predict(X), fitted.predict(X))


def test_scale_of_the_target_only_scales_the_coefficients():
    X, y = regression()
    coef = CaLasso(0.05).fit(X, y).coef_
    scaled = CaLasso(0.05e6).fit(X, 1e6 * y).coef_
    assert_allclose(scaled, 1e6 * coef, rtol=1e-7)


def test_no_warnings_on_ordinary_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in ESTIMATORS:
            clone(model).fit(*data_for(model))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize("row", [0, 123_457], ids=["sampled", "not-sampled"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_values_cannot_hide_in_large_data(bad, row, model, solver):
    """Large data are not read in advance for this; the first gradient tells."""
    X, y = data_for(model, n_rows=200_000)
    X[row, 3] = bad
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        clone(model).set_params(solver=solver).fit(X, y)


def test_values_too_large_to_square_are_an_error():
    X, y = regression()
    with pytest.raises(ValueError, match="y contain values that are too large"):
        CaLeastSquares(solver="cagd").fit(X, 1e200 * y)
    with pytest.raises(ValueError, match=r"X contains .*, whose square overflows"):
        CaLeastSquares(solver="cagd").fit(1e200 * X, y)


@pytest.mark.parametrize("value", [1e160, 1e300, -1e300])
@pytest.mark.parametrize("shape", [(500, 4), (60_000, 8), (150_000, 8), (10_000, 150)])
@pytest.mark.parametrize(
    "model",
    [CaLasso(0.01), CaLeastSquares(), CaLogisticRegression()],
    ids=lambda model: type(model).__name__,
)
def test_one_value_too_large_to_square_is_named(
    model, shape, value, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal(shape)
    y = X @ rng.standard_normal(shape[1]) + rng.standard_normal(shape[0])
    X[rng.integers(shape[0]), 3] = value
    target = y > 0 if is_classifier(model) else y
    with pytest.raises(ValueError, match=r"X contains .*, whose square overflows.*"):
        clone(model).fit(X, target)
