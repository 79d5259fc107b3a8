"""The fit on all rows that goes along with a search."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from skcara import CaLogisticRegression, CaLogisticRegressionCV
from skcara.data import ArraySource, Coordinates
from skcara.objective import (
    KKTViolation,
    LogisticLoss,
    Problem,
    SeparablePenalty,
    SquaredLoss,
)
from skcara.solvers import Status, drive
from skcara.solvers._driver import answer_all
from skcara.solvers._quadratic import penalised_model
from skcara.solvers.paths import FullFit, FullFits

CS = np.array([1e-3, 1.0, 1e3])
# More entries than are solved on all rows from the beginning.
N_ROWS, N_FEATURES = 40_000, 30


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def classification(rng, n_classes=2):
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    # Contiguous folds are not alike.
    X[:, 0] += np.linspace(-1, 1, N_ROWS)
    scores = X @ rng.standard_normal((N_FEATURES, n_classes)) / np.sqrt(N_FEATURES)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def problem_of(X, y, l2, loss=None):
    source = ArraySource(X, y.astype(float), None)
    n_features = X.shape[1]
    penalty = SeparablePenalty(
        np.zeros((n_features, 1)),
        np.full((n_features, 1), l2),
        np.zeros((n_features, 1), dtype=bool),
    )
    coordinates = Coordinates.of_user(n_features, False)
    loss = LogisticLoss() if loss is None else loss
    return source, Problem(source.facts, loss, penalty, KKTViolation(), coordinates)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l1_ratios": [1.0]},
        {"standardize": True},
        {"class_weight": {0: 1.0, 1: 3.0}},
        {"fit_intercept": False},
        {"n_classes": 3},
    ],
    ids=str,
)
def test_the_final_fit_takes_at_most_one_read_of_its_own(options, rng):
    n_classes = options.pop("n_classes", 2)
    X, y = classification(rng, n_classes)
    weights = rng.uniform(0.5, 2.0, N_ROWS)
    search = CaLogisticRegressionCV(Cs=CS, cv=4, random_state=0, **options)
    search.fit(X, y, sample_weight=weights)
    alone = CaLogisticRegressionCV(
        Cs=CS, cv=4, random_state=0, refit=False, **options
    ).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(search.scores_, alone.scores_)
    assert search.n_passes_ <= alone.n_passes_ + 1
    assert search.optimality_ <= search.tol
    options.pop("l1_ratios", None)
    if options.pop("standardize", False):
        mean = np.average(X, axis=0, weights=weights)
        scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
        X, search.coef_ = (X - mean) / scale, search.coef_ * scale
    exact = CaLogisticRegression(
        C=search.C_, l1_ratio=search.l1_ratio_, tol=1e-10, **options
    ).fit(X, y, sample_weight=weights)
    assert search.objective_ <= exact.objective_ * (1 + 1e-6)
    np.testing.assert_allclose(search.coef_, exact.coef_, atol=5e-3)


def test_the_certificate_is_that_of_all_rows(rng):
    X, y = classification(rng)
    search = CaLogisticRegressionCV(Cs=CS, cv=4, random_state=0).fit(X, y)
    coef, slopes = search.coef_[0], expit(search.decision_function(X)) - y
    gradient = X.T @ slopes / N_ROWS + coef / (search.C_ * N_ROWS)
    violation = max(np.abs(gradient).max(), abs(slopes.mean()))
    assert violation == pytest.approx(search.optimality_, rel=1e-6, abs=1e-12)


def fold_columns(problems, points):
    """What a search knows of folds of a quadratic loss at some points."""
    columns = []
    for (X, y, problem), point in zip(problems, points, strict=True):
        hessian = X.T @ X / len(X)
        gradient = X.T @ (X @ point - y) / len(X)
        anchor = SimpleNamespace(params=point, gradient=gradient)
        model = penalised_model(hessian, problem.penalty)
        columns.append(
            SimpleNamespace(
                fold=len(columns),
                number=0,
                problem=problem,
                anchor=anchor,
                model=model,
                score_loss=1.0,
            )
        )
    return columns


def squared_folds(rng):
    """Three training sets that cover all rows twice, and all rows."""
    X, y = rng.standard_normal((90, 4)), rng.standard_normal((90, 1))
    X[:30] *= 3.0
    folds = []
    for part in np.array_split(np.arange(90), [20, 50]):
        own, target = np.delete(X, part, axis=0), np.delete(y, part, axis=0)
        _, problem = problem_of(own, target[:, 0], 1.0 / len(own), SquaredLoss())
        folds.append((own, target, problem))
    return folds, problem_of(X, y[:, 0], 1.0 / 90, SquaredLoss())


def test_models_of_folds_say_where_the_minimum_of_all_rows_is(rng):
    """Wherever the folds are, if the loss is quadratic."""
    folds, (source, problem) = squared_folds(rng)
    columns = fold_columns(folds, rng.standard_normal((3, 4, 1)))
    fits = FullFits(lambda number: problem, lambda losses: 0, 1e-10)
    fits.learn([], columns)
    assert fits.current.number == 0
    fits.learn(answer_all(source, fits.requests), columns)
    assert not fits.requests
    [result] = drive([fits.current.resume()], source, tol=1e-10, max_iter=0)
    assert result.status is Status.CONVERGED
    assert result.passes == 0
    assert result.evaluation.optimality < 1e-11


def test_another_penalty_has_another_fit(rng):
    folds, (_, problem) = squared_folds(rng)
    columns = fold_columns(folds, np.zeros((3, 4, 1)))
    best = [0]
    fits = FullFits(lambda number: problem, lambda losses: best[0], 1e-10)
    columns[1].score_loss = np.nan
    fits.learn([], columns)
    assert fits.current is None  # nobody knows which one is the best
    columns[1].score_loss = 1.0
    fits.learn([], columns)
    first = fits.current
    fits.learn([], columns)
    assert fits.current is first
    for column in columns:
        column.number = best[0] = 1
    fits.learn([], columns)
    assert fits.current.number == 1
    for column in columns:
        column.number, column.model = 2, None
    best[0] = 2
    fits.learn([], columns)
    assert fits.current is None  # and nothing to start from
    assert not fits.requests


@pytest.mark.parametrize("n_reads", [0, 1, 3])
def test_a_fit_is_driven_on(n_reads, rng):
    """A poor start and a poor model take more reads, beside a search or alone."""
    X = rng.standard_normal((500, 5))
    y = rng.random(500) < expit(2 * X[:, 0])
    source, problem = problem_of(X, y, 1e-3)
    model = penalised_model(3.0 * np.eye(5), problem.penalty)
    fit = FullFit(0, problem, np.ones((5, 1)), model, 1e-8)
    for _ in range(n_reads):
        fit.learn(answer_all(source, fit.requests))
    [result] = drive([fit.resume()], source, tol=1e-8, max_iter=100)
    assert result.status is Status.CONVERGED
    assert result.evaluation.optimality <= 1e-8
    assert len(result.history) > 3
