"""A fit needs little memory besides the data: at most a tenth of ``X``."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

from skcara import CaLasso, CaLassoCV, CaLeastSquares, CaLogisticRegression

N_ROWS, N_COLUMNS = 500_000, 12


def nbytes(X):
    if sparse.issparse(X):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return X.nbytes


def peak_share(model, X, y, **fit_params):
    """Largest memory in use during a fit, as a share of that of ``X``."""
    # What the first fit of a process imports and caches is not what is measured.
    few = {name: value[:2000] for name, value in fit_params.items()}
    model.fit(X[:2000], y[:2000], **few)
    tracemalloc.start()
    try:
        model.fit(X, y, **fit_params)
        return tracemalloc.get_traced_memory()[1] / nbytes(X)
    finally:
        tracemalloc.stop()


def gaussian(n_columns=N_COLUMNS):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, n_columns))
    return X, X @ rng.standard_normal(n_columns) / 2, rng


def one_hot(n_variables=30, n_levels=5):
    """Categories with a rare level each, as CSR, and a score."""
    rng = np.random.default_rng(0)
    frequency = np.append(np.full(n_levels - 1, 0.2499), 0.0004)
    levels = rng.choice(n_levels, (N_ROWS // 2, n_variables), p=frequency)
    columns = (levels + n_levels * np.arange(n_variables)).astype(np.int32)
    indptr = np.arange(0, columns.size + 1, n_variables, dtype=np.int32)
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), indptr))
    return X, X @ rng.standard_normal(X.shape[1]) / 4, rng


def labels(score, rng):
    return (rng.logistic(size=len(score)) < score).astype(int)


@pytest.mark.parametrize("kind", ["plain", "weights", "strings", "balanced", "l1"])
def test_logistic_regression(kind):
    X, score, rng = gaussian()
    y, weights = labels(score, rng), {}
    model = CaLogisticRegression(random_state=0)
    if kind == "weights":
        weights = {"sample_weight": rng.uniform(size=N_ROWS)}
    elif kind == "strings":
        y = np.array(["no", "yes"])[y]
    elif kind == "balanced":
        model.set_params(class_weight="balanced")
    elif kind == "l1":
        model.set_params(C=1e-3, l1_ratio=1.0)
    assert peak_share(model, X, y, **weights) < 0.1


def test_rows_that_are_single_precision_are_sampled_in_double():
    X, score, rng = gaussian()
    model = CaLogisticRegression(random_state=0)
    assert peak_share(model, X.astype(np.float32), labels(score, rng)) < 0.2


def test_heavy_tails():
    X, score, rng = gaussian()
    model = CaLogisticRegression(random_state=0)
    assert peak_share(model, np.exp(1.5 * X, out=X), labels(score, rng)) < 0.1


def test_multinomial():
    X, score, rng = gaussian()
    y = np.digitize(score + rng.logistic(size=N_ROWS), [-1.0, 0.0, 1.0])
    assert peak_share(CaLogisticRegression(random_state=0), X, y) < 0.1


def test_sparse_rare_levels():
    X, score, rng = one_hot()
    model = CaLogisticRegression(random_state=0)
    assert peak_share(model, X, labels(score, rng)) < 0.1


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("model", [CaLasso(alpha=0.01), CaLeastSquares()], ids=repr)
def test_squared_loss(model, has_weights):
    X, score, rng = gaussian()
    weights = {"sample_weight": rng.uniform(size=N_ROWS)} if has_weights else {}
    y = score + rng.standard_normal(N_ROWS)
    assert peak_share(model, X, y, **weights) < 0.1


@pytest.mark.parametrize(
    "cv",
    [
        5,
        KFold(5, shuffle=True, random_state=0),
        RepeatedKFold(n_splits=5, n_repeats=3, random_state=0),
        ShuffleSplit(10, random_state=0),
    ],
    ids=str,
)
def test_search(cv):
    # Lists of rows that a splitter makes are 28 bytes a row at a time.
    X, score, rng = gaussian(n_columns=32)
    y = score + rng.standard_normal(N_ROWS)
    assert peak_share(CaLassoCV(cv=cv), X, y) < 0.15


def test_squared_loss_with_a_sampled_gram_matrix():
    X, score, rng = gaussian(n_columns=100)
    X, score = X[:100_000], score[:100_000]
    y = score + rng.standard_normal(len(score))
    assert peak_share(CaLasso(alpha=0.01, random_state=0), X, y) < 0.1
