"""Atoms: every training and test set is a sum of them."""

import numpy as np
import pytest
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from skcara.data._atoms import fold_batches, most_atoms

N_ROWS = 200


def bootstrap(rng):
    for _ in range(3):
        train = rng.integers(N_ROWS, size=N_ROWS)
        yield train, np.setdiff1d(np.arange(N_ROWS), train)


def masks():
    for first in (0, 50):
        is_test = np.zeros(N_ROWS, dtype=bool)
        is_test[first : first + 70] = True
        yield ~is_test, is_test


SPLITS = {
    "k-fold": KFold(5),
    "shuffled": KFold(7, shuffle=True, random_state=0),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=4, random_state=0),
    "overlapping": ShuffleSplit(8, test_size=0.3, train_size=0.5, random_state=0),
    "time": TimeSeriesSplit(4, gap=3),
    "one out": LeaveOneOut(),
    "predefined": PredefinedSplit(np.arange(N_ROWS) % 4 - 1),
}


def folds_of(name):
    if name == "bootstrap":
        return list(bootstrap(np.random.default_rng(0)))
    if name == "masks":
        return list(masks())
    if name == "negative":
        return [(np.arange(-N_ROWS, -50), np.arange(150, N_ROWS))]
    return list(SPLITS[name].split(np.zeros((N_ROWS, 1))))


@pytest.mark.parametrize("max_atoms", [1, 8, 10**6])
@pytest.mark.parametrize("name", [*SPLITS, "bootstrap", "masks", "negative"])
def test_sums_over_sets_are_sums_of_atoms(name, max_atoms):
    folds = folds_of(name)
    values = np.random.default_rng(1).integers(1000, size=N_ROWS)
    sums = []
    for batch in fold_batches(folds, N_ROWS, max_atoms):
        atoms = np.bincount(batch.labels, values, batch.n_atoms)
        assert np.bincount(batch.labels, minlength=batch.n_atoms).min() > 0
        sums += list(zip(batch.train @ atoms, batch.test @ atoms, strict=True))
    assert sums == [(values[train].sum(), values[test].sum()) for train, test in folds]


def test_k_fold_has_as_many_atoms_as_folds():
    (batch,) = fold_batches(folds_of("shuffled"), N_ROWS, 64)
    assert batch.n_atoms == 7
    assert batch.labels.dtype == np.uint8
    np.testing.assert_array_equal(batch.train + batch.test, 1)


def test_a_batch_has_at_most_as_many_atoms_as_allowed():
    batches = fold_batches(folds_of("overlapping"), N_ROWS, 20)
    assert 1 < len(batches) < 8
    assert all(batch.n_atoms <= 20 for batch in batches)


def test_a_fold_always_has_a_place():
    batches = fold_batches(folds_of("overlapping"), N_ROWS, 1)
    assert [len(batch.train) for batch in batches] == [1] * 8


def test_second_moments_of_the_atoms_are_small_against_the_data():
    n_rows, n_features = 10**6, 100
    size = most_atoms(n_rows, n_features) * n_features**2
    assert size <= 0.15 * n_rows * n_features
