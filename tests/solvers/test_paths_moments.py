"""Second moments by atom: what they are, and that their error bounds are theorems."""

from fractions import Fraction

import numpy as np
import pytest
from fold_problems import KINDS, read, regression
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit

from skcara.data import ArraySource
from skcara.data._atoms import fold_batches
from skcara.solvers.paths._atom_sums import AtomSums, choose_shift


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def atoms_of(X, y, weights, batches, shift, atom_shifts=None):
    labels = np.column_stack([batch.labels for batch in batches])
    task = AtomSums(tuple(batch.n_atoms for batch in batches), shift, atom_shifts)
    return read(task, X, y, weights, labels)


def exact_moments(rows, weights):
    """Weight, mean and scatter in rational arithmetic."""
    columns = [[Fraction(value) for value in column] for column in rows.T.tolist()]
    weights = [Fraction(weight) for weight in weights.tolist()]
    total = sum(weights)
    means = [
        sum(w * z for w, z in zip(weights, column, strict=True)) / total
        for column in columns
    ]
    centred = [
        [z - mean for z in column] for column, mean in zip(columns, means, strict=True)
    ]
    weighted = [[w * z for w, z in zip(weights, c, strict=True)] for c in centred]
    scatter = [
        [sum(a * b for a, b in zip(left, right, strict=True)) for right in centred]
        for left in weighted
    ]
    return total, means, scatter


def assert_within_bounds(moments, origin, rows, weights):
    total, means, scatter = exact_moments(rows, weights)
    assert moments.weight == pytest.approx(float(total), rel=1e-14)
    for column, mean in enumerate(means):
        error = Fraction(origin[column]) + Fraction(moments.mean[column]) - mean
        assert abs(error) <= moments.mean_error[column]
        for other in range(len(means)):
            error = Fraction(moments.scatter[column, other]) - scatter[column][other]
            spreads = moments.spread[column] * moments.spread[other]
            assert abs(error) <= moments.precision * np.sqrt(spreads)


@pytest.mark.parametrize("has_own_shifts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_moments_are_below_their_bounds(kind, has_own_shifts, rng):
    X, y = regression(rng, 80, 5, kind=kind)
    weights = rng.random(len(y))
    folds = [
        (np.arange(40), np.arange(40, 80)),
        (np.arange(0, 80, 2), np.arange(1, 80, 2)),
    ]
    (batch,) = fold_batches(folds, len(y), 64)
    rows = np.column_stack([X, y])
    shift, own = rows[0], None
    if has_own_shifts:
        own = (np.stack([rows[batch.labels == a].mean(0) for a in range(4)]),)
    (atoms,) = atoms_of(X, y, weights, [batch], shift, own)
    for counts, members in zip(batch.train, [train for train, _ in folds], strict=True):
        assert_within_bounds(
            atoms.combine(counts), shift, rows[members], weights[members]
        )


def test_own_shifts_are_as_accurate_as_the_rows(rng):
    X, y = regression(rng, 400, 5, kind="levels")
    folds = [(np.arange(200), np.arange(200, 400))]
    (batch,) = fold_batches(folds, len(y), 64)
    rows = np.column_stack([X, y])
    own = (np.stack([rows[batch.labels == a].mean(axis=0) for a in range(2)]),)
    # The first row is a million standard deviations away from the test rows.
    (common,) = atoms_of(X, y, None, [batch], rows[0])
    (refined,) = atoms_of(X, y, None, [batch], rows[0], own)
    centred = rows[200:] - rows[200:].mean(axis=0)
    wanted = centred.T @ centred
    errors = [
        np.abs(atoms.combine(batch.test[0]).scatter - wanted).max() / wanted.max()
        for atoms in (common, refined)
    ]
    assert errors[0] > 1e-6
    assert errors[1] < 1e-13


def test_constant_columns_have_no_scatter(rng):
    X, y = regression(rng, kind="constant")
    (batch,) = fold_batches(KFold(5).split(X), len(y), 64)
    (atoms,) = atoms_of(X, y, rng.random(len(y)), [batch], np.zeros(7))
    for counts in batch.train:
        assert not atoms.combine(counts).scatter[1].any()
        assert not atoms.combine(counts).scatter[:, 1].any()


def test_a_heavy_fold_leaves_the_others_their_digits(rng):
    X, y = regression(rng, 500, 5, kind="heavy fold")
    folds = list(KFold(5).split(X))
    (batch,) = fold_batches(folds, len(y), 64)
    rows = np.column_stack([X, y])
    (atoms,) = atoms_of(X, y, None, [batch], np.zeros(6))
    train = rows[folds[0][0]] - rows[folds[0][0]].mean(axis=0)
    scatter = atoms.combine(batch.train[0]).scatter
    np.testing.assert_allclose(scatter, train.T @ train, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("density", [0.02, 0.5])
def test_sparse_rows_have_the_same_moments(density, rng):
    X = sparse.random_array((400, 30), density=density, format="csr", random_state=rng)
    y, weights = rng.standard_normal((400, 2)), rng.random(400)
    batches = fold_batches(ShuffleSplit(4, random_state=0).split(y), 400, 8)
    assert len(batches) > 1
    shift = np.append(np.zeros(30), [1.0, 2.0])
    found = atoms_of(X, y, weights, batches, shift)
    wanted = atoms_of(X.toarray(), y, weights, batches, shift)
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left.mean, right.mean, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(left.scatter, right.scatter, rtol=1e-12, atol=1e-12)


def test_single_precision_rows_are_summed_in_double(rng):
    X, y = regression(rng, 1000, 5)
    X = (X + 100).astype(np.float32)
    (batch,) = fold_batches(KFold(5).split(X), len(y), 64)
    shift = np.append(X[0], y[0]).astype(np.float64)
    (found,) = atoms_of(X, y, None, [batch], shift)
    (wanted,) = atoms_of(X.astype(np.float64), y, None, [batch], shift)
    np.testing.assert_array_equal(found.scatter, wanted.scatter)


def test_rows_of_weight_zero_do_not_count(rng):
    X, y = regression(rng, 200, 5)
    weights = rng.integers(0, 3, 200).astype(float)
    (batch,) = fold_batches(KFold(4).split(X), 200, 64)
    copies = np.repeat(np.arange(200), weights.astype(int))
    labels = batch.labels[copies]
    shift = np.zeros(6)
    (found,) = atoms_of(X, y, weights, [batch], shift)
    (wanted,) = read(AtomSums((4,), shift), X[copies], y[copies], None, labels)
    np.testing.assert_allclose(found.weight, wanted.weight)
    np.testing.assert_allclose(found.scatter, wanted.scatter, rtol=1e-12, atol=1e-12)


def test_rows_near_zero_are_not_shifted(rng):
    X, y = regression(rng)
    np.testing.assert_array_equal(choose_shift(X + 1, y)[:6], 0.0)


def test_only_rows_with_few_entries_are_kept_sparse(rng):
    X, y = regression(rng)
    full, few = X + 1e6, np.where(rng.random(X.shape) < 0.02, X + 1e6, 0.0)
    np.testing.assert_array_equal(choose_shift(sparse.csr_array(few), y)[:6], 0.0)
    shift = choose_shift(sparse.csr_array(full), y)
    np.testing.assert_array_equal(shift, choose_shift(full, y))


def test_an_outlier_is_no_shift(rng):
    X, y = regression(rng, kind="offset")
    X[0] = 1e12
    shift = choose_shift(X[::10], y[::10])
    np.testing.assert_allclose(shift[:6], np.median(X, axis=0), rtol=1e-5)


def test_a_constant_column_is_shifted_to_zero(rng):
    X, y = regression(rng, kind="constant")
    assert choose_shift(X, y)[1] == X[0, 1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_source_reads_once_for_all_batches(n_jobs, rng):
    X, y = regression(rng, 40_000, 5)
    batches = fold_batches(ShuffleSplit(5, random_state=0).split(X), len(y), 8)
    labels = np.column_stack([batch.labels for batch in batches])
    source = ArraySource(X, y, atom=labels, n_jobs=n_jobs)
    task = AtomSums(tuple(batch.n_atoms for batch in batches), choose_shift(X, y))
    (found,) = source.run([task])
    wanted = read(task, X, y, None, labels, 10**6)
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left.scatter, right.scatter, rtol=1e-11, atol=1e-9)
