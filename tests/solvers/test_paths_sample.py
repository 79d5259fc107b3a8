"""Samples of a search over folds: who is drawn, and with which weights."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import linalg, sparse

from skcara.data import FoldSets
from skcara.data._atoms import fold_batches
from skcara.objective import LogisticLoss, MultinomialLoss
from skcara.solvers.paths._fold_calibration import calibrate_folds
from skcara.solvers.paths._fold_newton import next_change
from skcara.solvers.paths._fold_sample import FoldSample
from skcara.solvers.paths._near_hessians import NearHessians


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def sample_of(rows, target, loss, shares=None, n_folds=3):
    """All rows as a sample of themselves, with contiguous folds."""
    n_rows = len(target)
    parts = np.array_split(np.arange(n_rows), n_folds)
    folds = [(np.setdiff1d(np.arange(n_rows), part), part) for part in parts]
    [batch] = fold_batches(folds, n_rows, 32)
    shares = np.full(n_rows, 1.0 / n_rows) if shares is None else shares
    sets = FoldSets([batch])  # a sample sorts its rows in place
    return FoldSample(rows.copy(), target, shares, batch.labels, sets, loss)


def problem(rng, n_classes, n_rows=900, n_params=5):
    rows = rng.standard_normal((n_rows, n_params))
    rows[:, -1] = 1.0
    target = rng.integers(n_classes, size=n_rows)
    loss = LogisticLoss() if n_classes == 2 else MultinomialLoss(n_classes)
    return rows, target, loss


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_curvatures_are_the_diagonals_of_hessians(rng, n_classes, form):
    rows, target, loss = problem(rng, n_classes)
    sample = sample_of(form(rows), target, loss)
    params = rng.standard_normal((3, rows.shape[1], loss.n_outputs))
    predictions = sample.predictions(params)
    found = sample.curvatures(predictions, sample.weights)
    for own, scores, weights in zip(found, predictions, sample.weights, strict=True):
        hessian = sample.hessian(scores.T, weights)
        np.testing.assert_allclose(own.ravel(), np.diagonal(hessian), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated_weights_have_the_gradient_that_is_asked_for(rng, n_classes):
    rows, target, loss = problem(rng, n_classes)
    sample = sample_of(rows, target, loss)
    params = 0.3 * rng.standard_normal((3, rows.shape[1], loss.n_outputs))
    uneven = sample.weights * rng.uniform(0.9, 1.1, size=len(rows))
    _, wanted = sample.evaluate(params, uneven)
    weights = calibrate_folds(sample, params, sample.weights, wanted)
    _, found = sample.evaluate(params, weights)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11)
    # Rows of the test set of a fold have no weight in it, whatever it takes.
    assert ((weights > 0) == (sample.weights > 0)).all()


def test_calibration_keeps_every_row_of_a_training_set(rng):
    rows, target, loss = problem(rng, 2)
    sample = sample_of(rows, target, loss)
    params = np.zeros((3, rows.shape[1], 1))
    absurd = np.full_like(params, 10.0)
    weights = calibrate_folds(sample, params, sample.weights, absurd)
    ratio = weights[sample.weights > 0] / sample.weights[sample.weights > 0]
    assert ratio.min() >= 0.1 - 1e-12
    assert ratio.max() <= 10.0 + 1e-12


def test_a_rare_level_has_leverage_in_any_coordinates(rng):
    # Two rows of a level whose column is centred: every row has a little of the
    # coordinate, but only these two have anything of the direction.
    rows, target, loss = problem(rng, 2)
    level = np.zeros(len(rows))
    level[[3, 450]] = 1.0
    rows[:, 0] = (level - level.mean()) / level.std()
    sample = sample_of(rows, target, loss)
    directions = sample.leverage_directions(np.zeros((rows.shape[1], 1)), rng)
    products = np.einsum("rp,hdpk->rhd", rows, directions)
    leverage = 0.25 * (products**2).sum(axis=2).max(axis=1) / len(rows)
    common = np.median(leverage)
    # A fold that holds one of them out trains on the other alone.
    assert leverage[[3, 450]].min() > 20 * common
    assert np.sum(leverage > 20 * common) == 2


def test_directions_tell_the_square_in_the_inverse_hessian(rng):
    rows, target, loss = problem(rng, 2, n_rows=60)
    sample = sample_of(rows, target, loss)
    params = np.zeros((rows.shape[1], 1))
    found = np.zeros((len(rows), 3))
    for _ in range(400):
        directions = sample.leverage_directions(params, rng)
        found += (np.einsum("rp,hdpk->rhd", rows, directions) ** 2).sum(axis=2) / 400
    inverses = np.linalg.inv(sample.hessians(sample.rows @ params))
    wanted = np.einsum("rp,hpq,rq->rh", rows, inverses, rows)
    np.testing.assert_allclose(found, wanted, rtol=0.2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_survive_their_evaluation(rng, n_classes):
    rows, target, loss = problem(rng, n_classes)
    sample = sample_of(rows, target, loss)
    params = rng.standard_normal((3, rows.shape[1], loss.n_outputs))
    predictions = sample.predictions(params)
    sample.evaluate_at(predictions, sample.weights)
    np.testing.assert_array_equal(predictions, sample.predictions(params))


def test_points_far_from_each_other_have_their_own_hessians(rng):
    rows, target, loss = problem(rng, 2)
    sample = sample_of(rows, target, loss)
    params = np.zeros((3, rows.shape[1], 1))
    params[2, 0] = 3.0
    folds = np.arange(3)
    predictions = sample.predictions(params)
    for point, fold, hessian in zip(
        predictions, folds, NearHessians(sample).near(params, folds), strict=True
    ):
        own = sample.hessian(point.T, sample.weights[fold])
        assert relative_range(hessian, own)[0] > np.exp(-0.35)
        assert relative_range(hessian, own)[1] < np.exp(0.35)


def relative_range(matrix, other):
    """Least and largest ratio of the two quadratic forms."""
    return linalg.eigh(matrix, other, eigvals_only=True)[[0, -1]]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_hessians_follow_rows_that_move(rng, n_classes, is_sparse):
    # A rare level whose coefficient grows, and a common direction that hardly moves.
    rows, target, loss = problem(rng, n_classes)
    rows[:, 0] = 0.0
    rows[:90:2, 0] = 1.0
    given = sparse.csr_array(rows) if is_sparse else rows
    sample, folds = sample_of(given, target, loss), np.arange(3)
    hessians = NearHessians(sample)
    params = np.zeros((3, rows.shape[1], loss.n_outputs))
    # Adding a constant to all classes changes nothing: a ridge makes that comparable.
    ridge = 1e-6 * np.eye(params[0].size)
    for step in range(8):
        params[:, 0, 0] += rng.uniform(0.5, 1.0, size=3)
        params[:, 1, 0] += 0.01 * step
        found = hessians.near(params, folds)
        for point, fold, hessian in zip(params, folds, found, strict=True):
            own = sample.hessian(sample.rows @ point, sample.weights[fold])
            np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
            low, high = relative_range(hessian + ridge, own + ridge)
            # The curvature of several classes moves by up to twice the prediction.
            assert np.exp(-0.7) < low <= high < np.exp(0.7)


def test_rows_that_stay_are_not_summed_again(rng):
    rows, target, loss = problem(rng, 2)
    rows[:, 0] = 0.0
    rows[:20, 0] = 1.0
    sample, folds = sample_of(rows, target, loss), np.arange(3)
    hessians = NearHessians(sample)
    params = np.zeros((3, rows.shape[1], 1))
    hessians.near(params, folds)
    summed = []
    compute = loss.hessian
    sample.loss = SimpleNamespace(
        n_outputs=1,
        hessian=lambda own, *terms: summed.append(len(own)) or compute(own, *terms),
    )
    params[:, 0] = 2.0
    hessians.near(params, folds)
    assert sum(summed) == 2 * 20


def test_encoded_rows_have_hessians_at_their_own_points(rng):
    levels = rng.integers(20, size=(900, 3)) + 20 * np.arange(3)
    rows = np.zeros((900, 60))
    np.put_along_axis(rows, levels, 1.0, axis=1)
    sample = sample_of(
        sparse.csr_array(rows), rng.integers(2, size=900), LogisticLoss()
    )
    assert sample.has_cheap_hessians
    params, folds = rng.standard_normal((3, 60, 1)), np.arange(3)
    found = NearHessians(sample).near(params, folds)
    for point, fold, hessian in zip(params, folds, found, strict=True):
        own = sample.hessian(sample.rows @ point, sample.weights[fold])
        np.testing.assert_allclose(hessian, own, atol=1e-15)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ([1.0, 2.0, 3.0], 4.0),  # held by the penalty
        ([1.0, 1.9, 1.99], 1.999),  # held by the rows
        ([1.0, 2.0, 5.0], 8.0),  # no step is longer than the last one
        ([1.0, 2.0, 1.5], 1.5),  # there and back
        ([1.0, 1.0, 2.0], 2.0),  # nothing is known
        ([1.0, 2.0], 2.0),
    ],
)
def test_paths_go_on(path, expected):
    changes = [np.full((2, 3, 1), value) for value in path]
    np.testing.assert_allclose(next_change(changes), expected)
    assert next_change([]) == 0.0


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_no_prediction_changes_more_than_a_bound_says(rng, n_classes, is_sparse):
    rows, target, loss = problem(rng, n_classes)
    rows = sparse.csr_array(rows) if is_sparse else rows
    sample = sample_of(rows, target, loss)
    moves = rng.standard_normal((3, rows.shape[1], loss.n_outputs))
    exact = sample.reach(moves, sample.weights)
    changes = loss.without_constants(sample.predictions(moves), axis=1)
    changes = np.abs(changes).max(axis=1)
    np.testing.assert_allclose(exact, (changes * (sample.weights > 0)).max(axis=1))
    bounds = sample.reach(moves, sample.weights, small=np.inf)
    assert (bounds > exact).all()
    # Not all of them are small.
    found = sample.reach(moves, sample.weights, small=0.99 * bounds.max())
    np.testing.assert_array_equal(found, exact)
