"""Secant steps with many columns: metrics are matrices, optima hold on all rows."""

import numpy as np
import pytest
from certificates import logistic_objective, logistic_violation
from scipy import sparse
from scipy.special import expit, softmax

from skcara import CaLogisticRegression
from skcara.data import ArraySource, Coordinates
from skcara.objective import (
    Evaluation,
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    SeparablePenalty,
)
from skcara.passes import EvaluateCurvature
from skcara.solvers._driver import drive
from skcara.solvers._quadratic import ScaledCholesky
from skcara.solvers._rounds import Round, Status
from skcara.solvers.newton import _columns
from skcara.solvers.newton._metric import (
    Curvature,
    DifferenceMetric,
    ShearedMetric,
)
from skcara.solvers.newton._reduced import ReducedPoint
from skcara.solvers.newton._secant_steps import SecantDescent


def positive_definite(n, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (basis * 10.0 ** rng.uniform(-spread, 0, n)) @ basis.T


class TestSecantDescent:
    def quadratic(self, n=12):
        matrix, shift = positive_definite(n), np.arange(n, dtype=float)

        def evaluate(params):
            gradient = matrix @ (params - shift)
            return ReducedPoint(params, 0.5 * (params - shift) @ gradient, gradient)

        return matrix, shift, evaluate

    def test_the_hessian_needs_one_step(self):
        matrix, shift, evaluate = self.quadratic()
        start = evaluate(np.zeros(len(shift)))
        descent = SecantDescent(ScaledCholesky(matrix), start)
        assert descent.predicted == pytest.approx(start.objective, rel=1e-6)
        np.testing.assert_allclose(descent.trial, shift, rtol=1e-6, atol=1e-6)

    def test_any_metric_finds_the_minimum_and_never_goes_up(self):
        _, shift, evaluate = self.quadratic()
        descent = SecantDescent(
            ScaledCholesky(positive_definite(len(shift), seed=5)),
            evaluate(np.zeros(len(shift))),
        )
        for _ in range(100):
            before = descent.point.objective
            descent.receive(evaluate(descent.trial))
            assert descent.point.objective <= before
        np.testing.assert_allclose(descent.point.params, shift, atol=1e-5)
        assert descent.predicted <= 1e-12

    def test_wrong_gradients_end_in_failure_not_in_a_worse_point(self):
        _, shift, evaluate = self.quadratic()
        start = evaluate(np.zeros(len(shift)))
        uphill = ReducedPoint(start.params, start.objective, -start.gradient)
        descent = SecantDescent(ScaledCholesky(np.eye(len(shift))), uphill)
        for _ in range(100):
            assert not descent.receive(evaluate(descent.trial))
            if descent.has_failed:
                break
        assert descent.has_failed
        assert descent.point is uphill

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_values_that_are_not_finite_shorten_the_step(self, value):
        _, shift, evaluate = self.quadratic()
        descent = SecantDescent(
            ScaledCholesky(np.eye(len(shift))), evaluate(np.zeros(len(shift)))
        )
        first = descent.trial
        bad = ReducedPoint(first, value, np.full(len(shift), value))
        assert not descent.receive(bad)
        assert 0 < np.linalg.norm(descent.trial) <= 0.5 * np.linalg.norm(first)


class TestMetric:
    def explicit(self, curvature, l2, correlations, output):
        mean, mass = curvature.mean[:, output], curvature.mass[output]
        roots = np.sqrt(curvature.variance[:, output])
        inner = roots[:, None] * correlations * roots + np.diag(l2[:, 0])
        n = len(mean)
        matrix = np.empty((n + 1, n + 1))
        matrix[:n, :n] = inner + mass * np.outer(mean, mean)
        matrix[n, :n] = matrix[:n, n] = mass * mean
        matrix[n, n] = mass
        return matrix

    def curvature(self, n, n_outputs):
        rng = np.random.default_rng(3)
        same = rng.uniform(0.5, 2.0, (n, 1))
        return Curvature(
            rng.uniform(0.1, 0.3, n_outputs),
            rng.standard_normal((n, n_outputs)),
            np.repeat(same, n_outputs, axis=1),
        )

    @pytest.mark.parametrize("n_outputs", [1, 3])
    @pytest.mark.parametrize("is_correlated", [False, True])
    def test_it_is_the_documented_matrix(self, n_outputs, is_correlated):
        n = 7
        curvature, l2 = self.curvature(n, n_outputs), np.full((n, 1), 0.3)
        correlations, given = np.eye(n), None
        if is_correlated:
            correlations = 0.4 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
            given = correlations.astype(np.float32)
        metric = ShearedMetric(curvature, l2, True, given)
        gradient = np.random.default_rng(1).standard_normal((n + 1, n_outputs))
        solution = metric.solve(gradient.ravel()).reshape(gradient.shape)
        for output in range(n_outputs):
            matrix = self.explicit(curvature, l2, correlations, output)
            expected = np.linalg.solve(matrix, gradient[:, output])
            np.testing.assert_allclose(solution[:, output], expected, rtol=1e-4)

    def test_differences_are_solved_for_among_themselves(self):
        """There the inverse is symmetric, and leads nowhere else."""
        n, n_outputs, loss = 5, 3, MultinomialLoss(3)
        metric = ShearedMetric(self.curvature(n, n_outputs), np.full((n, 1), 0.3), True)
        size = (n + 1) * n_outputs
        inverse = np.array(
            [DifferenceMetric(metric, loss).solve(e) for e in np.eye(size)]
        )
        np.testing.assert_allclose(inverse, inverse.T, atol=1e-12)
        sums = inverse.reshape(size, n + 1, n_outputs).sum(axis=2)
        np.testing.assert_allclose(sums, 0.0, atol=1e-12)
        assert np.linalg.matrix_rank(inverse) == (n + 1) * (n_outputs - 1)

    def test_columns_without_curvature_stay_finite(self):
        curvature = Curvature(np.ones(1), np.zeros((3, 1)), np.zeros((3, 1)))
        metric = ShearedMetric(
            curvature, np.zeros((3, 1)), False, np.eye(3, dtype=np.float32)
        )
        assert np.isfinite(metric.solve(np.zeros(3))).all()

    def test_correlations_that_are_not_definite_are_ridged(self):
        n = 6
        correlations = np.ones((n, n), dtype=np.float32)
        correlations[0, 1] = correlations[1, 0] = -1.0
        curvature = Curvature(np.ones(1), np.zeros((n, 1)), np.ones((n, 1)))
        metric = ShearedMetric(curvature, np.zeros((n, 1)), False, correlations)
        gradient = np.random.default_rng(0).standard_normal(n)
        assert gradient @ metric.solve(gradient) > 0


def many_columns(kind, n_rows=3000, n_features=400, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "dense":
        X = rng.standard_normal((n_rows, n_features)) @ (
            0.6 ** np.abs(np.subtract.outer(np.arange(n_features), range(n_features)))
        )
        X = 3.0 + X * np.exp(rng.standard_normal(n_features))
    else:
        X = sparse.random_array(
            (n_rows, n_features), density=0.02, format="csr", random_state=rng
        )
        X.data = 0.5 + 2 * X.data
    coef = rng.standard_normal((n_features, n_classes)) / np.sqrt(n_features)
    scores = X @ coef
    scores = 2 * (scores - scores.mean(axis=0)) / scores.std()
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


class TestCurvatureSums:
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("kind", ["dense", "sparse"])
    @pytest.mark.parametrize("is_weighted", [False, True])
    def test_sums_are_those_of_the_textbook(self, kind, n_classes, is_weighted):
        X, y = many_columns(kind, n_rows=700, n_features=9, n_classes=n_classes)
        rng = np.random.default_rng(2)
        weights = rng.uniform(0.5, 2.0, len(y)) if is_weighted else None
        source = ArraySource(X, y, weights)
        shift = np.zeros(9) if kind == "sparse" else X.mean(axis=0) + 0.1
        coordinates = Coordinates(shift, rng.uniform(0.5, 2.0, 9), True)
        loss = LogisticLoss() if n_classes == 2 else MultinomialLoss(n_classes)
        nothing = np.zeros((10, 1))
        penalty = SeparablePenalty(nothing, nothing, nothing > 0)
        problem = Problem(source.facts, loss, penalty, KKTViolation(), coordinates)
        params = rng.standard_normal((10, loss.n_outputs)) / 5
        [(evaluation, sums)] = source.run([EvaluateCurvature(problem, params)])

        rows = X.toarray() if kind == "sparse" else X
        rows = (rows - shift) / coordinates.scale
        scores = rows @ params[:-1] + params[-1]
        probability = expit(scores) if n_classes == 2 else softmax(scores, axis=1)
        label = y[:, None] if n_classes == 2 else np.eye(n_classes)[y]
        mu = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
        curvature = mu[:, None] * probability * (1 - probability)
        np.testing.assert_allclose(sums.mass, curvature.sum(axis=0))
        np.testing.assert_allclose(sums.first, rows.T @ curvature, atol=1e-12)
        np.testing.assert_allclose(sums.second, (rows**2).T @ curvature, rtol=1e-9)
        gradient = rows.T @ (mu[:, None] * (probability - label))
        np.testing.assert_allclose(evaluation.gradient[:-1], gradient, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_optimum_holds_on_all_rows(kind, n_classes, fit_intercept, is_weighted):
    X, y = many_columns(kind, n_classes=n_classes)
    weights = None
    if is_weighted:
        weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    model = CaLogisticRegression(
        C=0.05, fit_intercept=fit_intercept, tol=1e-6, max_iter=200, random_state=0
    )
    model.fit(X, y, sample_weight=weights)
    assert model.strategy_ == "secant steps"
    judged = logistic_violation(
        X,
        y,
        model.coef_,
        model.intercept_,
        0.05,
        sample_weight=weights,
        fit_intercept=fit_intercept,
    )
    assert judged <= 1.01e-6


def test_slow_contraction_asks_for_the_hessian():
    # Two groups of nearly equal columns: a diagonal knows nothing of them.
    rng = np.random.default_rng(0)
    base = rng.standard_normal((4000, 2))
    noise = rng.standard_normal((4000, 300))
    X = np.repeat(base, 150, axis=1) + 0.01 * noise
    y = (X[:, 0] - X[:, 170] + 100 * (X[:, 1] - X[:, 2]) + rng.logistic(size=4000)) > 0
    model = CaLogisticRegression(C=100.0, tol=1e-7, random_state=0).fit(X, y)
    judged = logistic_violation(
        X, y.astype(int), model.coef_, model.intercept_, C=100.0
    )
    assert judged <= 1.01e-7


@pytest.mark.parametrize("C", [100.0, 300.0])
def test_many_classes_may_have_more_coordinates_than_rows(C):
    # Labels without any meaning, 1240 coordinates and a weak penalty: without a Hessian
    # several hundred steps.
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 30)), rng.permutation(np.arange(500) % 40)
    model = CaLogisticRegression(C=C, tol=1e-6, random_state=0).fit(X, y)
    assert model.strategy_ == "secant steps"
    assert len(model.history_) <= 90
    assert logistic_violation(X, y, model.coef_, model.intercept_, C) <= 1.01e-6


def test_a_costly_hessian_needs_more_evidence_than_a_few_steps(monkeypatch):
    # Classes that can be told apart: the predicted decrease grows at first, and one
    # Hessian of 1224 coordinates costs more than all steps without it.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 101))
    y = (X @ rng.standard_normal((101, 12))).argmax(axis=1)

    def refuse(*arguments, **named):
        raise AssertionError("asked for a Hessian")

    monkeypatch.setattr(_columns, "Hessian", refuse)
    model = CaLogisticRegression(C=100.0, max_iter=500, random_state=0).fit(X, y)
    assert model.strategy_ == "secant steps"
    assert logistic_violation(X, y, model.coef_, model.intercept_, 100.0) <= 1.01e-4


def test_more_columns_than_any_matrix_could_hold():
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40_000), density=1e-3, format="csr", random_state=rng)
    y = (X @ rng.standard_normal(40_000) + 0.1 * rng.logistic(size=300) > 0).astype(int)
    model = CaLogisticRegression(random_state=0).fit(X, y)
    better = CaLogisticRegression(tol=1e-9, random_state=0, max_iter=500).fit(X, y)
    best = logistic_objective(X, y, better.coef_, better.intercept_, 1.0)
    reached = logistic_objective(X, y, model.coef_, model.intercept_, 1.0)
    assert logistic_violation(X, y, better.coef_, better.intercept_, 1.0) <= 1.01e-9
    assert reached <= best * (1 + 1e-6)


class TestStoppingRule:
    """A small gradient is no end while the model predicts a decrease that matters."""

    @pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
    def test_rare_classes(self, l1_ratio):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60_000, 30))
        score = X @ (0.6 * rng.standard_normal(30)) - 9
        y = (score + rng.logistic(size=60_000) > 0).astype(int)
        assert y.mean() < 0.01
        objectives = []
        for tol in (1e-4, 1e-9):
            model = CaLogisticRegression(l1_ratio=l1_ratio, tol=tol, random_state=0)
            model.fit(X, y)
            objectives.append(
                logistic_objective(X, y, model.coef_, model.intercept_, 1.0, l1_ratio)
            )
        assert objectives[0] <= objectives[1] * (1 + 1e-6)

    @pytest.mark.parametrize("shape", [(2000, 100, 4), (3000, 40, 10), (9000, 60, 5)])
    def test_what_classes_have_in_common(self, shape):
        """The loss does not see it: with a weak penalty the gradient is tiny there."""
        n_rows, n_features, n_classes = shape
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, n_features))
        scores = X @ rng.standard_normal((n_features, n_classes))
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        objectives = []
        for tol in (1e-4, 1e-9):
            model = CaLogisticRegression(tol=tol, max_iter=500).fit(X, y)
            assert model.strategy_ == "secant steps"
            np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-6)
            objectives.append(
                logistic_objective(X, y, model.coef_, model.intercept_, 1.0)
            )
        assert objectives[0] <= objectives[1] * (1 + 1e-6)

    @pytest.mark.parametrize("n_features", [5, 200])
    def test_sparse_columns(self, n_features):
        rng = np.random.default_rng(0)
        X = sparse.random_array(
            (20_000, n_features), density=0.01, format="csr", random_state=rng
        )
        y = (X @ (5 * rng.standard_normal(n_features)) + rng.logistic(size=20_000)) > 0
        objectives = []
        for tol in (1e-4, 1e-10):
            model = CaLogisticRegression(tol=tol, random_state=0).fit(X, y)
            objectives.append(
                logistic_objective(X, y.astype(int), model.coef_, model.intercept_, 1.0)
            )
        assert objectives[0] <= objectives[1] * (1 + 1e-6)


def solver_of(evaluations, predictions):
    """A solver that tells of evaluations, and what its model predicts there."""
    for evaluation, predicted in zip(evaluations, predictions, strict=True):
        yield Round(evaluation, predicted=lambda value=predicted: value)


class TestDriver:
    def drive(self, predictions, stop_values, max_iter=10):
        X, y = many_columns("dense", n_rows=50, n_features=2)
        source = ArraySource(X, y)
        zeros = np.zeros((3, 1))
        evaluations = [
            Evaluation(zeros, 1.0, 1.0 - 0.1 * k, zeros, zeros, value, value)
            for k, value in enumerate(stop_values)
        ]
        [result] = drive(
            [solver_of(evaluations, predictions)],
            source,
            tol=1e-4,
            max_iter=max_iter,
        )
        return result

    def test_a_predicted_decrease_asks_for_another_round(self):
        result = self.drive([1e-3, 1e-9, 0.0], [1e-5, 1e-5, 1e-5])
        assert (result.status, len(result.history)) == (Status.CONVERGED, 2)

    def test_the_gradient_decides_where_nothing_is_predicted(self):
        result = self.drive([0.0, 0.0], [1e-3, 1e-5])
        assert (result.status, len(result.history)) == (Status.CONVERGED, 2)

    def test_who_cannot_go_on_has_converged_if_the_gradient_is_small(self):
        result = self.drive([1.0, 1.0, 1.0], [1e-5, 1e-5, 1e-3])
        assert result.status is Status.CONVERGED
        assert result.evaluation.objective == pytest.approx(0.9)

    def test_who_may_not_go_on_has_converged_if_the_gradient_is_small(self):
        result = self.drive([1.0, 1.0, 1.0], [1e-5, 1e-5, 1e-5], max_iter=1)
        assert result.status is Status.CONVERGED
        result = self.drive([1.0, 1.0], [1e-3, 1e-3], max_iter=1)
        assert result.status is Status.MAX_ITER
