"""Every point of a path is optimal; gaps bound what they say they bound."""

import numpy as np
import pytest
from certificates import lasso_dual_gap, squared_objective, squared_violation
from fold_problems import KINDS, fit_path, regression

from skcara.solvers.paths._grid import alpha_grid
from skcara.solvers.paths._homotopy import lasso_homotopy
from skcara.solvers.paths._loss import SquaredLoss
from skcara.solvers.paths._optimality import dual_gaps, violations
from skcara.solvers.paths._path import ridge_path, solve_path


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def centred(X, y):
    X = X - X[0]
    X = X - X.mean(axis=0)
    X[:, np.ptp(X, axis=0) <= 1e-9 * np.abs(X).max()] = 0.0
    return X, y - y.mean()


def loss_of_rows(X, y):
    n_rows = len(y)
    gram, cross, square = X.T @ X / n_rows, X.T @ y / n_rows, y @ y / n_rows
    sizes = np.sqrt(np.diagonal(gram))
    return SquaredLoss(gram, cross, square, sizes, np.sqrt(square), 1e-13)


def grid_of(loss, l1_ratio, positive=False, eps=1e-3, n_alphas=25):
    return alpha_grid(loss, l1_ratio, eps, n_alphas, positive)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.7, 0.01, 0.0])
@pytest.mark.parametrize("kind", KINDS)
def test_every_point_satisfies_the_optimality_conditions(kind, l1_ratio, positive, rng):
    X, y = centred(*regression(rng, kind=kind))
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, l1_ratio)
    coefs = solve_path(loss, alphas, l1_ratio, positive)
    assert not positive or coefs.min() >= 0
    roots = np.sqrt(np.diagonal(loss.gram))
    for alpha, coef in zip(alphas, coefs.T, strict=True):
        violation = squared_violation(
            X,
            y,
            coef,
            0.0,
            alpha * l1_ratio,
            alpha * (1 - l1_ratio),
            positive=positive,
            fit_intercept=False,
        )
        reach = np.sqrt(loss.square) + roots @ np.abs(coef)
        assert violation <= 1e-12 * roots.max() * reach


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("n_rows", "n_features"), [(40, 70), (200, 70), (2, 5), (300, 1)]
)
def test_homotopy_alone_is_exact(n_rows, n_features, positive, rng):
    X, y = centred(*regression(rng, n_rows, n_features))
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, 1.0, positive, eps=1e-4, n_alphas=60)
    coefs = lasso_homotopy(loss.gram, loss.cross, alphas, positive)
    scale = np.abs(loss.cross).max()
    for alpha, coef in zip(alphas, coefs.T, strict=True):
        violation = squared_violation(
            X, y, coef, 0.0, alpha, positive=positive, fit_intercept=False
        )
        assert violation <= 1e-11 * scale
        assert np.count_nonzero(coef) <= min(n_rows - 1, n_features)


@pytest.mark.parametrize("positive", [False, True])
def test_homotopy_is_exact_in_any_units(positive, rng):
    X, y = centred(*regression(rng, 200, 30))
    X = X * 10.0 ** rng.integers(-6, 7, 30)
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, 1.0, positive, eps=1e-8, n_alphas=60)
    coefs = lasso_homotopy(loss.gram, loss.cross, alphas, positive)
    slopes, reach = loss.slopes(coefs), loss.target_size + loss.sizes @ np.abs(coefs)
    distances = violations(slopes, coefs, alphas, 0 * alphas, positive)
    assert (distances <= 1e-13 * np.multiply.outer(loss.sizes, reach)).all()


def test_homotopy_survives_ties(rng):
    # Orthogonal columns with the same correlations join at once, duplicates as well.
    X = np.kron(np.eye(4), np.ones((5, 1)))
    X = np.column_stack([X, X[:, :2], -X[:, 3]])
    y = X[:, :4].sum(axis=1)
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, 1.0)
    coefs = lasso_homotopy(loss.gram, loss.cross, alphas)
    for alpha, coef in zip(alphas, coefs.T, strict=True):
        violation = squared_violation(X, y, coef, 0.0, alpha, fit_intercept=False)
        assert violation <= 1e-14


def test_coefficients_leave_the_path():
    has_left = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 12)) + 3 * rng.standard_normal((30, 1))
        X, y = centred(X, X @ rng.standard_normal(12))
        loss = loss_of_rows(X, y)
        alphas = grid_of(loss, 1.0, eps=1e-6, n_alphas=400)
        coefs = lasso_homotopy(loss.gram, loss.cross, alphas)
        has_left += (np.diff(np.count_nonzero(coefs, axis=0)) < 0).any()
        for alpha, coef in zip(alphas, coefs.T, strict=True):
            violation = squared_violation(X, y, coef, 0.0, alpha, fit_intercept=False)
            assert violation <= 1e-11 * alphas[0]
    assert has_left


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
def test_path_is_that_of_tight_coordinate_descent(l1_ratio, rng):
    X, y = centred(*regression(rng, 400, 12))
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, l1_ratio)
    wanted, *_ = fit_path(X, y, alphas, l1_ratio, fit_intercept=False)
    coefs = solve_path(loss, alphas, l1_ratio)
    largest = np.abs(wanted).max()
    np.testing.assert_allclose(coefs, wanted, atol=1e-7 * largest)
    # At the largest alpha one coefficient is a tie, which rounding decides.
    np.testing.assert_array_equal(coefs == 0, np.abs(wanted) <= 1e-14 * largest)


def test_many_columns(rng):
    X, y = centred(*regression(rng, 600, 1100))
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, 1.0, eps=0.05, n_alphas=10)
    coefs = solve_path(loss, alphas, 1.0)
    for alpha, coef in zip(alphas, coefs.T, strict=True):
        violation = squared_violation(X, y, coef, 0.0, alpha, fit_intercept=False)
        assert violation <= 1e-9 * alpha


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3, 0.0])
def test_without_a_penalty_the_end_of_the_path_is_least_squares(l1_ratio, rng):
    X, y = centred(*regression(rng))
    loss = loss_of_rows(X, y)
    alphas = np.append(grid_of(loss, l1_ratio), 0.0)
    coefs = solve_path(loss, alphas, l1_ratio)
    wanted = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(coefs[:, -1], wanted, rtol=1e-9)


def test_ridge_of_dependent_columns_has_least_norm(rng):
    X, y = centred(*regression(rng, kind="duplicate"))
    coefs = ridge_path(loss_of_rows(X, y), np.zeros(1))[:, 0]
    np.testing.assert_allclose(coefs, np.linalg.pinv(X) @ y, atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4, 0.0])
def test_gaps_are_those_of_the_rows(l1_ratio, positive, rng):
    X, y = centred(*regression(rng))
    loss = loss_of_rows(X, y)
    alphas = grid_of(loss, l1_ratio)
    coefs = solve_path(loss, alphas, l1_ratio, positive)
    # Far from the solution as well; the gap is no better than its error at it.
    for noise in (0.0, 1e-3, 0.3):
        moved = np.abs(coefs * (1 + noise * rng.standard_normal(coefs.shape)))
        moved = moved if positive else np.copysign(moved, coefs)
        l1, l2 = alphas * l1_ratio, alphas * (1 - l1_ratio)
        gaps = dual_gaps(loss, moved, l1, l2, positive)
        if not positive:
            wanted = [
                lasso_dual_gap(X, y, b, 0.0, *strengths, fit_intercept=False)
                for b, *strengths in zip(moved.T, l1, l2, strict=True)
            ]
            np.testing.assert_allclose(gaps, wanted, rtol=1e-6, atol=1e-10)
        for b, best, gap, *strengths in zip(
            moved.T, coefs.T, gaps, l1, l2, strict=True
        ):
            excess = squared_objective(X, y, b, 0.0, *strengths)
            excess -= squared_objective(X, y, best, 0.0, *strengths)
            assert gap >= excess - 1e-14


def test_gap_without_a_penalty_is_unknown(rng):
    loss = loss_of_rows(*centred(*regression(rng)))
    gaps = dual_gaps(loss, np.zeros((6, 1)), np.zeros(1), np.zeros(1))
    assert np.isnan(gaps).all()


@pytest.mark.parametrize("sign", [-1, 1])
def test_gaps_assume_the_worst_of_imprecise_moments(sign, rng):
    X, y = centred(*regression(rng))
    exact, precision = loss_of_rows(X, y), 1e-5
    alphas = grid_of(exact, 1.0)[-1:]
    signs = np.sign(solve_path(exact, alphas, 1.0))[:, 0]
    error = sign * precision * exact.target_size * exact.sizes
    rough = SquaredLoss(
        exact.gram,
        exact.cross + error * signs,
        exact.square,
        exact.sizes,
        exact.target_size,
        precision,
    )
    coefs = solve_path(rough, alphas, 1.0)
    gap = dual_gaps(rough, coefs, alphas, 0 * alphas)[0]
    true_gap = lasso_dual_gap(X, y, coefs[:, 0], 0.0, alphas[0], fit_intercept=False)
    assert true_gap <= gap <= 1e3 * precision * exact.square


@pytest.mark.parametrize("eps", [1e-3, 0.1])
def test_ridge_grid_begins_at_a_thousandth_of_the_norm(eps, rng):
    loss = loss_of_rows(*centred(*regression(rng, kind="scales")))
    alphas = alpha_grid(loss, 0.0, eps, 10)
    norms = np.linalg.norm(ridge_path(loss, np.array([alphas[0], 0.0])), axis=0)
    assert norms[0] / norms[1] == pytest.approx(1e-3, rel=1e-6)
    assert alphas[-1] / alphas[0] == pytest.approx(eps)


def test_grid_of_a_constant_target_is_that_of_scikit_learn():
    loss = loss_of_rows(np.random.default_rng(0).random((10, 3)), np.zeros(10))
    for l1_ratio in (0.0, 1.0):
        alphas = alpha_grid(loss, l1_ratio, 1e-3, 4)
        np.testing.assert_array_equal(alphas, np.full(4, 1e-15))
