"""The table of ways, row by row, and the way that users see."""

from dataclasses import replace

import numpy as np
import pytest
from cases import make_case
from problems import classification, regression
from scipy.special import softmax

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.objective import (
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    SeparablePenalty,
    SquaredLoss,
)
from skcara.solvers import Way
from skcara.solvers._strategy import choose_way

LOSSES = {
    "squared": SquaredLoss(),
    "logistic": LogisticLoss(),
    "multinomial": MultinomialLoss(4),
    "many classes": MultinomialLoss(40),
}


def problem_of(loss, n_rows, n_features, *, l1=0.0, l2=0.0, entries=None):
    """Problem of any shape: only facts are looked at, so there need be no data."""
    case = make_case(
        np.zeros((1, n_features)),
        np.zeros(1),
        LOSSES[loss],
        SeparablePenalty(
            *(np.full((n_features + 1, 1), strength) for strength in (l1, l2)),
            np.zeros((n_features + 1, 1), dtype=bool),
        ),
        KKTViolation(),
    )
    is_sparse = entries is not None
    facts = replace(
        case.problem.facts,
        n_rows=n_rows,
        n_entries=n_rows * (entries if is_sparse else n_features),
        is_sparse=is_sparse,
    )
    return replace(case.problem, facts=facts)


# loss, rows, columns, recombination, what else, way
TABLE = [
    # L1 and many columns, few rows for each: working sets, whatever the loss.
    ("squared", 300, 400, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    ("logistic", 1000, 400, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    ("logistic", 1000, 400, "tree", {"l1": 0.1}, Way.WORKING_SETS),
    ("logistic", 1000, 400, None, {"l1": 0.1}, Way.WORKING_SETS),
    ("multinomial", 1000, 400, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    # All of a few hundred columns are worth a copy, once there are rows for them.
    ("squared", 2000, 400, "auto", {"l1": 0.1}, Way.COORDINATE_DESCENT),
    # Of sparse columns there may be more, and must be more for each row.
    ("squared", 2000, 400, "auto", {"l1": 0.1, "entries": 40}, Way.COORDINATE_DESCENT),
    ("squared", 3200, 400, "auto", {"l1": 0.1, "entries": 40}, Way.COORDINATE_DESCENT),
    ("squared", 3201, 400, "auto", {"l1": 0.1, "entries": 40}, Way.STATISTICS),
    ("squared", 2048, 2048, "auto", {"l1": 0.1, "entries": 9}, Way.COORDINATE_DESCENT),
    ("squared", 2049, 2048, "auto", {"l1": 0.1, "entries": 9}, Way.WORKING_SETS),
    ("squared", 500, 1000, "auto", {"l1": 0.1, "entries": 9}, Way.COORDINATE_DESCENT),
    ("squared", 499, 1000, "auto", {"l1": 0.1, "entries": 9}, Way.WORKING_SETS),
    ("logistic", 500, 1000, "auto", {"l1": 0.1, "entries": 9}, Way.WORKING_SETS),
    ("squared", 400, 400, "auto", {"l1": 0.1}, Way.COORDINATE_DESCENT),
    ("squared", 399, 400, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    ("squared", 2097, 1000, "auto", {"l1": 0.1}, Way.COORDINATE_DESCENT),
    ("squared", 2098, 1000, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    ("logistic", 2000, 400, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    # Up to 200 columns, or without L1, nothing is zero: no working sets.
    ("squared", 1000, 200, "auto", {"l1": 0.1}, Way.COORDINATE_DESCENT),
    ("squared", 1000, 400, "auto", {}, Way.STATISTICS),
    # With few columns, or many rows, the Gram matrix costs less than a copy.
    ("squared", 1000, 150, "auto", {"l1": 0.1}, Way.STATISTICS),
    ("squared", 1000, 151, "auto", {"l1": 0.1}, Way.COORDINATE_DESCENT),
    ("squared", 4000, 200, "auto", {"l1": 0.1}, Way.COORDINATE_DESCENT),
    ("squared", 4001, 200, "auto", {"l1": 0.1}, Way.STATISTICS),
    ("squared", 1000, 200, None, {"l1": 0.1}, Way.COORDINATE_DESCENT),
    # Many rows for each column: only huge numbers of columns are worth a copy.
    ("squared", 40_000, 400, "auto", {"l1": 0.1}, Way.STATISTICS),
    ("squared", 40_000, 1001, "auto", {"l1": 0.1}, Way.WORKING_SETS),
    # Fewer rows than columns and no L1: the space of the rows.
    ("squared", 100, 150, "auto", {"l2": 0.1}, Way.ROW_SPACE),
    ("squared", 100, 150, None, {}, Way.ROW_SPACE),
    ("squared", 101, 150, "auto", {"l2": 0.1}, Way.STATISTICS),
    ("squared", 50, 99, "auto", {"l2": 0.1}, Way.STATISTICS),
    ("squared", 100, 150, "tree", {"l2": 0.1}, Way.ROW_SPACE),
    ("logistic", 161, 300, "auto", {"l2": 0.1}, Way.ROW_SPACE),
    ("logistic", 162, 300, "auto", {"l2": 0.1}, Way.SECANT_STEPS),
    ("multinomial", 49, 300, "auto", {"l2": 0.1}, Way.ROW_SPACE),
    ("multinomial", 50, 300, "auto", {"l2": 0.1}, Way.SECANT_STEPS),
    # Without a penalty nothing keeps the coefficients of separable classes finite.
    ("logistic", 50, 300, "auto", {}, Way.SECANT_STEPS),
    # Squared loss: statistics, or a sample of them where the Gram matrix is dear.
    ("squared", 1000, 10, "auto", {}, Way.STATISTICS),
    ("squared", 1000, 10, None, {}, Way.STATISTICS),
    ("squared", 10**6, 100, "auto", {}, Way.STATISTICS),
    ("squared", 10**6, 101, "auto", {}, Way.SAMPLE_METRIC),
    ("squared", 10**6, 101, None, {}, Way.SAMPLE_METRIC),
    ("squared", 50_999, 101, "auto", {}, Way.STATISTICS),
    ("squared", 51_000, 101, "auto", {}, Way.SAMPLE_METRIC),
    ("squared", 10**6, 1500, "auto", {"entries": 32}, Way.STATISTICS),
    ("squared", 10**6, 1500, "auto", {"entries": 33}, Way.SAMPLE_METRIC),
    ("squared", 10**7, 4000, "auto", {"entries": 32}, Way.STATISTICS),
    ("squared", 10**7, 4001, "auto", {"entries": 32}, Way.SAMPLE_METRIC),
    # A smooth loss with many columns: no Hessians. Classes count as their root.
    ("logistic", 3000, 100, "auto", {}, Way.SECANT_STEPS),
    # Unless they cost next to nothing.
    ("logistic", 2000, 100, "auto", {}, Way.ALL_ROWS),
    ("logistic", 2000, 100, "auto", {"entries": 5}, Way.SECANT_STEPS),
    ("multinomial", 1000, 50, "auto", {}, Way.ALL_ROWS),
    ("multinomial", 3000, 60, "auto", {}, Way.SECANT_STEPS),
    # Nor if they have many coordinates, whatever the number of columns.
    ("many classes", 1000, 6, "auto", {}, Way.ALL_ROWS),
    ("many classes", 1000, 7, "auto", {}, Way.SECANT_STEPS),
    ("many classes", 10**6, 7, "auto", {}, Way.SECANT_STEPS),
    ("many classes", 10**6, 7, "auto", {"l1": 0.1}, Way.CALIBRATED_SAMPLE),
    ("logistic", 10**6, 100, "auto", {}, Way.SECANT_STEPS),
    ("logistic", 10**6, 100, None, {}, Way.SECANT_STEPS),
    ("logistic", 10**6, 100, "tree", {}, Way.RECOMBINED_GROUPS),
    ("logistic", 10**6, 100, "auto", {"l1": 0.1}, Way.CALIBRATED_SAMPLE),
    ("multinomial", 10**6, 49, "auto", {}, Way.CALIBRATED_SAMPLE),
    ("multinomial", 10**6, 50, "auto", {}, Way.SECANT_STEPS),
    # Nor with few rows for each column, of which samples know little.
    ("logistic", 100_000, 40, "auto", {}, Way.SECANT_STEPS),
    ("logistic", 100_001, 40, "auto", {}, Way.CALIBRATED_SAMPLE),
    ("logistic", 100_000, 40, "auto", {"l1": 0.1}, Way.CALIBRATED_SAMPLE),
    ("logistic", 40_000, 99, None, {}, Way.SECANT_STEPS),
    ("multinomial", 100_000, 40, "auto", {}, Way.SECANT_STEPS),
    # A named method recombines for the squared loss too, where there are rows for it.
    ("squared", 1000, 10, "tree", {}, Way.STATISTICS),
    ("squared", 1000, 1, "calibration", {}, Way.STATISTICS),
    ("squared", 40_000, 99, "tree", {}, Way.STATISTICS),
    ("squared", 10**6, 20, "tree", {}, Way.RECOMBINED_GROUPS),
    ("squared", 10**6, 20, "calibration", {}, Way.CALIBRATED_SAMPLE),
    # Few entries are all copied, the intercept included.
    ("logistic", 1000, 10, "auto", {}, Way.ALL_ROWS),
    ("logistic", 1000, 10, None, {}, Way.ALL_ROWS),
    ("logistic", 2**16, 15, "auto", {}, Way.ALL_ROWS),
    ("logistic", 2**16 + 1, 15, "auto", {}, Way.CALIBRATED_SAMPLE),
    ("multinomial", 2**16, 15, "auto", {}, Way.ALL_ROWS),
    # More entries, but not enough rows for a sample, or no wish for one.
    ("logistic", 40_000, 99, "auto", {"l1": 0.1}, Way.NEWTON),
    ("logistic", 10**6, 20, None, {}, Way.NEWTON),
    ("multinomial", 2**16 + 1, 40, "auto", {"l1": 0.1}, Way.NEWTON),
    # Tall data: a calibrated sample, or groups by the method that is named.
    ("logistic", 50_000, 99, "auto", {"l1": 0.1}, Way.CALIBRATED_SAMPLE),
    ("logistic", 10**6, 20, "auto", {}, Way.CALIBRATED_SAMPLE),
    ("logistic", 10**6, 20, "calibration", {}, Way.CALIBRATED_SAMPLE),
    ("logistic", 10**6, 20, "tree", {}, Way.RECOMBINED_GROUPS),
    ("logistic", 10**6, 20, "combined", {}, Way.RECOMBINED_GROUPS),
    ("multinomial", 10**6, 20, "auto", {}, Way.CALIBRATED_SAMPLE),
    # L1 on tall data does not make working sets.
    ("logistic", 10**6, 300, "auto", {"l1": 0.1}, Way.CALIBRATED_SAMPLE),
]


@pytest.mark.parametrize(
    ("loss", "n_rows", "n_features", "method", "more", "way"), TABLE
)
def test_every_row_of_the_table(loss, n_rows, n_features, method, more, way):
    problem = problem_of(loss, n_rows, n_features, **more)
    assert choose_way(problem, method) is way


def test_restricted_problems_do_not_restrict_again():
    problem = problem_of("logistic", 1000, 400, l1=0.1)
    assert choose_way(problem, "auto", has_all_columns=False) is Way.ALL_ROWS


def test_every_way_is_in_the_table():
    assert {row[-1] for row in TABLE} | {Way.DESCENT} == set(Way)


def test_matrices_that_do_not_fit_are_refused_in_words():
    for loss, n_rows, method in (
        ("squared", 25_000, "auto"),
        ("squared", 25_000, "tree"),
        ("logistic", 100, "tree"),
    ):
        with pytest.raises(ValueError, match=r"30001 x 30001 numbers.*too wide"):
            choose_way(problem_of(loss, n_rows, 30_000), method)
    # Neither the space of few rows, working sets nor secant steps need such a matrix.
    assert choose_way(problem_of("squared", 100, 30_000), "auto") is Way.ROW_SPACE
    sparse_solution = problem_of("squared", 100, 30_000, l1=0.1)
    assert choose_way(sparse_solution, "auto") is Way.WORKING_SETS
    smooth = problem_of("logistic", 100, 30_000)
    assert choose_way(smooth, "auto") is Way.SECANT_STEPS


@pytest.mark.parametrize(
    ("model", "way"),
    [
        (CaLeastSquares(), Way.STATISTICS),
        (CaLasso(0.1), Way.STATISTICS),
        (CaLasso(0.1, solver="canewton"), Way.STATISTICS),
        (CaLasso(0.1, solver="cagd"), Way.DESCENT),
        (CaLasso(0.1, solver="cabcd"), Way.DESCENT),
    ],
    ids=str,
)
def test_regressors_tell_their_way(model, way):
    X, y = regression()
    assert model.fit(X, y).strategy_ == way.value
    targets = np.column_stack([y, -y])
    assert model.fit(X, targets).strategy_ == [way.value] * 2


def test_classifiers_tell_their_way():
    X, y = classification()
    assert CaLogisticRegression().fit(X, y).strategy_ == Way.ALL_ROWS.value
    assert CaLogisticRegression(solver="cagd").fit(X, y).strategy_ == Way.DESCENT.value
    X, y = classification(n_rows=140_000)
    model = CaLogisticRegression().fit(X, y)
    assert model.strategy_ == Way.CALIBRATED_SAMPLE.value
    assert model.n_calibrations_ >= 1
    assert model.n_recombinations_ == 0
    model = CaLogisticRegression(recombination="tree").fit(X, y)
    assert model.strategy_ == Way.RECOMBINED_GROUPS.value
    assert model.n_recombinations_ >= 1
    assert model.n_calibrations_ == 0


def test_measures_that_fail_end_in_newton_steps_and_say_so():
    rng = np.random.default_rng(0)
    X, y = classification(n_rows=140_000)
    model = CaLogisticRegression(tol=0.0, max_iter=60)
    with pytest.warns(match="did not converge"):
        model.fit(X + 1e-9 * rng.standard_normal(X.shape), y)
    assert model.strategy_ == Way.NEWTON.value


def test_classes_that_hang_on_few_rows_get_measures(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((90_000, 58))
    score = X[:, :3] + rng.gumbel(size=(len(X), 3))
    model = CaLogisticRegression(tol=1e-5).fit(X, score.argmax(axis=1))
    assert model.strategy_ == Way.SECANT_STEPS.value
    # A level of a category with a handful of rows.
    X[:, -1] = np.arange(len(X)) % 15_000 == 7
    y = (score + 2 * X[:, [-1, 0, 1]]).argmax(axis=1)
    model.fit(X, y)
    assert model.strategy_ == Way.CALIBRATED_SAMPLE.value
    residual = softmax(X @ model.coef_.T + model.intercept_, axis=1) - np.eye(3)[y]
    gradient = (residual.T @ X + model.coef_) / len(X)
    assert np.abs(gradient).max() <= 1e-5
    assert np.abs(residual.mean(axis=0)).max() <= 1e-5
