"""Columns that depend on others: the least-squares solution of smallest norm."""

import numpy as np
import pytest
from certificates import squared_objective, squared_violation
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LinearRegression

from skcara import CaLasso, CaLeastSquares
from skcara.solvers.squared._statistics import pivoted_cholesky


def one_hot(n_rows=5000, sizes=(3, 5, 40), seed=0):
    """Every level of every variable has a column, and all levels occur."""
    rng = np.random.default_rng(seed)
    levels = [rng.permutation(np.arange(n_rows) ** 2 % size) for size in sizes]
    levels = [np.unique(level, return_inverse=True)[1] for level in levels]
    sizes = [level.max() + 1 for level in levels]
    columns = np.column_stack(levels) + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    ends = np.arange(0, columns.size + 1, len(sizes))
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), ends))
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(n_rows) + 3.0
    return X, y, rng


def smallest_norm(X, y, weights=None):
    """Least squares by a singular value decomposition of the centred rows."""
    X, weights = X.toarray(), np.ones(len(y)) if weights is None else weights
    mean, level = np.average(X, 0, weights), np.average(y, weights=weights)
    roots = np.sqrt(weights)[:, None]
    rows, target = roots * (X - mean), roots[:, 0] * (y - level)
    coef = np.linalg.pinv(rows, rcond=1e-10) @ target
    return coef, level - mean @ coef


@pytest.mark.parametrize("weighted", [False, True])
def test_dummy_variables_have_the_solution_of_smallest_norm(weighted):
    X, y, rng = one_hot()
    weights = rng.uniform(0.5, 2, len(y)) if weighted else None
    model = CaLeastSquares().fit(X, y, sample_weight=weights)
    coef, intercept = smallest_norm(X, y, weights)
    assert_allclose(model.coef_, coef, atol=1e-9)
    assert_allclose(model.intercept_, intercept, atol=1e-9)
    # The sums, the check that the columns are dependent, and perhaps a certificate.
    assert model.n_passes_ <= 3


@pytest.mark.parametrize("to_X", [sparse.csr_array.toarray, sparse.csr_array])
def test_zero_and_repeated_columns_are_dependent_too(to_X):
    X, y, _ = one_hot()
    X = sparse.csr_array(sparse.hstack([X, X[:, [3]], sparse.csr_array((len(y), 2))]))
    model = CaLeastSquares().fit(to_X(X), y)
    coef, intercept = smallest_norm(X, y)
    assert_allclose(model.coef_, coef, atol=1e-8)
    assert_allclose(model.intercept_, intercept, atol=1e-8)
    assert_allclose(model.coef_[-2:], 0.0, atol=1e-12)


@pytest.mark.parametrize("distance", [1e-8, 1e-7, 1e-5])
@pytest.mark.parametrize("to_X", [sparse.csr_array.toarray, sparse.csr_array])
def test_nearly_dependent_columns_are_not_taken_for_dependent_ones(to_X, distance):
    """The difference of two columns predicts the target, however small it is."""
    X, y, rng = one_hot(20_000)
    hidden = rng.standard_normal(len(y))
    nearly = X[:, [3]].toarray() + distance * hidden[:, None]
    X = sparse.csr_array(sparse.hstack([X, sparse.csr_array(nearly)]))
    y = y + 3 * hidden
    model = CaLeastSquares(tol=1e-5).fit(to_X(X), y)
    best = squared_objective(X, y, *explained(X[:, :-1], hidden, y))
    objective = squared_objective(X, y, model.coef_, model.intercept_)
    assert objective <= best * (1 + 1e-3)


def explained(X, hidden, y):
    """Coefficients for X and nothing else that leave the part without ``hidden``."""
    design = np.column_stack([X.toarray(), hidden])
    full = LinearRegression().fit(design, y)
    return np.append(full.coef_[:-1], 0.0), full.intercept_ + full.coef_[-1] * hidden


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_penalties_need_one_pass_for_dependent_columns(l1_ratio):
    X, y, _ = one_hot()
    model = CaLasso(0.01, l1_ratio=l1_ratio, tol=1e-10).fit(X, y)
    l1, l2 = 0.01 * l1_ratio, 0.01 * (1 - l1_ratio)
    assert squared_violation(X, y, model.coef_, model.intercept_, l1, l2) < 1e-9
    assert model.n_passes_ <= 2


def test_pivots_are_independent_and_span_the_others():
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((60, 7))
    rows = basis @ rng.standard_normal((7, 20))
    rows /= np.linalg.norm(rows, axis=0)
    matrix = rows.T @ rows
    result = pivoted_cholesky(matrix, 1e-12)
    assert len(result.pivots) == 7
    assert_allclose(result.factor.T @ result.factor, matrix, atol=1e-12)
    triangle = result.factor[:, result.pivots]
    assert_allclose(np.tril(triangle, -1), 0.0)
    exact = np.linalg.cond(matrix[np.ix_(result.pivots, result.pivots)], 1)
    assert 0.1 * exact <= result.condition <= 1.01 * exact
