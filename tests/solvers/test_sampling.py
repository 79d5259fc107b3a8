"""Samples represent all rows; influential rows are kept."""

import numpy as np
import pytest
from scipy import sparse
from skcara.solvers._coordinates import standardised
from skcara.solvers._influence import (
    hessian_diagonal,
    is_concentrated,
    row_curvature,
    row_influence,
)
from skcara.solvers._reduced import ReducedProblem
from skcara.solvers._sampling import draw_rows
from solvers.tall_problems import (
    classes,
    gaussian,
    labels,
    make_problem,
    rare_levels,
)

from skcara.solvers import _influence, _sampling


@pytest.mark.parametrize("kind", ["uniform", "weights", "density"])
def test_sample_is_unbiased_distinct_and_positive(kind):
    rng = np.random.RandomState(0)
    n_rows = 500
    weights = rng.uniform(size=n_rows) ** 2
    weights[::5] = 0.0
    weights = None if kind == "uniform" else weights / weights.sum()
    density = rng.uniform(size=n_rows) ** 4 + 1e-3 if kind == "density" else None
    value = rng.normal(size=n_rows)
    truth = value.mean() if weights is None else weights @ value
    estimates = []
    for _ in range(2000):
        indices, sample_weights = draw_rows(60, n_rows, rng, density, weights)
        assert (np.diff(indices) > 0).all()
        assert (sample_weights > 0).all()
        estimates.append(sample_weights @ value[indices])
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(truth, abs=5 * error)


def test_sample_covers_every_part_of_sorted_rows():
    indices, weights = draw_rows(100, 10_000, np.random.RandomState(0))
    np.testing.assert_array_equal(indices // 100, np.arange(100))
    assert weights.sum() == pytest.approx(1.0)


def test_chunks_do_not_change_the_sample(monkeypatch):
    rng = np.random.default_rng(0)
    density, weights = rng.pareto(1.5, 5000), rng.uniform(size=5000)
    samples = []
    for chunk_rows in (64, 2**14):
        monkeypatch.setattr(_sampling, "_CHUNK_ROWS", chunk_rows)
        random = np.random.RandomState(0)
        samples.append(draw_rows(300, 5000, random, density, weights))
    np.testing.assert_array_equal(samples[0][0], samples[1][0])
    np.testing.assert_allclose(samples[0][1], samples[1][1], rtol=1e-10)
    assert 250 < len(samples[0][0]) <= 400


def test_dense_rows_are_kept_with_their_own_weight():
    density = np.full(1000, 1e-3)
    density[[17, 400]] = 10.0
    weights = np.full(1000, 1e-3)
    indices, sample_weights = draw_rows(
        50, 1000, np.random.RandomState(0), density, weights
    )
    for row in (17, 400):
        assert sample_weights[indices == row] == weights[row]


def test_rows_of_rare_levels_are_influential():
    X, score, rng = rare_levels()
    problem = make_problem(X, labels(score, rng), "logistic")
    rows = problem.design.take(np.arange(0, problem.n_rows, 20))
    params = np.zeros((problem.n_params, 1))
    target, weights = problem.target[::20], np.full(len(rows), 1 / len(rows))
    sample = ReducedProblem(rows, target, weights, problem.loss, problem.penalty)
    assert is_concentrated(sample, params)
    influence = row_influence(problem, params, hessian_diagonal(sample, params))
    has_rare_level = X[:, -3:].any(axis=1)
    assert has_rare_level.sum() < 100
    assert influence[has_rare_level].min() > 50 * np.median(influence)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("offset", [0.0, 100.0, 1e5])
def test_influence_is_the_share_of_a_row_in_the_curvature(offset, to_X, loss):
    X, score, rng = gaussian(3000, 4)
    target = labels(score, rng) if loss == "logistic" else classes(score, rng)
    problem = standardised(make_problem(to_X(X + offset), target, loss))
    params = 0.1 * rng.standard_normal((problem.n_params, problem.n_outputs))
    diagonal = rng.uniform(0.5, 2.0, params.shape)
    rows, target, weights = problem.rows(np.arange(problem.n_rows))
    prediction = rows @ params
    importance = row_curvature(problem.loss, target, prediction)
    importance = importance + problem.loss.derivative(target, prediction) ** 2
    share = np.einsum("ik,ij,jk->i", importance, rows**2, 1 / diagonal)
    expected = 0.5 * weights * share / _influence._UNIT
    influence = row_influence(problem, params, diagonal)
    # Eleven bits are kept.
    np.testing.assert_allclose(influence, expected, rtol=1e-3)


def test_gaussian_columns_are_not_concentrated():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 5))
    problem = make_problem(X, labels(X[:, 0], rng), "logistic")
    rows, target, weights = problem.rows(np.arange(0, problem.n_rows, 4))
    sample = ReducedProblem(rows, target, 4 * weights, problem.loss, problem.penalty)
    assert not is_concentrated(sample, np.zeros((6, 1)))
