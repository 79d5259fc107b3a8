"""Fits of several targets share their reads of the data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import regression
from sklearn.base import clone

from skcara import CaLasso, CaLeastSquares
from skcara.data import ArraySource

N_TARGETS = 20


@pytest.fixture
def reads(monkeypatch):
    """Number of tasks of every read of any source."""
    counted, run = [], ArraySource.run

    def counting_run(self, tasks):
        counted.append(len(tasks))
        return run(self, tasks)

    monkeypatch.setattr(ArraySource, "run", counting_run)
    return counted


def targets_for(X, y, seed=0):
    """Targets of different difficulty: scales, noise, and one that is constant."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((len(y), N_TARGETS)) * np.linspace(0.1, 5, N_TARGETS)
    targets = np.linspace(-2, 2, N_TARGETS) * y[:, None] + noise
    targets[:, 3] = 7.0
    return targets


@pytest.mark.parametrize("solver", ["auto", "cabcd", "cagd"])
@pytest.mark.parametrize("model", [CaLeastSquares(), CaLasso(0.1)], ids=str)
def test_all_targets_are_read_as_often_as_the_hardest_one(model, solver, reads):
    X, y = regression(n_rows=3000)
    targets = targets_for(X, y)
    # The draws of a target depend on its place: both fits are near the optimum, not
    # near each other.
    model = clone(model).set_params(solver=solver, max_iter=3000, tol=1e-7)
    singles, n_reads = [], []
    for target in targets.T:
        reads.clear()
        singles.append(clone(model).fit(X, target))
        n_reads.append(len(reads))
    reads.clear()
    model.fit(X, targets)
    assert len(reads) <= max(n_reads) + 1
    for number, single in enumerate(singles):
        assert_allclose(model.coef_[number], single.coef_, rtol=1e-3, atol=1e-3)
        assert model.history_[number].dtype.names[-1] == "criterion"
    assert len(model.strategy_) == len(model.n_passes_) == N_TARGETS
    assert len(model.history_) == len(model.n_iter_) == N_TARGETS


@pytest.mark.parametrize("model", [CaLeastSquares(), CaLasso(0.1)], ids=str)
def test_many_targets_share_one_gram_matrix(model, reads):
    """The squared loss needs one read for any number of targets."""
    X, y = regression(n_rows=5000)
    targets = targets_for(X, y)
    targets[:, 3] = y
    clone(model).fit(X, targets[:, :1])
    single = list(reads)
    reads.clear()
    fitted = clone(model).fit(X, targets)
    assert single == [1]
    assert reads == [1], "one read, one task"
    assert fitted.n_passes_ == [1.0] * N_TARGETS


def test_targets_with_weights_share_reads_too(reads):
    X, y = regression(n_rows=5000)
    targets = targets_for(X, y)
    weights = np.random.default_rng(0).random(len(y))
    model = CaLasso(0.1, tol=1e-8).fit(X, targets, sample_weight=weights)
    assert len(reads) <= 2
    for number in (0, 7, 19):
        single = CaLasso(0.1, tol=1e-8).fit(X, targets[:, number], weights)
        assert_allclose(model.coef_[number], single.coef_, rtol=1e-6, atol=1e-8)
