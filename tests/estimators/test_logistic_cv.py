"""Searches of logistic regression, judged by exact fits of the folds."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from twins import needs_recent_twin

from skcara import CaLogisticRegressionCV

CS = np.array([1e-3, 1.0, 1e3])
#: More entries than are solved on all rows from the beginning.
MANY_ROWS = 40_000


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def classification(rng, n_rows=2000, n_features=6, *, kind="plain", n_classes=2):
    """Rows, labels and what is special about them."""
    if n_rows == MANY_ROWS:
        n_features = 30
    X = rng.standard_normal((n_rows, n_features))
    scores = X @ rng.standard_normal((n_features, n_classes)) / np.sqrt(n_features)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    fold = slice(0, n_rows // 5)
    if kind == "offset":
        X = X * 1e-3 + 1e3 * (1 + np.arange(n_features))
    elif kind == "rare column":
        X[:, 1] = rng.random(n_rows) < 20 / n_rows
        X[fold, 2] = rng.random(n_rows // 5) < 0.2
        X[n_rows // 5 :, 2] = 0.0
        X[-3:, 2] = 1.0
    elif kind == "separated in a fold":
        X[:, 1] = rng.random(n_rows) < 0.05
        y[n_rows // 5 :][X[n_rows // 5 :, 1] > 0] = 1
    elif kind == "rare class":
        y[rng.random(n_rows) < 0.97] = 0
    elif kind == "heavy fold":
        X[fold] *= 30
    elif kind == "dependent":
        X[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    return X, y


KINDS = [
    "plain",
    "offset",
    "rare column",
    "separated in a fold",
    "rare class",
    "heavy fold",
    "dependent",
]


def log_loss(X, y, coef, intercept):
    """Mean log loss; as in scikit-learn, no probability is below that of rounding."""
    margins = X @ coef.T + intercept
    if margins.shape[1] == 1:
        losses = np.logaddexp(0, np.where(y > 0, -1, 1) * margins[:, 0])
    else:
        losses = -log_softmax(margins, axis=1)[np.arange(len(y)), y]
    return np.mean(np.minimum(losses, -np.log(np.finfo(float).eps)))


def exact_fit(X, y, C, weights=None):
    """Newton's method of scikit-learn on centred and scaled rows, then in our units.

    A penalty on the coefficients of ``X`` is one on those of the scaled rows if the
    rows are divided by one number only.
    """
    middle, scale = X.mean(axis=0), X.std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(
            C=C * scale**2, solver="newton-cholesky", tol=1e-12, max_iter=1000
        ).fit((X - middle) / scale, y, weights)
    coef = model.coef_ / scale
    return coef, model.intercept_ - coef @ middle


def exact_losses(X, y, splits, Cs=CS):
    """Losses on held-out rows of exact fits, shape (n_folds, n_cs)."""
    losses = []
    for train, test in splits:
        fits = [exact_fit(X[train], y[train], C) for C in Cs]
        losses.append([log_loss(X[test], y[test], *fit) for fit in fits])
    return np.array(losses)


@pytest.mark.parametrize(
    ("kind", "n_rows"),
    [(kind, 2000) for kind in KINDS] + [(kind, MANY_ROWS) for kind in KINDS],
)
def test_scores_are_those_of_exact_fold_fits(kind, n_rows, rng):
    X, y = classification(rng, n_rows, kind=kind)
    splits = list(KFold(5).split(X))[:2]
    search = CaLogisticRegressionCV(Cs=CS, cv=splits, random_state=0).fit(X, y)
    exact = exact_losses(X, y, splits)
    np.testing.assert_allclose(-search.scores_[:, 0], exact, rtol=1e-6)
    means = np.sort(exact.mean(axis=0))
    if means[1] > means[0] * (1 + 2e-6):
        assert search.C_ == CS[exact.mean(axis=0).argmin()]


@pytest.mark.parametrize(
    ("seed", "noise", "middle"), [(0, 0.01, 0.0), (1, 0.01, 0.0), (1, 1.0, 8.0)]
)
def test_scores_of_nearly_separable_classes(seed, noise, middle):
    """Steps that happen to leave the score alone, and gradients that are too coarse.

    Small losses leave little room for errors, and the weights of the rows change a lot
    from step to step. Slow models are judged where their steps are orthogonal to the
    slope of the score; gradients in single precision are systematically wrong.
    """
    n_rows = 120_000
    X = np.random.default_rng(seed).standard_normal((n_rows, 9)) + np.arange(9)
    margins = X @ np.linspace(-1, 1, 9)
    errors = np.random.default_rng(seed + 1).logistic(size=n_rows)
    y = (margins - margins.mean() - middle + noise * errors > 0).astype(int)
    splits = list(KFold(3).split(X))
    exact = exact_losses(X, y, splits, [0.01, 1.0, 100.0])
    for random_state in range(2):
        search = CaLogisticRegressionCV(
            Cs=[0.01, 1.0, 100.0],
            cv=splits,
            tol=1e-5,
            refit=False,
            random_state=random_state,
        ).fit(X, y)
        np.testing.assert_allclose(-search.scores_[:, 0], exact, rtol=1e-6)


def one_hot(rng, n_rows, n_variables, n_levels):
    """Dense dummies of variables with many rare levels, all of which are kept."""
    X = np.zeros((n_rows, n_variables * n_levels))
    for variable in range(n_variables):
        frequency = rng.dirichlet(np.full(n_levels, 0.2))
        levels = rng.choice(n_levels, n_rows, p=frequency)
        X[np.arange(n_rows), variable * n_levels + levels] = 1.0
    score = X @ rng.standard_normal(X.shape[1])
    return X, (rng.logistic(size=n_rows) < score - score.mean()).astype(int)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        # The models of all columns take more memory than the rows of a sample.
        ("gaussian", {}),
        ("one-hot", {}),
        # A sample of a few rows per coordinate, with next to no curvature where rare
        # levels are predicted with near certainty: steps must not go too far.
        ("one-hot", {"Cs": 3, "cv": 3}),
    ],
)
def test_searches_with_few_rows_for_many_columns_converge(kind, options):
    rng = np.random.default_rng(2)
    if kind == "gaussian":
        X, y = classification(rng, 20_000, 150)
    else:
        X, y = one_hot(rng, 30_000, 12, 15)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        search = CaLogisticRegressionCV(random_state=0, **options).fit(X, y)
    assert search.n_passes_ < 60
    # Folds of each class in the order of the rows, as everywhere in scikit-learn.
    splits = list(StratifiedKFold(options.get("cv", 5)).split(X, y))[-1:]
    last = search.Cs_[[0, -1]]
    exact = exact_losses(X, y, splits, last)
    np.testing.assert_allclose(-search.scores_[-1:, 0, [0, -1]], exact, rtol=1e-6)


@pytest.mark.parametrize("n_rows", [2000, MANY_ROWS])
def test_scores_of_several_classes(n_rows, rng):
    X, y = classification(rng, n_rows, n_classes=4)
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    search = CaLogisticRegressionCV(Cs=CS, cv=splits, random_state=0).fit(X, y)
    exact = exact_losses(X, y, splits)
    np.testing.assert_allclose(-search.scores_[:, 0], exact, rtol=1e-6)


@pytest.mark.parametrize("seed", [1, 14, 18, 23])
def test_scores_of_a_class_that_is_rare_in_one_training_set(seed):
    """Hessians of a place between the folds have far too much curvature there."""
    rng, n_rows = np.random.default_rng(seed), 60
    X, y = rng.standard_normal((n_rows, 1)), rng.integers(0, 3, n_rows)
    y[15:][y[15:] == 0], y[20] = 1, 0
    weights = np.where(np.arange(n_rows) == 20, 1e-4, 1.0)
    splits = list(KFold(4).split(X))
    search = CaLogisticRegressionCV(Cs=CS, cv=splits).fit(X, y, sample_weight=weights)
    train, test = splits[0]
    fits = [exact_fit(X[train], y[train], C, weights[train]) for C in CS]
    exact = [log_loss(X[test], y[test], *fit) for fit in fits]
    np.testing.assert_allclose(-search.scores_[0, 0], exact, rtol=1e-6)


@pytest.mark.parametrize("n_rows", [2000, MANY_ROWS])
def test_l1_paths_are_optimal_on_their_training_rows(n_rows, rng):
    """Distance of the gradient to the subdifferential, fold by fold; exact zeros."""
    X, y = classification(rng, n_rows)
    y[rng.random(n_rows) < 0.3] = 0
    splits, C = list(KFold(3).split(X)), np.array([20.0, 2000.0]) / n_rows
    search = CaLogisticRegressionCV(Cs=C, l1_ratios=(1.0,), cv=splits).fit(X, y)
    paths = search.coefs_paths_[:, 0, :, 0]
    assert (paths[:, 0, :-1] == 0).any()
    for (train, _), fits in zip(splits, paths, strict=True):
        for strength, (*coef, intercept) in zip(
            1 / (C * len(train)), fits, strict=True
        ):
            coef = np.array(coef)
            slope = expit(X[train] @ coef + intercept) - y[train]
            gradient = X[train].T @ slope / len(train)
            moving = np.abs(gradient + strength * np.sign(coef))
            at_zero = np.maximum(np.abs(gradient) - strength, 0)
            assert np.where(coef == 0, at_zero, moving).max() <= search.tol
            assert abs(slope.mean()) <= search.tol


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("is_weighted", [False, True])
@needs_recent_twin
def test_the_twin_finds_the_same(options, is_weighted, rng):
    X, y = classification(rng, kind="rare class")
    weights = rng.integers(1, 4, len(y)).astype(float) if is_weighted else None
    options = {"Cs": CS, "cv": KFold(4), "scoring": "neg_log_loss", **options}
    ours = CaLogisticRegressionCV(**options, tol=1e-8).fit(X, y, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin = LogisticRegressionCV(
            **options,
            l1_ratios=(0.0,),
            solver="newton-cholesky",
            tol=1e-10,
            use_legacy_attributes=False,
        ).fit(X, y, weights)
    np.testing.assert_allclose(ours.scores_, twin.scores_, rtol=1e-6)
    np.testing.assert_allclose(ours.coefs_paths_, twin.coefs_paths_, rtol=1e-4)
    np.testing.assert_allclose(ours.coef_, twin.coef_, rtol=1e-4)
    assert ours.C_ == twin.C_


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_brier_score"])
def test_other_scores(scoring, rng):
    X, y = classification(rng)
    cv = StratifiedKFold(3)
    ours = CaLogisticRegressionCV(Cs=CS, cv=cv, scoring=scoring, tol=1e-8).fit(X, y)
    grid = GridSearchCV(
        LogisticRegression(solver="newton-cholesky", tol=1e-10),
        {"C": CS},
        scoring=scoring,
        cv=cv,
    ).fit(X, y)
    expected = [grid.cv_results_[f"split{fold}_test_score"] for fold in range(3)]
    np.testing.assert_allclose(ours.scores_[:, 0], expected, rtol=1e-6)
    assert ours.C_ == grid.best_params_["C"]


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 5.0}])
def test_standardizing_is_a_pipeline_inside_the_folds(class_weight, rng):
    """Its scaler knows nothing of the weights of classes."""
    X, y = classification(rng)
    X = X * 10.0 ** np.arange(-3, 3) + 5
    cv, options = KFold(4), {"class_weight": class_weight}
    ours = CaLogisticRegressionCV(Cs=CS, cv=cv, standardize=True, tol=1e-8, **options)
    ours.fit(X, y)
    estimator = LogisticRegression(solver="newton-cholesky", tol=1e-10, **options)
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), estimator),
        {"logisticregression__C": CS},
        scoring="neg_log_loss",
        cv=cv,
    ).fit(X, y)
    expected = [grid.cv_results_[f"split{fold}_test_score"] for fold in range(4)]
    np.testing.assert_allclose(ours.scores_[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(
        ours.predict_proba(X), grid.predict_proba(X), rtol=1e-5, atol=1e-8
    )


# The score of the outlier itself takes more digits than coefficients have.
@pytest.mark.filterwarnings("ignore:.*scores may be wrong")
def test_folds_that_hold_out_an_outlier_have_their_own_scales(rng):
    X, y = classification(rng, 60, 1)
    X[5] = 1e9
    cv = KFold(3)
    ours = CaLogisticRegressionCV(Cs=CS, cv=cv, standardize=True).fit(X, y)
    [train, _], *_ = cv.split(X)
    for C, coef in zip(CS, ours.coefs_paths_[0, 0, :, 0], strict=True):
        estimator = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10)
        exact = make_pipeline(StandardScaler(), estimator).fit(X[train], y[train])
        expected = exact[-1].coef_[0] / exact[0].scale_
        np.testing.assert_allclose(coef[0], expected, rtol=1e-3)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_standardizing_makes_units_meaningless(as_sparse, rng):
    """Certificates are about standardised features: tiny ones are not done at once."""
    X, y = classification(rng)
    X[rng.random(X.shape) < 0.2] = 0.0
    scale = 2.0 ** np.array([-40, -20, -5, 0, 10, 30])[: X.shape[1]]
    convert = sp.csr_array if as_sparse else np.asarray
    search = CaLogisticRegressionCV(Cs=CS, standardize=True, tol=1e-7)
    model = clone(search).fit(convert(X), y)
    other = clone(search).fit(convert(X * scale), y)
    np.testing.assert_allclose(other.scores_, model.scores_, rtol=1e-6)
    np.testing.assert_allclose(other.coef_ * scale, model.coef_, rtol=1e-4, atol=1e-7)
    Z, codes = (X - X.mean(axis=0)) / X.std(axis=0), y == model.classes_[1]
    residual = other.predict_proba(convert(X * scale))[:, 1] - codes
    slope = residual @ Z / len(y) + other.coef_[0] * scale * X.std(axis=0) / (
        other.C_ * len(y)
    )
    assert other.optimality_ <= 1e-7
    violation = max(np.abs(slope).max(), abs(residual.mean()))
    assert violation == pytest.approx(other.optimality_, abs=1e-12)


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_scores_of_sparse_rows_far_from_zero():
    """Their columns are nearly the intercept, and steps of models much too short.

    With some seeds that is too much, and a warning says so.
    """
    rng = np.random.default_rng(0)
    X, _ = classification(rng, 40, 2)
    y = X @ [1.0, -1.0] + 1.5 * rng.standard_normal(40) > 0.5
    X = X * [2e-5, 3e-4] + [-104.0, 28.0]
    search = CaLogisticRegressionCV(Cs=[100.0], l1_ratios=(1.0,), standardize=True)
    dense, sparse = clone(search).fit(X, y), clone(search).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.scores_, dense.scores_, rtol=2e-6)


def test_standardizing_without_an_intercept_is_refused(rng):
    X, y = classification(rng)
    search = CaLogisticRegressionCV(standardize=True, fit_intercept=False)
    with pytest.raises(ValueError, match="use fit_intercept=True, or a scaler"):
        search.fit(X, y)


def test_folds_that_overlap(rng):
    X, y = classification(rng)
    splits = list(ShuffleSplit(6, test_size=0.3, random_state=0).split(X))
    search = CaLogisticRegressionCV(Cs=CS, cv=splits).fit(X, y)
    np.testing.assert_allclose(
        -search.scores_[:, 0], exact_losses(X, y, splits), rtol=1e-6
    )


def test_sparse_rows_give_the_same_search(rng):
    X, y = classification(rng)
    X[rng.random(X.shape) < 0.7] = 0.0
    dense = CaLogisticRegressionCV(Cs=CS, cv=3).fit(X, y)
    sparse = CaLogisticRegressionCV(Cs=CS, cv=3).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(dense.scores_, sparse.scores_, rtol=1e-6)
    assert dense.C_ == sparse.C_


def test_without_a_final_fit(rng):
    X, y = classification(rng)
    search = CaLogisticRegressionCV(Cs=CS, cv=3, refit=False).fit(X, y)
    best = search.scores_[:, 0].argmax(axis=1)
    expected = np.mean(search.coefs_paths_[np.arange(3), 0, best, 0], axis=0)
    np.testing.assert_allclose(search.coef_[0], expected[:-1])
    np.testing.assert_allclose(search.intercept_, expected[-1:])


def test_one_warning_counts_what_failed(rng):
    X, y = classification(rng, MANY_ROWS)
    search = CaLogisticRegressionCV(Cs=CS, cv=3, tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="of 9 fits violate") as caught:
        search.fit(X, y)
    assert len(caught) == 1
