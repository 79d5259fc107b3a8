"""Curvature bounds against the dense formula, and the passes they cost."""

import numpy as np
import pytest
from scipy import sparse
from solvers.descent import (
    LOSSES,
    dense_design,
    hessian_bound,
    make_data,
    make_problem,
    shares,
)

from skcara.data import Coordinates
from skcara.passes import column_pairs
from skcara.solvers.descent._control import Secant, secant_curvature
from skcara.solvers.descent._curvature import BoundedCurvature
from skcara.solvers.descent._group_moments import GroupedCurvature


def loaded(case, blocks=()):
    """Curvature with everything that a rule may ask for, and the passes it took."""
    curvature, passes = BoundedCurvature(case.problem), 0.0
    for load in (curvature.load_lipschitz(), curvature.load_blocks(list(blocks))):
        passes += read(case, load)
    return curvature, passes


def read(case, requests):
    """Answer a generator of requests; return the passes that it took."""
    passes, value = 0.0, None
    while True:
        try:
            request = requests.send(value)
        except StopIteration:
            return passes
        passes, value = passes + request.cost, case.ask(request)


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
    case = make_problem(
        sparse.csr_array(X) if is_sparse else X,
        y,
        loss,
        l2=0.1,
        fit_intercept=True,
        sample_weight=rng.rand(300) if is_weighted else None,
    )
    expected = hessian_bound(case)
    order = rng.permutation(case.problem.n_coords)[:12]
    blocks = [np.sort(block) for block in np.array_split(order, 5)]
    curvature, passes = loaded(case, blocks)
    np.testing.assert_allclose(curvature.lipschitz(), expected.diagonal(), rtol=1e-12)
    for block, hessian in zip(blocks, curvature.block_hessians(blocks), strict=True):
        np.testing.assert_allclose(
            hessian, expected[np.ix_(block, block)], atol=1e-12 * expected.max()
        )
    n_read = np.unique(order // case.problem.n_outputs).size
    share = 1 if n_features == 5 else n_read / case.problem.n_params
    assert passes == pytest.approx(1 + share)
    again = [curvature.load_lipschitz(), curvature.load_blocks(blocks)]
    assert sum(read(case, load) for load in again) == 0, "what was read once is kept"
    read(case, curvature.load_blocks([np.arange(case.problem.n_coords)]))
    np.testing.assert_allclose(
        curvature.hessian(), expected, atol=1e-12 * expected.max()
    )


def test_block_lipschitz_lies_between_the_largest_and_the_sum(global_random_seed):
    X, y = make_data(seed=global_random_seed)
    block = np.array([1, 4, 7])
    curvature, _ = loaded(make_problem(X, y), [block])
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
    case = make_problem(X, y, loss)
    everything = np.arange(case.problem.n_coords)
    bound = loaded(case, [everything])[0].hessian()
    params = size * rng.standard_normal((case.problem.n_params, case.problem.n_outputs))
    second = case.problem.loss.second_derivative(y, X @ params)
    second = second.reshape(len(X), case.problem.n_outputs, case.problem.n_outputs)
    hessian = np.einsum("ij,il,ikm->jklm", X, X, second) / len(X)
    hessian = hessian.reshape(case.problem.n_coords, case.problem.n_coords)
    assert np.linalg.eigvalsh(bound - hessian)[0] >= -1e-10 * bound.max()


def test_shifted_constant_column_has_no_curvature():
    X, y = make_data(n_features=3)
    X = np.column_stack([X, np.full(len(X), 0.1)])
    case = make_problem(X, y, fit_intercept=True)
    case = case.with_coordinates(Coordinates(X.mean(axis=0), np.ones(4), True))
    block = np.array([2, 3])
    curvature, _ = loaded(case, [block])
    assert curvature.lipschitz()[3] == 0
    (hessian,) = curvature.block_hessians([block])
    assert hessian[1, 1] == hessian[0, 1] == 0


@pytest.mark.parametrize("n_features", [5, 40])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_group_products_are_sums_over_groups(n_features, is_sparse):
    X, y = make_data(n_rows=500, n_features=n_features)
    rng = np.random.RandomState(0)
    X *= rng.rand(*X.shape) < 0.5
    case = make_problem(
        sparse.csr_array(X) if is_sparse else X,
        y,
        fit_intercept=True,
        sample_weight=rng.rand(500),
    )
    curvature = GroupedCurvature(case.problem, 64)
    blocks = [np.array([0, 3, n_features]), np.array([1, 2])]
    passes = read(case, curvature.load_moving(blocks))
    assert passes == (1 if n_features == 5 else pytest.approx(5 / 41))
    hessians = curvature.moving_hessians(blocks)
    rows = dense_design(case)
    for block, hessian in zip(blocks, hessians, strict=True):
        products = curvature.group_products(block)
        left, right = column_pairs(block.size)
        terms = rows[:, block[left]] * rows[:, block[right]]
        terms *= shares(case)[:, None]
        expected = np.add.reduceat(terms, np.arange(0, 500, 64))
        np.testing.assert_allclose(products, expected, atol=1e-14)
        np.testing.assert_allclose(hessian[left, right], expected.sum(axis=0))


def test_curvature_of_a_secant_is_that_of_the_quadratic_along_it():
    rng = np.random.default_rng(0)
    root, step, metric = rng.standard_normal((4, 4)), rng.standard_normal(4), np.ones(4)
    hessian = root @ root.T
    secant = Secant(step, hessian @ step)
    expected = step @ hessian @ step / (step @ step)
    assert secant_curvature(secant, metric) == pytest.approx(expected)
    assert secant_curvature(secant, 3 * metric) == pytest.approx(expected / 3)
