"""Estimators reach the same optimum wherever the rows are."""

import numpy as np
import pytest
from certificates import (
    lasso_dual_gap,
    logistic_violation,
    squared_violation,
)
from io_inputs import (
    INPUTS,
    N_FEATURES,
    as_chunks,
    as_dask_array,
    as_dask_frame,
    as_parquet,
    make_classes,
    make_frame,
    make_rows,
    pieces,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from skcara import (
    CaLasso,
    CaLeastSquares,
    CaLogisticRegression,
)
from skcara.io import from_chunks, from_dask, from_parquet


def judge(model, X, y, weights=None, class_factors=None):
    """Violation of the optimality conditions, relative to what was promised."""
    coef, intercept = model.coef_, model.intercept_
    if isinstance(model, CaLogisticRegression):
        codes = np.searchsorted(model.classes_, y)
        if class_factors is not None:
            weights = class_factors[codes] * (1.0 if weights is None else weights)
        violation = logistic_violation(
            X, codes, coef, intercept, model.C, model.l1_ratio, sample_weight=weights
        )
        return violation / model.tol
    if isinstance(model, CaLasso):
        gap = lasso_dual_gap(X, y, coef, intercept, model.alpha, sample_weight=weights)
        mu = np.ones(len(y)) if weights is None else weights
        return gap / (model.tol * np.cov(y, aweights=mu, ddof=0))
    violation = squared_violation(X, y, coef, intercept, sample_weight=weights)
    return violation / (model.tol * X.std(axis=0).max() * y.std())


MODELS = [
    CaLeastSquares(),
    CaLasso(alpha=0.01),
    CaLogisticRegression(tol=1e-7),
]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("give", INPUTS)
def test_same_optimum_as_in_memory(give, model, is_weighted, tmp_path):
    X, y, weights = make_rows()
    weights = weights if is_weighted else None
    if isinstance(model, CaLogisticRegression):
        y = make_classes(X, y, ["no", "yes"])
    far = clone(model).fit(*give(X, y, weights, tmp_path))
    near = clone(model).fit(X, y, weights)
    assert_allclose(far.coef_, near.coef_, rtol=1e-6)
    assert_allclose(far.intercept_, near.intercept_, rtol=1e-6)
    assert judge(far, X, y, weights) < 1.01
    assert far.n_features_in_ == N_FEATURES
    if give in (as_dask_frame, as_parquet):
        assert far.feature_names_in_.tolist() == [f"x{j}" for j in range(N_FEATURES)]
    else:
        assert not hasattr(far, "feature_names_in_")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("give", INPUTS)
@pytest.mark.parametrize("class_weight", ["balanced", {"a": 2.0, "b": 0.5}])
def test_weights_of_classes(give, class_weight, n_classes, tmp_path):
    X, y, weights = make_rows()
    labels = make_classes(X, y, list("abc")[:n_classes])
    model = CaLogisticRegression(class_weight=class_weight, tol=1e-7)
    far = clone(model).fit(*give(X, labels, weights, tmp_path))
    assert far.classes_.tolist() == list("abc")[:n_classes]
    masses = np.array([weights[labels == label].sum() for label in far.classes_])
    factors = masses.sum() / (n_classes * masses)
    if isinstance(class_weight, dict):
        factors = np.array([class_weight.get(label, 1.0) for label in far.classes_])
    assert judge(far, X, labels, weights, factors) < 1.01
    near = clone(model).fit(X, labels, weights)
    assert_allclose(far.coef_, near.coef_, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "names", [[True, False], [-1, 1], [2.0, 3.0, 7.0], ["left", "right"]]
)
def test_labels_of_any_type(names, tmp_path):
    X, y, _ = make_rows()
    labels = make_classes(X, y, sorted(names))
    far = CaLogisticRegression().fit(*as_chunks(X, labels, None, tmp_path))
    near = CaLogisticRegression().fit(X, labels)
    assert_array_equal(far.classes_, near.classes_)
    assert far.classes_.dtype == near.classes_.dtype
    assert judge(far, X, labels) < 1.01


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_sparse_rows(model, is_weighted, tmp_path):
    X, y, weights = make_rows()
    weights = weights if is_weighted else None
    X[np.random.default_rng(2).uniform(size=X.shape) > 0.3] = 0
    if isinstance(model, CaLogisticRegression):
        y = make_classes(X, y, [0, 1])
    far = clone(model).fit(*as_chunks(sparse.csr_array(X), y, weights, tmp_path))
    assert judge(far, X, y, weights) < 1.01


def test_several_targets(tmp_path):
    X, y, weights = make_rows()
    targets = np.column_stack([y, y**2])
    far = CaLasso(alpha=0.1).fit(*as_chunks(X, targets, weights, tmp_path))
    near = CaLasso(alpha=0.1).fit(X, targets, weights)
    assert_allclose(far.coef_, near.coef_, rtol=1e-6)
    assert_allclose(far.intercept_, near.intercept_, rtol=1e-6)


SOLVERS = [
    {"solver": "cagd"},
    {"solver": "cagd", "recombination": None},
    {"solver": "cabcd"},
    {"solver": "cabcd", "selection": "Random", "block_size": 3},
    {"solver": "canewton", "recombination": "log"},
    {"solver": "canewton", "recombination": None},
]


@pytest.mark.parametrize("model", MODELS[1:], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("options", SOLVERS, ids=str)
@pytest.mark.parametrize("give", [as_chunks, as_dask_array])
def test_every_solver_reads_parts(options, model, give, tmp_path, monkeypatch):
    # Samples do not hold all the rows, and few rows are not a case of their own.
    monkeypatch.setattr("skcara.io._pool._POOL_BYTES", 500_000)
    monkeypatch.setattr("skcara.solvers._strategy._SMALL_ENTRIES", 0)
    X, y, weights = make_rows()
    if isinstance(model, CaLogisticRegression):
        y = make_classes(X, y, [0, 1])
    model = clone(model).set_params(tol=1e-4, **options)
    model.fit(*give(X, y, weights, tmp_path))
    assert judge(model, X, y, weights) < 1.01
    if model.support_ is not None:
        assert model.support_weights_.sum() == pytest.approx(weights.sum())
        assert (np.diff(model.support_) > 0).all()
        assert weights[model.support_].all()


def test_working_sets_of_columns(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(300)
    source = from_chunks(lambda: [(X[:100], y[:100]), (X[100:], y[100:])])
    far = CaLasso(alpha=0.1).fit(source)
    assert far.strategy_ == "working sets"
    assert judge(far, X, y) < 1.01


def test_rare_columns_are_found_outside_of_the_pool(monkeypatch):
    # A uniform sample knows next to nothing of the last column.
    monkeypatch.setattr("skcara.io._pool._POOL_BYTES", 2_000_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300_000, 5))
    X[:, 4] = 0
    X[rng.choice(300_000, 200, replace=False), 4] = 1
    y = (X.sum(axis=1) + rng.logistic(size=len(X)) > 0).astype(int)
    source = from_chunks(
        lambda: zip(np.array_split(X, 7), np.array_split(y, 7), strict=True)
    )
    far = CaLogisticRegression(C=10.0, tol=1e-6).fit(source)
    assert far.strategy_ == "calibrated sample"
    assert judge(far, X, y) < 1.01
    # Its rows are in the sample nevertheless.
    assert X[far.support_, 4].sum() > 100


class Opened:
    """Counts how often rows are read from their beginning to their end."""

    def __init__(self, *columns):
        self._columns, self.n_reads = columns, 0

    def __call__(self):
        yield from zip(*(np.array_split(c, 13) for c in self._columns), strict=True)
        self.n_reads += 1


@pytest.mark.parametrize(
    ("model", "most_reads"),
    [(CaLeastSquares(), 2), (CaLasso(0.01), 2), (CaLogisticRegression(), 5)],
    ids=["least squares", "lasso", "logistic"],
)
def test_number_of_reads(model, most_reads):
    X, y, _ = make_rows(n_rows=1_000_000, n_features=8)
    if isinstance(model, CaLogisticRegression):
        y = make_classes(X, y, [0, 1])
    opened = Opened(X, y)
    model.fit(from_chunks(opened))
    assert opened.n_reads <= most_reads
    # One read before the passes; the reduced steps are small.
    assert opened.n_reads == 1 + int(model.n_passes_)


class TestBadInput:
    def test_targets_and_weights_belong_to_a_source(self):
        X, y, weights = make_rows(n_rows=100)
        source = from_chunks(lambda: [(X, y)])
        with pytest.raises(ValueError, match=r"y must be None when X is a source"):
            CaLasso().fit(source, y)
        with pytest.raises(ValueError, match=r"sample_weight must be None"):
            CaLogisticRegression().fit(source, sample_weight=weights)

    @pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
    def test_dask_needs_targets(self, model):
        da = pytest.importorskip("dask.array")
        with pytest.raises(ValueError, match="requires y to be passed"):
            clone(model).fit(da.ones((100, 3)))
        with pytest.raises(ValueError, match="requires y to be passed"):
            clone(model).fit(np.ones((100, 3)))

    def test_a_failed_fit_leaves_the_estimator_as_it_was(self):
        X, y, _ = make_rows(n_rows=100)
        model = CaLasso().fit(X, y)
        before = vars(model).copy()
        bad = X[:, :3].copy()
        bad[70, 2] = np.nan
        with pytest.raises(ValueError, match="NaN or infinity in column 2, row 70"):
            model.fit(from_chunks(lambda: [(bad, y)]))
        assert vars(model) == before

    def test_one_class(self):
        X, _, _ = make_rows(n_rows=100)
        with pytest.raises(ValueError, match="at least 2 classes"):
            CaLogisticRegression().fit(from_chunks(lambda: [(X, np.ones(100))]))


class TestPredictions:
    @pytest.fixture
    def data(self):
        X, y, _ = make_rows()
        return X, make_classes(X, y, ["left", "right", "up"])

    METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")

    @pytest.mark.parametrize("method", METHODS)
    def test_dask_is_lazy_and_sources_give_arrays(self, data, method, tmp_path):
        X, labels = data
        model = CaLogisticRegression().fit(*as_dask_array(X, labels, None, tmp_path))
        expected = getattr(model, method)(X)
        lazy = getattr(model, method)(as_dask_array(X, labels, None, tmp_path)[0])
        assert lazy.shape == expected.shape
        assert lazy.dtype == expected.dtype
        (source,) = as_chunks(X, labels, None, tmp_path)
        found = np.concatenate(list(getattr(model, method)(source)))
        for one in (lazy.compute(), found):
            if method == "predict":
                assert_array_equal(one, expected)
            else:
                assert_allclose(one, expected, rtol=1e-9)

    def test_frames_keep_their_index_and_name_the_classes(self, data, tmp_path):
        X, labels = data
        frame, target = as_dask_frame(X, labels, None, tmp_path)
        model = CaLogisticRegression().fit(frame, target)
        proba = model.predict_proba(frame)
        assert list(proba.columns) == ["left", "right", "up"]
        assert_allclose(proba.compute(), model.predict_proba(frame.compute()))

    def test_columns_of_files_are_those_of_the_fit(self, data, tmp_path):
        X, labels = data
        (source,) = as_parquet(X, labels, None, tmp_path)
        model = CaLogisticRegression().fit(source)
        found = np.concatenate(list(model.predict(source)))
        frame = make_frame(X, labels, None).drop(columns="y")
        assert_array_equal(found, model.predict(frame))
        names = ["x1", "x0", "x2", "x3", "x4", "x5"]
        other = from_parquet(tmp_path / "*.parquet", target="y", columns=names)
        with pytest.raises(ValueError, match="column 0 was 'x0' then and is 'x1' now"):
            model.predict(other)
        fewer = from_parquet(tmp_path / "*.parquet", target="y", columns=names[:3])
        with pytest.raises(ValueError, match=r"3 features, but .* is expecting 6"):
            model.predict(fewer)

    def test_nothing_is_predicted_before_a_fit(self, data, tmp_path):
        X, labels = data
        with pytest.raises(Exception, match="not fitted"):
            CaLasso().predict(as_chunks(X, labels, None, tmp_path)[0])


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("give", [as_chunks, as_parquet])
def test_scores_of_sources(give, is_weighted, tmp_path):
    X, y, weights = make_rows()
    weights = weights if is_weighted else None
    labels = make_classes(X, y, ["left", "right", "up"])
    for model, target in ((CaLasso(1.0), y), (CaLogisticRegression(), labels)):
        (source,) = give(X, target, weights, tmp_path)
        model.fit(source)
        near = clone(model).fit(X, target, weights)
        assert_allclose(model.score(source), near.score(X, target, weights), rtol=1e-4)
        with pytest.raises(
            ValueError, match=r"y must be None.*give score the source alone"
        ):
            model.score(source, target)


def test_score_of_several_targets(tmp_path):
    X, y, weights = make_rows()
    targets = np.column_stack([y, y**2])
    (source,) = as_chunks(X, targets, weights, tmp_path)
    model = CaLeastSquares().fit(source)
    assert_allclose(model.score(source), model.score(X, targets, weights), rtol=1e-9)


def test_observers_get_sources(capsys):
    X, y, _ = make_rows()
    source = from_chunks(lambda: pieces(X, y))
    CaLasso(verbose=1).fit(source)
    assert "round" in capsys.readouterr().out


def test_from_dask_can_be_given_to_fit(tmp_path):
    X, y, weights = make_rows()
    given = as_dask_array(X, y, weights, tmp_path)
    assert_array_equal(
        CaLasso().fit(from_dask(*given)).coef_, CaLasso().fit(*given).coef_
    )
