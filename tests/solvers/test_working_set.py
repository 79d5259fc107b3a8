"""Working sets: the optimum over all columns from few of them."""

import numpy as np
import pytest
from certificates import lasso_dual_gap, logistic_violation, squared_violation
from numpy.testing import assert_allclose
from scipy import sparse
from solvers.tall_problems import gaussian, labels, make_problem

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.passes import Evaluate
from skcara.solvers import Round, Status, Way
from skcara.solvers.newton import (
    CanewtonOptions,
    _coordinate_descent,
    iterate_canewton,
)
from skcara.solvers.newton._working_set import _choose_features, iterate_working_sets


def run(case, tol):
    rng = np.random.RandomState(0)
    solver = iterate_canewton(case.problem, case.zeros, CanewtonOptions(), rng)
    return case.solve(solver, tol=tol, max_iter=100)


@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_wide_lasso_is_certified_on_all_columns(l2, to_X):
    X, score, rng = gaussian(150, 400)
    y = score + 0.1 * rng.standard_normal(len(score))
    case = make_problem(to_X(X), y, "squared", l1=0.05, l2=l2).standardised()
    result = run(case, tol=1e-8)
    assert result.way is Way.WORKING_SETS
    assert result.status is Status.CONVERGED
    coef, intercept = case.problem.coordinates.to_user(result.evaluation.params)
    gap = lasso_dual_gap(X, y, coef[:, 0], intercept[0], 0.05, l2)
    assert gap <= 1.01e-8 * y.var()


def violation_of(model, X, y, weights):
    """Largest violation of an elastic net of strength 0.1, nine tenths of it L1."""
    return squared_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        0.09,
        0.01,
        sample_weight=weights,
        positive=model.positive,
        fit_intercept=model.fit_intercept,
    )


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_wide_lasso_of_every_kind_is_optimal(weighted, fit_intercept, positive):
    X, score, rng = gaussian(150, 400)
    X = X * rng.uniform(0.1, 10, 400) + 5.0
    y = score + 0.1 * rng.standard_normal(len(score)) + 2.0
    weights = rng.choice([0.0, 1.0, 2.5], len(y)) if weighted else None
    model = CaLasso(
        0.1, l1_ratio=0.9, fit_intercept=fit_intercept, positive=positive, tol=1e-9
    ).fit(X, y, sample_weight=weights)
    assert model.strategy_ == Way.WORKING_SETS.value
    assert violation_of(model, X, y, weights) < 1e-3


def test_coordinate_descent_that_gives_up_is_replaced(monkeypatch):
    monkeypatch.setattr(_coordinate_descent, "_MAX_EPOCHS", 1)
    test_wide_lasso_is_certified_on_all_columns(0.0, np.asarray)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_descent_on_all_columns_is_optimal(weighted, fit_intercept, positive):
    X, score, rng = gaussian(2500, 160)
    X = X * rng.uniform(0.1, 10, 160) + 5.0 * fit_intercept
    y = score + 0.1 * rng.standard_normal(len(score)) + 2.0
    weights = rng.choice([0.0, 1.0, 2.5], len(y)) if weighted else None
    if weighted:
        X[weights == 0] = 1e20
    model = CaLasso(
        0.1, l1_ratio=0.9, fit_intercept=fit_intercept, positive=positive, tol=1e-9
    ).fit(X, y, sample_weight=weights)
    assert model.strategy_ == Way.COORDINATE_DESCENT.value
    if weighted:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    assert violation_of(model, X, y, weights) < 1e-3


@pytest.mark.parametrize("n_rows", [1500, 6000])
def test_descent_on_all_columns_is_certified(n_rows):
    """The intercept and the certificate are those of all rows, not of a glance."""
    X, _, rng = gaussian(n_rows, 300)
    # The rows of the glance, every second one, have other means.
    X[::2, :5] += 1.0
    X += 3.0
    y = X @ rng.standard_normal(300) + rng.standard_normal(n_rows)
    model = CaLasso(0.05, tol=1e-7).fit(X, y)
    assert model.strategy_ == Way.COORDINATE_DESCENT.value
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 0.05, 0.0)
    assert gap <= 1.01 * model.dual_gap_ + 1e-12 * y.var()
    assert model.dual_gap_ <= 1e-7 * y.var()


def test_descent_that_takes_too_long_is_replaced():
    X, score, rng = gaussian(800, 160)
    X += 3 * rng.standard_normal((800, 1))
    y = score + 0.1 * rng.standard_normal(len(score))
    model = CaLasso(1e-3).fit(X, y)
    assert model.strategy_ == Way.STATISTICS.value
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 1e-3, 0.0)
    assert gap <= 1e-9 * y.var()


# All columns at once, working sets of few rows, and working sets that begin with faces.
SPARSE_SHAPES = {
    (700, 300): Way.COORDINATE_DESCENT,
    (100, 400): Way.WORKING_SETS,
    (2200, 450): Way.COORDINATE_DESCENT,
    (3100, 1400): Way.WORKING_SETS,
}


def sparse_regression(n_rows, n_features, seed=0):
    """Counts with some explicit zeros, and a target that a third of them explain."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array(
        (n_rows, n_features), density=0.03, format="csr", random_state=rng
    ).astype(np.float64)
    X.data[:] = rng.integers(0, 4, X.nnz)
    coef = rng.standard_normal(n_features) * (np.arange(n_features) % 3 == 0)
    return X, X @ coef + rng.standard_normal(n_rows) + 2.0, rng


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "way"), SPARSE_SHAPES.items(), ids=str)
def test_sparse_elastic_nets_are_optimal(shape, way, weighted, fit_intercept, positive):
    X, y, rng = sparse_regression(*shape)
    weights = rng.choice([0.0, 1.0, 2.5], len(y)) if weighted else None
    if weighted:
        X.data[np.repeat(weights == 0, np.diff(X.indptr))] = 1e20
    model = CaLasso(
        0.01, l1_ratio=0.9, fit_intercept=fit_intercept, positive=positive, tol=1e-9
    ).fit(X, y, sample_weight=weights)
    assert model.strategy_ == way.value
    if weighted:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    violation = squared_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        0.009,
        0.001,
        sample_weight=weights,
        positive=positive,
        fit_intercept=fit_intercept,
    )
    assert violation < 1e-3 * np.sqrt(y.var())


@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("shape", SPARSE_SHAPES, ids=str)
def test_sparse_lasso_is_certified(shape, alpha):
    X, y, _ = sparse_regression(*shape)
    model = CaLasso(alpha).fit(X, y)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, alpha, 0.0)
    assert gap <= 1.01 * model.dual_gap_ + 1e-12 * y.var()
    assert model.dual_gap_ <= 1e-4 * y.var()


@pytest.mark.parametrize("shape", SPARSE_SHAPES, ids=str)
def test_formats_and_index_types_agree(shape):
    X, y, _ = sparse_regression(*shape)
    model = CaLasso(0.02, l1_ratio=0.8, tol=1e-11, max_iter=1000)
    expected = model.fit(X.toarray(), y).coef_
    scale = np.abs(expected).max()
    for to_index in (np.int32, np.int64):
        X.indices, X.indptr = X.indices.astype(to_index), X.indptr.astype(to_index)
        coef = model.fit(X, y).coef_
        assert np.abs(coef - expected).max() <= 1e-3 * scale


@pytest.mark.parametrize("shape", SPARSE_SHAPES, ids=str)
def test_sparse_descent_that_takes_too_long_is_replaced(shape, monkeypatch):
    epochs = property(lambda columns: 1)
    monkeypatch.setattr(_coordinate_descent._CopiedColumns, "max_epochs", epochs)
    monkeypatch.setattr(_coordinate_descent, "_MAX_EPOCHS", 1)
    X, y, _ = sparse_regression(*shape)
    model = CaLasso(0.01, tol=1e-8).fit(X, y)
    assert model.strategy_ in (Way.STATISTICS.value, Way.WORKING_SETS.value)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 0.01, 0.0)
    assert gap <= 1.01e-8 * y.var()


def test_first_sparse_working_set_holds_twice_the_columns_that_are_pushed():
    X, y, _ = sparse_regression(100, 400)
    for alpha in (0.4, 0.05):
        case = make_problem(X, y, "squared", l1=alpha)
        evaluation = case.evaluate(case.zeros)
        slope = evaluation.smooth_gradient[:400, 0]
        n_pushed = np.count_nonzero(np.abs(slope) > case.problem.penalty.l1[:400, 0])
        size = len(_choose_features(case.problem, evaluation, may_descend=True))
        assert size == (2 * n_pushed if 3 * n_pushed <= 400 else 400)
        # Few columns for each row: their Gram matrix costs less.
        tall = make_problem(
            sparse.vstack([X] * 90).tocsr(), np.tile(y, 90), "squared", l1=alpha
        )
        evaluation = tall.evaluate(tall.zeros)
        assert len(_choose_features(tall.problem, evaluation, may_descend=True)) == 64


def test_wide_logistic_is_certified_on_all_columns():
    X, score, rng = gaussian(200, 400)
    y = labels(3 * score, rng)
    case = make_problem(X, y, "logistic", l1=0.02).standardised()
    result = run(case, tol=1e-9)
    assert result.status is Status.CONVERGED
    coef, intercept = case.problem.coordinates.to_user(result.evaluation.params)
    C = 1.0 / (0.02 * len(y))
    violation = logistic_violation(X, y.astype(int), coef.T, intercept, C, 1.0)
    assert violation <= 1.01e-9


def test_working_set_holds_the_columns_in_use_and_the_worst_others():
    X, score, _ = gaussian(150, 400)
    case = make_problem(X, score, "squared", l1=0.05)
    params = case.zeros
    params[[7, 300]] = 1.0
    evaluation = case.evaluate(params)
    features = _choose_features(case.problem, evaluation, may_descend=False)
    assert {7, 300} <= set(features)
    left_out = np.setdiff1d(np.arange(400), features)
    slope, l1 = evaluation.smooth_gradient[:400, 0], case.problem.penalty.l1[:400, 0]
    others = np.setdiff1d(features, [7, 300])
    # Violating or not: nobody left out is nearer to moving than those who were taken.
    push = np.abs(slope) / l1
    assert push[left_out].max() <= push[others].min()


def test_working_set_does_not_want_columns_that_must_not_become_negative():
    X, score, _ = gaussian(150, 400)
    case = make_problem(X, score, "squared", l1=0.05, positive=True)
    evaluation = case.evaluate(case.zeros)
    features = _choose_features(case.problem, evaluation, may_descend=False)
    slope, l1 = evaluation.smooth_gradient[:400, 0], case.problem.penalty.l1[:400, 0]
    assert (slope[features] < 0).all()
    left_out = np.setdiff1d(np.arange(400), features)
    assert (-slope / l1)[left_out].max() <= (-slope / l1)[features].min()


def test_useless_inner_solver_ends_the_rounds():
    X, score, rng = gaussian(150, 400)
    # No elastic net: coordinate descent would do without the solver.
    case = make_problem(X, labels(score, rng), "logistic", l1=0.02)

    def stuck(restricted, params):
        evaluation = yield Evaluate(restricted, params)
        yield Round(evaluation)

    solver = iterate_working_sets(case.problem, case.zeros, stuck)
    result = case.solve(solver, tol=1e-8, max_iter=50)
    assert result.status is Status.STALLED
    assert result.n_rounds <= 5


def test_problems_too_wide_for_a_matrix_are_refused_in_words():
    X = sparse.random_array(
        (20_000, 24_000), density=1e-5, format="csr", random_state=0
    )
    y = np.arange(20_000) % 2
    with pytest.raises(ValueError, match=r"24001 x 24001 numbers.*too wide"):
        CaLeastSquares().fit(X, y)


def test_wide_problems_need_no_matrix_of_all_columns():
    X = sparse.csr_array(
        (np.ones(40), (np.arange(40), np.arange(40) * 600)), shape=(40, 24_000)
    )
    y = np.arange(40) % 2
    assert_allclose(CaLeastSquares().fit(X, y).predict(X), y, atol=1e-12)
    model = CaLogisticRegression(tol=1e-8).fit(X, y)
    assert logistic_violation(X, y, model.coef_, model.intercept_, 1.0) <= 1.01e-8
    model = CaLasso(1e-3, tol=1e-8).fit(X, y)
    gap = lasso_dual_gap(X, y, model.coef_, model.intercept_, 1e-3)
    assert gap <= 1.01e-8 * y.var()
