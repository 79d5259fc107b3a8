"""The folds of a search: any ``cv`` of scikit-learn, metadata by routing alone."""

import numpy as np
import pytest
from fold_problems import regression
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.linear_model import LassoCV
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from twins import twin_grid

from skcara import CaLassoCV
from skcara.data import FoldBatch, fold_batches
from skcara.estimators._partitions import partition_labels


@pytest.fixture
def problem(global_random_seed):
    return regression(np.random.default_rng(global_random_seed), 200, 5)


def overlapping_sets():
    rng = np.random.default_rng(0)
    return [(rng.choice(200, 150), rng.choice(200, 60)) for _ in range(4)]


def masks():
    rows = np.arange(200)
    return [(rows % 3 != k, rows % 3 == k) for k in range(3)]


SPLITTERS = {
    "none": None,
    "number": 4,
    "shuffled": KFold(3, shuffle=True, random_state=0),
    "repeated": RepeatedKFold(n_splits=4, n_repeats=3, random_state=0),
    "random": ShuffleSplit(12, random_state=0),
    "leave one out": LeaveOneOut(),
    "time series": TimeSeriesSplit(4),
    "predefined": PredefinedSplit(np.arange(200) % 5 - 1),
    "overlapping, with repeated rows": overlapping_sets(),
    "masks": masks(),
    "one fold": [(np.arange(150), np.arange(150, 200))],
}


@pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS)
def test_folds_are_those_of_the_twin(cv, problem):
    X, y = problem
    found = CaLassoCV(cv=cv, alphas=20).fit(X, y)
    wanted = LassoCV(cv=cv, **twin_grid(20), tol=1e-12, max_iter=10**5).fit(X, y)
    assert_allclose(found.alphas_, wanted.alphas_)
    assert_allclose(np.squeeze(found.mse_path_), wanted.mse_path_, rtol=1e-6)
    assert found.alpha_ == pytest.approx(wanted.alpha_)
    # A single row may be predicted so well that only its residual shows how well.
    assert found.n_passes_ == 1 or isinstance(cv, LeaveOneOut)


def test_an_iterator_is_used_once(problem):
    X, y = problem
    folds = list(KFold(3).split(X))
    with config_context(enable_metadata_routing=True):
        found = CaLassoCV(cv=iter(folds)).fit(X, y)
    wanted = CaLassoCV(cv=3).fit(X, y)
    assert_allclose(found.mse_path_, wanted.mse_path_, rtol=1e-12)


def test_groups_are_routed_to_the_splitter(problem):
    X, y = problem
    groups = np.random.default_rng(0).integers(0, 6, len(y))
    folds = list(GroupKFold(3).split(X, y, groups))
    wanted = CaLassoCV(cv=folds).fit(X, y)
    with config_context(enable_metadata_routing=True):
        found = CaLassoCV(cv=GroupKFold(3)).fit(X, y, groups=groups)
        steps = make_pipeline(StandardScaler(), CaLassoCV(cv=GroupKFold(3)))
        steps.fit(X, y, groups=groups)
    assert_allclose(found.mse_path_, wanted.mse_path_, rtol=1e-12)
    assert steps[-1].mse_path_.shape == (100, 3)


def test_metadata_that_nobody_takes_are_refused(problem):
    X, y = problem
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        CaLassoCV(cv=GroupKFold(3)).fit(X, y, groups=np.arange(len(y)))
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(TypeError, match="groups"),
    ):
        CaLassoCV(cv=3).fit(X, y, groups=np.arange(len(y)))


def test_sample_weight_is_taken_by_the_search(problem):
    X, y = problem
    weights = np.random.default_rng(0).random(len(y))
    wanted = CaLassoCV().fit(X, y, weights)
    with config_context(enable_metadata_routing=True):
        found = CaLassoCV().set_fit_request(sample_weight=True)
        found.fit(X, y, sample_weight=weights)
    assert_array_equal(found.mse_path_, wanted.mse_path_)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "yields no folds"),
        ([(np.arange(9), [])], "Fold 0 has no test rows"),
        ([([], np.arange(9))], "Fold 0 has no training rows"),
    ],
)
def test_folds_without_rows(cv, message, problem):
    with pytest.raises(ValueError, match=message):
        CaLassoCV(cv=cv).fit(*problem)


def test_folds_without_weight(problem):
    X, y = problem
    weights = np.repeat([1.0, 0.0], [120, 80])
    with pytest.raises(ValueError, match="Fold 3 has no test rows of positive"):
        CaLassoCV().fit(X, y, weights)


@pytest.mark.parametrize("n_folds", [2, 5, 300])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_partition_has_the_atoms_of_its_splits(n_folds, shuffle):
    X = np.empty((1003, 1))
    splitter = KFold(n_folds, shuffle=shuffle, random_state=0 if shuffle else None)
    found = FoldBatch.of_partition(partition_labels(splitter, len(X), None), n_folds)
    (wanted,) = fold_batches(splitter.split(X), len(X), n_folds)
    for counts in ("train", "test"):
        rows = getattr(found, counts)[:, found.labels[:]]
        assert_array_equal(rows, getattr(wanted, counts)[:, wanted.labels])


@pytest.mark.parametrize("n_folds", [2, 5, 7])
@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("order", ["mixed", "sorted", "reversed"])
def test_stratified_folds_are_those_of_scikit_learn(
    n_folds, n_classes, order, global_random_seed
):
    # More rows than are looked at together.
    rng = np.random.default_rng(global_random_seed)
    codes = rng.integers(n_classes, size=70_001) ** 2 // n_classes
    _, codes = np.unique(codes, return_inverse=True)
    if order != "mixed":
        codes = np.sort(codes)[:: 1 if order == "sorted" else -1]
    splitter = StratifiedKFold(n_folds)
    labels = partition_labels(splitter, len(codes), codes.astype(np.int8))
    for fold, (_, test) in enumerate(splitter.split(codes, codes)):
        assert_array_equal(np.flatnonzero(labels == fold), test)


def test_only_plain_folds_are_partitions():
    class EveryOther(KFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y, groups):
                yield train[::2], test

    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
    for splitter in (
        EveryOther(3),
        RepeatedKFold(),
        KFold(10),
        StratifiedKFold(2, shuffle=True),
        # One row of the last class: scikit-learn warns of it.
        StratifiedKFold(2),
    ):
        assert partition_labels(splitter, 9, codes) is None
