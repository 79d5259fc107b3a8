"""All folds from one read: scores of exact fold fits, and bounds on their errors."""

from fractions import Fraction

import numpy as np
import pytest
from fold_problems import (
    KINDS,
    exact_mean,
    exact_mean_square,
    fit_path,
    read,
    regression,
)
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.preprocessing import StandardScaler

from skcara.data._atoms import fold_batches
from skcara.solvers.paths._atom_sums import AtomSums, choose_shift
from skcara.solvers.paths._basis import refining_task
from skcara.solvers.paths._grid import alpha_grid
from skcara.solvers.paths._search import SearchSettings, TrainingProblem, search_folds


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def search(X, y, folds, l1_ratio, *, weights=None, eps=1e-3, reads=1, **options):
    """Grid and paths of one read or two, as an estimator would ask for them."""
    batches = fold_batches(folds, len(y), 32)
    labels = np.column_stack([batch.labels for batch in batches])
    n_features = X.shape[1]
    origin = choose_shift(X[::7], y[::7])
    task = AtomSums(tuple(batch.n_atoms for batch in batches), origin)
    atoms = read(task, X, y, weights, labels)
    if reads == 2:
        task = refining_task(task, atoms, n_features)
        atoms = read(task, X, y, weights, labels)
    settings = SearchSettings(n_features, origin, basis=task.basis, **options)
    total = atoms[0].combine(np.ones(batches[0].n_atoms, dtype=int))
    loss = TrainingProblem.of(total, settings).loss
    alphas = alpha_grid(loss, l1_ratio, eps, 12, options.get("positive", False))
    return alphas, search_folds(batches, atoms, [(l1_ratio, alphas)], settings)


def exact_scores(X, y, folds, alphas, l1_ratio, weights=None, **options):
    """Mean squared errors of separate fits, residual by residual."""
    scores = []
    for train, test in folds:
        fold_weights = None if weights is None else weights[train]
        coefs, x_mean, y_mean = fit_path(
            X[train], y[train], alphas, l1_ratio, fold_weights, **options
        )
        residuals = (y[test] - y_mean)[:, None] - (X[test] - x_mean) @ coefs
        test_weights = None if weights is None else weights[test]
        scores.append(np.average(residuals**2, axis=0, weights=test_weights))
    return np.array(scores)


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "levels"])
def test_scores_are_those_of_separate_fits(kind, l1_ratio, reads, rng):
    X, y = regression(rng, kind=kind)
    folds = list(KFold(5).split(X))
    alphas, paths = search(X, y, folds, l1_ratio, reads=reads)
    if kind == "dependent" and l1_ratio == 0 and reads == 1:
        # Nearly unpenalised, and known not to be accurate.
        assert paths.bounds.max() > 1e-7 * paths.errors.max()
        return
    wanted = exact_scores(X, y, folds, alphas, l1_ratio)
    # Coordinate descent, the judge, crawls along nearly dependent columns.
    tolerance = 1e-6 if kind == "dependent" else 1e-8
    np.testing.assert_allclose(paths.errors[:, 0], wanted, rtol=tolerance)
    assert (paths.bounds <= 1e-7 * paths.errors).all()
    assert np.nanmax(paths.gaps) < 1e-6


def test_levels_far_apart_need_a_second_read(rng):
    X, y = regression(rng, kind="levels")
    folds = list(KFold(2).split(X))
    _, paths = search(X, y, folds, 0.0)
    assert paths.gaps.max() > 1e-4
    alphas, paths = search(X, y, folds, 0.0, reads=2)
    wanted = exact_scores(X, y, folds, alphas, 0.0)
    np.testing.assert_allclose(paths.errors[:, 0], wanted, rtol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"fit_intercept": False},
        {"positive": True},
        {"fit_intercept": False, "positive": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_options_and_weights(options, is_weighted, rng):
    X, y = regression(rng, 250, 5)
    X, weights = X + 2, rng.random(len(y)) if is_weighted else None
    folds = list(ShuffleSplit(6, random_state=0).split(X))
    alphas, paths = search(X, y, folds, 0.8, weights=weights, **options)
    wanted = exact_scores(X, y, folds, alphas, 0.8, weights, **options)
    np.testing.assert_allclose(paths.errors[:, 0], wanted, rtol=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_standardizing_is_a_scaler_inside_the_folds(fit_intercept, rng):
    X, y = regression(rng, 250, 5, kind="scales")
    X[:, 3] = 7.0
    y = y + 3
    folds = list(KFold(4, shuffle=True, random_state=1).split(X))
    alphas, paths = search(
        X, y, folds, 1.0, standardize=True, fit_intercept=fit_intercept
    )
    for number, (train, test) in enumerate(folds):
        scaler = StandardScaler().fit(X[train])
        wanted = exact_scores(
            np.vstack([scaler.transform(X[train]), scaler.transform(X[test])]),
            np.append(y[train], y[test]),
            [(np.arange(len(train)), np.arange(len(train), len(y)))],
            alphas,
            1.0,
            fit_intercept=fit_intercept,
        )
        np.testing.assert_allclose(paths.errors[number, 0], wanted[0], rtol=1e-9)


def test_fewer_rows_than_columns(rng):
    X, y = regression(rng, 30, 40)
    folds = list(KFold(3).split(X))
    alphas, paths = search(X, y, folds, 1.0, eps=0.02)
    wanted = exact_scores(X, y, folds, alphas, 1.0)
    np.testing.assert_allclose(paths.errors[:, 0], wanted, rtol=1e-6)


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_rounding_of_scores_is_below_its_bound(kind, l1_ratio, reads, rng):
    X, y = regression(rng, 60, 5, kind=kind)
    weights = rng.random(60)
    train, test = np.arange(30), np.arange(30, 60)
    _, paths = search(
        X, y, [(train, test)], l1_ratio, weights=weights, eps=1e-6, reads=reads
    )
    centre = exact_mean(np.column_stack([X, y])[train], weights[train])
    for point in range(0, 12, 4):
        wanted = exact_mean_square(
            X[test],
            y[test],
            weights[test],
            paths.coefs[0, 0, :, point],
            centre[:-1],
            centre[-1],
        )
        error = abs(Fraction(paths.errors[0, 0, point]) - wanted)
        assert error <= paths.bounds[0, 0, point]
