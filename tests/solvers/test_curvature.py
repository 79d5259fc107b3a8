"""Curvature bounds against the dense formula, and the passes they cost."""

import numpy as np
import pytest
from scipy import sparse
from skcara.solvers._curvature import BoundedCurvature, output_bound
from skcara.solvers._group_moments import GroupedCurvature, column_pairs
from solvers.descent import LOSSES, dense_design, make_data, make_problem


def textbook_hessian_bound(problem):
    X = dense_design(problem)
    gram = X.T @ (np.array(problem.weights)[:, None] * X)
    ridge = np.repeat(problem.penalty.l2[:, 0], problem.n_outputs)
    return np.kron(gram, output_bound(problem.loss)) + np.diag(ridge)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [5, 40])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_bounds_are_those_of_the_dense_formula(
    loss, is_sparse, n_features, is_weighted, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X, y = make_data(loss, n_rows=300, n_features=n_features, seed=global_random_seed)
    X *= rng.rand(*X.shape) < 0.3
    problem = make_problem(
        sparse.csr_array(X) if is_sparse else X,
        y,
        loss,
        l2=0.1,
        fit_intercept=True,
        sample_weight=rng.rand(300) if is_weighted else None,
    )
    expected = textbook_hessian_bound(problem)
    curvature = BoundedCurvature(problem)
    np.testing.assert_allclose(curvature.lipschitz(), expected.diagonal(), rtol=1e-12)
    order = rng.permutation(problem.n_coords)[:12]
    blocks = [np.sort(block) for block in np.array_split(order, 5)]
    for block, hessian in zip(blocks, curvature.block_hessians(blocks), strict=True):
        np.testing.assert_allclose(
            hessian, expected[np.ix_(block, block)], atol=1e-12 * expected.max()
        )
    passes = curvature.passes
    n_read = np.unique(order // problem.n_outputs).size
    share = 1 if n_features == 5 else n_read / problem.n_params
    assert passes == pytest.approx(1 + share)
    curvature.block_hessians(blocks)
    curvature.lipschitz()
    assert curvature.passes == passes, "what was read once is kept"
    np.testing.assert_allclose(
        curvature.hessian(), expected, atol=1e-12 * expected.max()
    )


def test_block_lipschitz_lies_between_the_largest_and_the_sum(global_random_seed):
    X, y = make_data(seed=global_random_seed)
    curvature = BoundedCurvature(make_problem(X, y))
    block = np.array([1, 4, 7])
    (hessian,) = curvature.block_hessians([block])
    largest = np.linalg.eigvalsh(hessian)[-1]
    lipschitz = curvature.lipschitz()[block]
    assert lipschitz.max() <= largest * (1 + 1e-12)
    assert largest <= lipschitz.sum() * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_bound_dominates_the_hessian_everywhere(loss, size, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X, y = make_data(loss, seed=global_random_seed)
    problem = make_problem(X, y, loss)
    bound = BoundedCurvature(problem).hessian()
    params = size * rng.standard_normal((problem.n_params, problem.n_outputs))
    second = problem.loss.second_derivative(y, X @ params)
    second = second.reshape(len(X), problem.n_outputs, problem.n_outputs)
    hessian = np.einsum("ij,il,ikm->jklm", X, X, second) / len(X)
    hessian = hessian.reshape(problem.n_coords, problem.n_coords)
    assert np.linalg.eigvalsh(bound - hessian)[0] >= -1e-10 * bound.max()


def test_shifted_constant_column_has_no_curvature():
    X, y = make_data(n_features=3)
    X = np.column_stack([X, np.full(len(X), 0.1)])
    problem = make_problem(X, y, fit_intercept=True)
    shift = X.mean(axis=0)
    problem = problem.with_design(problem.design.standardized(shift, np.ones(4)))
    curvature = BoundedCurvature(problem)
    assert curvature.lipschitz()[3] == 0
    (hessian,) = curvature.block_hessians([np.array([2, 3])])
    assert hessian[1, 1] == hessian[0, 1] == 0


@pytest.mark.parametrize("n_features", [5, 40])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_group_products_are_sums_over_groups(n_features, is_sparse):
    X, y = make_data(n_rows=500, n_features=n_features)
    rng = np.random.RandomState(0)
    X *= rng.rand(*X.shape) < 0.5
    problem = make_problem(
        sparse.csr_array(X) if is_sparse else X,
        y,
        fit_intercept=True,
        sample_weight=rng.rand(500),
    )
    curvature = GroupedCurvature(problem, 64)
    blocks = [np.array([0, 3, n_features]), np.array([1, 2])]
    hessians = curvature.moving_hessians(blocks)
    assert curvature.passes == (1 if n_features == 5 else pytest.approx(5 / 41))
    rows = dense_design(problem)
    for block, hessian in zip(blocks, hessians, strict=True):
        products = curvature.group_products(block)
        left, right = column_pairs(block.size)
        terms = rows[:, block[left]] * rows[:, block[right]]
        terms *= problem.weights[:, None]
        expected = np.add.reduceat(terms, np.arange(0, 500, 64))
        np.testing.assert_allclose(products, expected, atol=1e-14)
        np.testing.assert_allclose(hessian[left, right], expected.sum(axis=0))
