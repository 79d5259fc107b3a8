"""Samples represent all rows; influential rows are kept."""

import numpy as np
import pytest
from scipy import sparse
from solvers.tall_problems import (
    classes,
    gaussian,
    labels,
    make_problem,
    rare_levels,
)

from skcara.data import ArraySource
from skcara.passes import DrawByLeverage, DrawInfluential
from skcara.solvers.newton._concentration import hessian_diagonal, is_concentrated
from skcara.solvers.newton._reduced import ReducedProblem


def every_so_many(case, stride):
    """Strided part of the rows as a reduced problem of mass one."""
    problem = case.problem
    rows, target, shares = case.rows(np.arange(0, problem.n_rows, stride))
    weights = shares / shares.sum()
    return ReducedProblem(rows, target, weights, problem.loss, problem.penalty)


def influence_of_all(case, params, diagonal):
    """Influence of every row."""
    request = DrawInfluential(case.problem, params, diagonal, n_draws=1, seed=0)
    rows = case.problem.coordinates.rows(case.source.X)
    return request.influence(rows, case.source.target, case.rows().shares)


def test_leverage_is_the_largest_square_in_any_inverse_hessian():
    rng = np.random.RandomState(0)
    X, target = (
        rng.standard_normal((200, 3)),
        (rng.uniform(size=200) > 0.5).astype(float),
    )
    case = make_problem(X, target, "logistic", sample_weight=None)
    # As many directions as coordinates tell it exactly.
    factors = rng.standard_normal((2, *case.zeros.shape[:1] * 2))
    request = DrawByLeverage(
        case.problem, case.zeros, factors[:, :, :, None], n_draws=1, seed=0
    )
    rows = case.problem.coordinates.rows(case.source.X)
    found = request.influence(rows, case.source.target, np.full(200, 1e-3))
    design = case.rows().rows
    squares = [np.einsum("rp,dp->rd", design, one) ** 2 for one in factors]
    largest = np.max([one.sum(axis=1) for one in squares], axis=0)
    # At zero the curvature is one quarter, and so is the square of the derivative.
    np.testing.assert_allclose(found, 1e-3 * 0.25 * largest, rtol=1e-12)


@pytest.mark.parametrize("kind", ["uniform", "weights", "density"])
def test_sample_is_unbiased_distinct_and_positive(kind):
    """Whatever decides which rows are drawn, weighted sums have the right mean."""
    rng = np.random.RandomState(0)
    n_rows = 500
    X, value = rng.standard_normal((n_rows, 2)), rng.normal(size=n_rows)
    X[0], target = 20.0, (X[:, 0] > 0).astype(float)
    weights = rng.uniform(size=n_rows) ** 2
    weights[::5] = 0.0
    weights = None if kind == "uniform" else weights
    truth = np.average(value, weights=weights)
    source = ArraySource(X, target, weights)
    case = make_problem(X, target, "logistic", sample_weight=weights)
    params = case.zeros
    diagonal = np.ones_like(params)
    estimates = []
    for seed in range(2000):
        if kind == "density":
            request = DrawInfluential(case.problem, params, diagonal, 60, seed)
            indices, sample_weights = case.ask(request)
        else:
            indices, sample_weights = source.draw(60, rng)
        assert len(indices) == 60
        assert (np.diff(indices) > 0).all()
        assert (sample_weights > 0).all()
        estimates.append(sample_weights @ value[indices])
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(truth, abs=5 * error)


def test_sample_covers_every_part_of_sorted_rows():
    source = ArraySource(np.zeros((10_000, 1)), np.zeros(10_000))
    indices, weights = source.draw(100, np.random.RandomState(0))
    np.testing.assert_array_equal(indices // 100, np.arange(100))
    assert weights.sum() == pytest.approx(1.0)


def test_rows_of_rare_levels_are_influential():
    X, score, rng = rare_levels()
    case = make_problem(X, labels(score, rng), "logistic")
    sample = every_so_many(case, 20)
    assert is_concentrated(sample, case.zeros)
    diagonal = hessian_diagonal(sample, case.zeros)
    influence = influence_of_all(case, case.zeros, diagonal)
    has_rare_level = X[:, -3:].any(axis=1)
    assert has_rare_level.sum() < 100
    assert influence[has_rare_level].min() > 50 * np.median(influence)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("offset", [0.0, 100.0, 1e5])
def test_influence_is_the_share_of_a_row_in_the_curvature(offset, to_X, loss):
    X, score, rng = gaussian(3000, 4)
    target = labels(score, rng) if loss == "logistic" else classes(score, rng)
    case = make_problem(to_X(X + offset), target, loss).standardised()
    params = 0.1 * rng.standard_normal(case.zeros.shape)
    diagonal = rng.uniform(0.5, 2.0, params.shape)
    rows, target, weights = case.rows()
    prediction, loss = rows @ params, case.problem.loss
    importance = loss.curvature(target, prediction)
    importance = importance + loss.derivative(target, prediction) ** 2
    share = np.einsum("ik,ij,jk->i", importance, rows**2, 1 / diagonal)
    expected = 0.5 * weights * share
    influence = influence_of_all(case, params, diagonal)
    # Rows far from zero are squared as they are, and the squares of the shift cancel.
    rtol = 1e-13 * max(offset, 1.0) ** 2
    np.testing.assert_allclose(influence, expected, rtol=max(rtol, 1e-11))


def test_gaussian_columns_are_not_concentrated():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 5))
    case = make_problem(X, labels(X[:, 0], rng), "logistic")
    assert not is_concentrated(every_so_many(case, 4), case.zeros)
