"""A pass over chunks equals plain products with the whole matrix."""

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skcara.data import Design


def make_rows(rng, n_rows=40_000, n_features=6):
    X = rng.standard_normal((n_rows, n_features)) * np.logspace(-2, 2, n_features)
    return X + np.arange(n_features)


LAYOUTS = {
    "c": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "int16": lambda X: X.astype(np.int16),
    "csr": sparse.csr_array,
    "csr-int64": lambda X: _with_wide_indices(sparse.csr_array(X)),
}


def _with_wide_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def dense(X):
    return X.toarray() if sparse.issparse(X) else X.astype(np.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_cover_all_rows_once(layout, global_random_seed):
    X = LAYOUTS[layout](make_rows(np.random.default_rng(global_random_seed)))
    (total,) = Design(X).map_reduce(lambda start, rows: [rows.sum(axis=0)])
    assert_allclose(total, dense(X).sum(axis=0), rtol=1e-11)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("layout", ["c", "fortran", "float32", "csr"])
def test_standardised_coordinates_leave_predictions_alone(layout, shifted):
    rng = np.random.default_rng(0)
    X = LAYOUTS[layout](make_rows(rng, n_rows=500))
    shift = dense(X).mean(axis=0) if shifted and layout != "csr" else None
    design = Design(X, shift=shift, scale=dense(X).std(axis=0))
    coef, intercept = rng.standard_normal((6, 2)), rng.standard_normal(2)
    params = design.from_user(coef, intercept)
    expected = dense(X) @ coef + intercept
    assert_allclose(design.take(np.arange(500)) @ params, expected, rtol=1e-9)
    assert_allclose(design.predict(np.arange(500), params), expected, rtol=1e-9)
    back = design.to_user(params)
    assert_allclose(back[0], coef, rtol=1e-12)
    assert_allclose(back[1], intercept, rtol=1e-9)
    raw_coef, raw_intercept = design.effective_params(params)
    assert_allclose(design.chunk(0, 500) @ raw_coef + raw_intercept, expected, 1e-9)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e8])
def test_corrected_sums_are_those_of_the_standardised_rows(offset):
    """Also for columns so far from zero that a rank-one correction would cancel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4)) + offset
    design = Design(X, shift=X.mean(axis=0), scale=X.std(axis=0))
    derivative = rng.standard_normal((3000, 2))
    sums = design.chunk(0, 3000).T @ derivative
    corrected = design.correct_sums(sums, derivative.sum(axis=0))
    expected = design.take(np.arange(3000)).T @ derivative
    assert_allclose(corrected, expected, atol=1e-9)


@pytest.mark.parametrize("keep_sparse", [False, True])
def test_take_selects_rows_and_columns(keep_sparse):
    values = np.random.default_rng(0).standard_normal((50, 5))
    X = sparse.csr_array(np.where(values > 0.3, values, 0.0))
    design = Design(X, scale=np.arange(1.0, 6.0))
    indices, features = np.array([3, 1, 40]), np.array([0, 2, 5])
    taken = design.take(indices, features, keep_sparse=keep_sparse)
    assert sparse.issparse(taken) == keep_sparse
    standardised = np.hstack([X.toarray() / np.arange(1, 6), np.ones((50, 1))])
    assert_allclose(dense(taken), standardised[np.ix_(indices, features)])


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_sums_do_not_depend_on_the_number_of_threads(backend):
    X = make_rows(np.random.default_rng(0), n_rows=400_000)

    def total(n_jobs):
        design = Design(X, n_jobs=n_jobs)
        return design.map_reduce(lambda start, rows: [np.sin(rows).sum(axis=0)])[0]

    with parallel_config(backend=backend):
        assert_array_equal(total(1), total(2))


def test_data_are_not_copied():
    X = make_rows(np.random.default_rng(0), n_rows=100)
    X.flags.writeable = False
    assert np.shares_memory(Design(X).chunk(10, 20), X)
    for container in (sparse.csr_array, sparse.csr_matrix):
        S = container(X)
        assert np.shares_memory(Design(S).X.data, S.data)


def test_impossible_shifts_are_refused():
    X = np.eye(3)
    with pytest.raises(ValueError, match="Sparse data cannot be shifted"):
        Design(sparse.csr_array(X), shift=np.ones(3))
    with pytest.raises(ValueError, match="next to an intercept"):
        Design(X, fit_intercept=False, shift=np.ones(3))
