"""Working sets: the optimum over all columns from few of them."""

import numpy as np
import pytest
from certificates import lasso_dual_gap, logistic_violation
from scipy import sparse
from skcara.solvers._canewton import CanewtonOptions, iterate_canewton
from skcara.solvers._coordinates import standardised
from skcara.solvers._working_set import (
    _choose_features,
    has_many_columns,
    iterate_working_sets,
)
from solvers.tall_problems import gaussian, labels, make_problem

from skcara import CaLogisticRegression
from skcara.solvers import Round, Status, run_rounds


def run(problem, tol):
    rounds = iterate_canewton(
        problem,
        np.zeros((problem.n_params, problem.n_outputs)),
        CanewtonOptions(),
        np.random.RandomState(0),
    )
    return run_rounds(rounds, tol=tol, max_iter=100)


@pytest.mark.parametrize("to_X", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_wide_lasso_is_certified_on_all_columns(l2, to_X):
    X, score, rng = gaussian(150, 400)
    y = score + 0.1 * rng.standard_normal(len(score))
    problem = standardised(make_problem(to_X(X), y, "squared", l1=0.05, l2=l2))
    assert has_many_columns(problem)
    result = run(problem, tol=1e-8)
    assert result.status is Status.CONVERGED
    coef, intercept = problem.design.to_user(result.evaluation.params)
    gap = lasso_dual_gap(X, y, coef[:, 0], intercept[0], 0.05, l2)
    assert gap <= 1.01e-8 * y.var()


def test_wide_logistic_is_certified_on_all_columns():
    X, score, rng = gaussian(200, 400)
    y = labels(3 * score, rng)
    problem = standardised(make_problem(X, y, "logistic", l1=0.02))
    result = run(problem, tol=1e-9)
    assert result.status is Status.CONVERGED
    coef, intercept = problem.design.to_user(result.evaluation.params)
    C = 1.0 / (0.02 * len(y))
    violation = logistic_violation(X, y.astype(int), coef.T, intercept, C, 1.0)
    assert violation <= 1.01e-9


def test_working_set_holds_the_columns_in_use_and_the_worst_others():
    X, score, _ = gaussian(150, 400)
    problem = make_problem(X, score, "squared", l1=0.05)
    params = np.zeros((problem.n_params, 1))
    params[[7, 300]] = 1.0
    evaluation = problem.evaluate(params)
    features = _choose_features(problem, evaluation)
    assert {7, 300} <= set(features)
    left_out = np.setdiff1d(np.arange(400), features)
    violation = evaluation.violation[:400, 0]
    others = np.setdiff1d(features, [7, 300])
    assert violation[left_out].max() <= violation[others].min()


def test_useless_inner_solver_ends_the_rounds():
    X, score, _ = gaussian(150, 400)
    problem = make_problem(X, score, "squared", l1=0.05)
    zeros = np.zeros((problem.n_params, 1))

    def stuck(restricted, params):
        yield Round(restricted.evaluate(params), 1.0)

    rounds = iterate_working_sets(problem, zeros, stuck)
    result = run_rounds(rounds, tol=1e-8, max_iter=50)
    assert result.status is Status.STALLED
    assert result.n_rounds <= 5


def test_problems_too_wide_for_a_matrix_are_refused_in_words():
    X = sparse.csr_array(
        (np.ones(40), (np.arange(40), np.arange(40) * 600)), shape=(40, 24_000)
    )
    with pytest.raises(ValueError, match=r"24001 x 24001 numbers.*too wide"):
        CaLogisticRegression().fit(X, np.arange(40) % 2)
