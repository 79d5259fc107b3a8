"""Reads of a search over folds: precision, and one column for several."""

from types import SimpleNamespace

import numpy as np
import pytest

from skcara import CaLogisticRegressionCV
from skcara.data import ArraySource, Coordinates, FoldSets
from skcara.data._atoms import fold_batches
from skcara.objective import LogisticLoss, MultinomialLoss, SeparablePenalty
from skcara.passes import EvaluateFolds
from skcara.solvers.paths import _fold_newton, _fold_reads
from skcara.solvers.paths._fold_sample import FoldSample


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def folds_of(n_rows, n_folds=3):
    parts = np.array_split(np.arange(n_rows), n_folds)
    folds = [(np.setdiff1d(np.arange(n_rows), part), part) for part in parts]
    [batch] = fold_batches(folds, n_rows, 32)
    return batch


def loss_of(n_classes):
    return LogisticLoss() if n_classes == 2 else MultinomialLoss(n_classes)


def evaluate(rng, coordinates, X, n_classes, *, is_single):
    batch, loss = folds_of(len(X)), loss_of(n_classes)
    y = np.arange(len(X)) % n_classes
    shape = (6, coordinates.n_params, loss.n_outputs)
    params = np.random.default_rng(1).standard_normal(shape)
    source = ArraySource(X, y, None, atom=batch.labels)
    task = EvaluateFolds(
        coordinates,
        loss,
        FoldSets([batch]),
        params,
        np.arange(6) % 3,
        is_single=is_single,
    )
    [answer] = source.run([task])
    return answer.gradients / (len(X) * 2 / 3)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("offset", "size", "fit_intercept"),
    [(0.0, 1.0, True), (0.5, 30.0, True), (1e5, 1.0, True), (0.0, 1e30, False)],
)
def test_sums_in_single_precision_are_those_in_double(
    rng, n_classes, offset, size, fit_intercept
):
    """Whether rows are used as they are, or shifted and scaled before."""
    X = size * (rng.standard_normal((4000, 4)) + offset)
    shift = X.mean(axis=0) if fit_intercept else np.zeros(4)
    coordinates = Coordinates(shift, np.full(4, size), fit_intercept)
    single = evaluate(rng, coordinates, X, n_classes, is_single=True)
    double = evaluate(rng, coordinates, X, n_classes, is_single=False)
    assert 0 < np.abs(single - double).max() < 1e-6


def test_slopes_of_several_classes_sum_to_zero_in_single_precision(rng):
    """Nothing but a weak penalty would hold what they have in common."""
    X = rng.standard_normal((4000, 4))
    coordinates = Coordinates(np.zeros(4), np.ones(4), True)
    gradients = evaluate(rng, coordinates, X, 3, is_single=True)
    assert np.abs(gradients.sum(axis=2)).max() < 1e-15


def test_a_constant_added_to_all_classes_is_no_change(rng):
    batch, loss = folds_of(90), loss_of(3)
    rows, y = rng.standard_normal((90, 4)), np.arange(90) % 3
    sample = FoldSample(
        rows, y, np.full(90, 1 / 90), batch.labels, FoldSets([batch]), loss
    )
    move = np.repeat(rng.standard_normal((1, 4, 1)), 3, axis=2)
    assert sample.reach(move, sample.weights[:1])[0] < 1e-12
    assert sample.reach(move * [1.0, 0.0, 0.0], sample.weights[:1])[0] > 0.1


def classes(rng, n_rows, n_classes):
    X = rng.standard_normal((n_rows, 5))
    scores = X @ rng.standard_normal((5, n_classes))
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def test_samples_of_several_classes_are_minimised_in_few_steps(rng, monkeypatch):
    n_steps, search_lines = [], _fold_newton._search_lines

    def counted(*arguments):
        n_steps.append(1)
        return search_lines(*arguments)

    monkeypatch.setattr(_fold_newton, "_search_lines", counted)
    X, y = classes(rng, 250_000, 3)
    search = CaLogisticRegressionCV(Cs=5, cv=3, refit=False, random_state=0).fit(X, y)
    assert search.n_passes_ < 9
    # Two or three for a penalty, on the sample and after the first read.
    assert len(n_steps) < 8 * 5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_that_are_nearly_the_same_are_read_once(rng, monkeypatch, n_classes):
    """The last read is of all of them, each at its own point."""
    reads = []

    class Counted(EvaluateFolds):
        def __init__(self, coordinates, loss, sets, params, *others):
            super().__init__(coordinates, loss, sets, params, *others)
            reads.append((len(params), self.with_test))

    monkeypatch.setattr(_fold_reads, "EvaluateFolds", Counted)
    X, y = classes(rng, 250_000, n_classes)
    search = CaLogisticRegressionCV(
        Cs=[10.0, 100.0, 1e3, 1e4], cv=3, refit=False, random_state=0
    ).fit(X, y)
    n_columns, has_test = reads[0]
    assert n_columns <= 6
    assert not has_test
    assert (12, True) in reads
    assert search.n_passes_ < 9


def test_gradients_that_follow_from_another_are_those_of_the_loss(rng):
    """Exact for a quadratic loss, whose models have the penalty on top."""
    root, l2 = rng.standard_normal((9, 4)), 0.3 * np.ones((4, 1))
    hessian = root.T @ root
    penalty = SeparablePenalty(0 * l2, l2, l2 < 0)
    columns = [
        SimpleNamespace(
            fold=0,
            params=rng.standard_normal((4, 1)),
            model=SimpleNamespace(matrix=hessian + np.diag(l2[:, 0])),
            problem=SimpleNamespace(penalty=penalty, n_outputs=1),
        )
        for _ in range(3)
    ]
    exact = [hessian @ column.params for column in columns]
    found = _fold_reads._followers(columns, columns[1:2], exact[1:2])
    for expected, (_, gradient) in zip(exact, found, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-10)
