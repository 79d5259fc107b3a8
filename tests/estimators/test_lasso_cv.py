"""CaLassoCV: scores of exact fold fits, the choice of the twins, certificates."""

import warnings

import numpy as np
import pandas as pd
import pytest
from certificates import lasso_dual_gap, squared_objective, squared_violation
from fold_problems import KINDS, fit_path, regression
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import ElasticNetCV, Lasso, LassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from twins import needs_recent_twin, twin_grid

from skcara import CaLasso, CaLassoCV
from skcara._sklearn_compat import HAS_CALLBACKS


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def exact_errors(X, y, folds, alphas, l1_ratio, weights=None, **options):
    """Errors of separate fits, residual by residual, shape (n_alphas, n_folds)."""
    scores = []
    for train, test in folds:
        fold_weights = None if weights is None else weights[train]
        coefs, x_mean, y_mean = fit_path(
            X[train], y[train], alphas, l1_ratio, fold_weights, **options
        )
        residuals = (y[test] - y_mean)[:, None] - (X[test] - x_mean) @ coefs
        test_weights = None if weights is None else weights[test]
        scores.append(np.average(residuals**2, axis=0, weights=test_weights))
    return np.transpose(scores)


def assert_same_search(model, wanted):
    """Scores within 1e-6, and the same choice unless two are that close."""
    assert_allclose(model.mse_path_, wanted, rtol=1e-6)
    best = wanted.mean(axis=1).min()
    chosen = wanted.mean(axis=1)[np.argmin(np.abs(model.alphas_ - model.alpha_))]
    assert chosen <= best * (1 + 1e-6)


# ---- scores and choice -----------------------------------------------------------


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "levels"])
def test_scores_are_those_of_exact_fold_fits(kind, l1_ratio, rng):
    X, y = regression(rng, kind=kind)
    model = CaLassoCV(l1_ratio=l1_ratio, alphas=15).fit(X, y)
    folds = KFold(5).split(X)
    assert_same_search(model, exact_errors(X, y, folds, model.alphas_, l1_ratio))
    is_hard = kind == "dependent" and l1_ratio == 0
    assert model.n_passes_ == (2 if is_hard else 1)


@pytest.mark.filterwarnings("ignore:CaLassoCV did not reach its accuracy")
def test_levels_far_apart_take_a_second_read(rng):
    """The bounds on the gaps are not good here, the scores are."""
    X, y = regression(rng, kind="levels")
    folds = list(KFold(2).split(X))
    model = CaLassoCV(l1_ratio=0.0, alphas=10, cv=2).fit(X, y)
    assert_same_search(model, exact_errors(X, y, folds, model.alphas_, 0.0))
    assert model.n_passes_ == 2


def test_monomials_of_correlated_columns(rng):
    """As the household data: conditions of 1e8 and more."""
    X = 3 + rng.random((4000, 3))
    y = np.log(X.sum(axis=1)) + 0.01 * rng.standard_normal(4000)
    X = PolynomialFeatures(4, include_bias=False).fit_transform(X)
    X = StandardScaler().fit_transform(X)
    assert np.linalg.cond(X) > 1e5
    for l1_ratio in (1.0, 0.0):
        alphas = [1e-3, 1e-2] if l1_ratio else [1e-12, 1e-9, 1e-6, 1e-2]
        model = CaLassoCV(l1_ratio=l1_ratio, alphas=alphas, cv=3).fit(X, y)
        folds = KFold(3).split(X)
        assert_same_search(model, exact_errors(X, y, folds, model.alphas_, l1_ratio))


def test_targets_that_are_linear_are_scored_by_their_residuals(rng):
    X, _ = regression(rng, 2000, 6)
    y = X @ np.arange(6.0)
    model = CaLassoCV(eps=1e-6, alphas=8).fit(X, y)
    wanted = exact_errors(X, y, KFold(5).split(X), model.alphas_, 1.0)
    assert model.mse_path_.min() < 1e-9 * np.var(y)
    assert_same_search(model, wanted)
    assert model.n_passes_ == 2


def test_exact_fits_are_no_failure(rng):
    X = rng.standard_normal((500, 4))
    model = CaLassoCV(alphas=[0.0, 1e-3]).fit(X, X @ [1.0, 2.0, 3.0, 4.0] + 5)
    assert model.alpha_ == 0.0
    assert_allclose(model.coef_, [1.0, 2.0, 3.0, 4.0], rtol=1e-10)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@needs_recent_twin
def test_the_twin_chooses_the_same(fit_intercept, positive, is_weighted, rng):
    X, y = regression(rng, 400, 8)
    X, y = X + 1, y + 2
    weights = rng.random(400) if is_weighted else None
    options = {"fit_intercept": fit_intercept, "positive": positive}
    twin = LassoCV(tol=1e-12, max_iter=10**5, **twin_grid(30), **options)
    twin.fit(X, y, weights)
    model = CaLassoCV(alphas=30, **options).fit(X, y, weights)
    assert_allclose(model.alphas_, twin.alphas_)
    assert_allclose(model.mse_path_, twin.mse_path_, rtol=1e-8)
    assert model.alpha_ == pytest.approx(twin.alpha_)
    assert_allclose(model.coef_, twin.coef_, atol=1e-8)
    assert_array_equal(model.coef_ == 0, twin.coef_ == 0)
    assert model.intercept_ == pytest.approx(twin.intercept_, abs=1e-8)
    assert_allclose(model.predict(X), twin.predict(X))
    assert model.score(X, y) == pytest.approx(twin.score(X, y))


@pytest.mark.parametrize("alphas", [12, [0.5, 0.1, 0.3]])
def test_several_ratios(alphas, rng):
    X, y = regression(rng)
    ratios = [0.2, 0.7, 1.0]
    twin = ElasticNetCV(l1_ratio=ratios, **twin_grid(alphas), tol=1e-12, max_iter=10**5)
    twin.fit(X, y)
    model = CaLassoCV(l1_ratio=ratios, alphas=alphas).fit(X, y)
    assert_allclose(model.alphas_, twin.alphas_)
    assert_allclose(model.mse_path_, twin.mse_path_, rtol=1e-8)
    assert model.l1_ratio_ == twin.l1_ratio_
    assert model.alpha_ == pytest.approx(twin.alpha_)
    assert_allclose(model.coef_, twin.coef_, atol=1e-8)
    assert model.n_passes_ == 1


def test_ridge_is_that_of_the_twin(rng):
    """The twin's penalty is a sum, hence it depends on the size of the training set."""
    X, y = regression(rng, 500, 6)
    alphas = np.geomspace(1.0, 1e-4, 9)
    twin = RidgeCV(alphas=alphas * 400, cv=5, scoring="neg_mean_squared_error")
    twin.fit(X, y)
    model = CaLassoCV(l1_ratio=0.0, alphas=alphas).fit(X, y)
    assert model.alpha_ == pytest.approx(twin.alpha_ / 400)
    assert -model.mse_path_.mean(axis=1).min() == pytest.approx(twin.best_score_)


def test_grid_of_the_ridge_begins_at_a_thousandth_of_the_coefficients(rng):
    X, y = regression(rng)
    model = CaLassoCV(l1_ratio=0.0, alphas=5, eps=1e-8).fit(X, y)
    first = CaLasso(model.alphas_[0], l1_ratio=0.0, tol=1e-12).fit(X, y)
    free = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    norms = np.linalg.norm(first.coef_), np.linalg.norm(free)
    assert norms[0] == pytest.approx(1e-3 * norms[1], rel=1e-4)


# ---- standardizing ---------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_standardizing_is_a_pipeline_inside_the_folds(fit_intercept, rng):
    X, y = regression(rng, 300, 6, kind="scales")
    X, y = X + rng.standard_normal(6), y + 3
    alphas = np.geomspace(1.0, 1e-3, 7)
    lasso = Lasso(tol=1e-13, max_iter=10**5, fit_intercept=fit_intercept)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), lasso),
        {"lasso__alpha": alphas},
        cv=KFold(4, shuffle=True, random_state=0),
        scoring="neg_mean_squared_error",
    ).fit(X, y)
    model = CaLassoCV(
        alphas=alphas,
        cv=KFold(4, shuffle=True, random_state=0),
        fit_intercept=fit_intercept,
        standardize=True,
    ).fit(X, y)
    for fold in range(4):
        wanted = -search.cv_results_[f"split{fold}_test_score"]
        assert_allclose(model.mse_path_[:, fold], wanted, rtol=1e-9)
    assert model.alpha_ == pytest.approx(search.best_params_["lasso__alpha"])
    assert_allclose(model.predict(X), search.predict(X), rtol=1e-8, atol=1e-9)


def test_standardizing_makes_units_meaningless(rng):
    X, y = regression(rng)
    scale = 10.0 ** np.arange(-3, 3)
    model = CaLassoCV(standardize=True).fit(X, y)
    other = CaLassoCV(standardize=True).fit(X * scale, y)
    assert_allclose(other.mse_path_, model.mse_path_)
    assert_allclose(other.coef_ * scale, model.coef_, rtol=1e-8)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_means_of_standardised_features_are_not_rounded_like_the_target(l1_ratio, rng):
    """Without an intercept its rounding would cost the mean of the target."""
    X, y = regression(rng)
    X, y = X + 0.3, y + 1e3
    model = CaLassoCV(l1_ratio=l1_ratio, fit_intercept=False, standardize=True)
    model.fit(X, y)
    mean, eps = X.astype(np.longdouble).mean(axis=0), np.finfo(float).eps
    wrong = np.abs(model.intercept_ + model.coef_ @ mean)
    assert wrong <= 16 * eps * (np.abs(model.coef_) @ np.abs(mean))
    residual = y - model.predict(X)
    assert residual.mean() * wrong <= model.dual_gap_ <= 1e-9 * np.mean(y**2)


# ---- certificates ----------------------------------------------------------------


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_certificates_hold_on_all_rows(l1_ratio, is_weighted, rng):
    X, y = regression(rng)
    X = X + 5
    weights = rng.random(len(y)) if is_weighted else None
    model = CaLassoCV(l1_ratio=l1_ratio).fit(X, y, weights)
    point = X, y, model.coef_, model.intercept_
    l1, l2 = model.alpha_ * l1_ratio, model.alpha_ * (1 - l1_ratio)
    objective = squared_objective(*point, l1, l2, weights)
    assert model.objective_ == pytest.approx(objective, rel=1e-10)
    violation = squared_violation(*point, l1, l2, sample_weight=weights)
    assert violation <= model.optimality_ + 1e-14
    assert lasso_dual_gap(*point, l1, l2, sample_weight=weights) <= model.dual_gap_
    assert model.dual_gap_ <= 1e-9
    assert model.n_iter_ == len(model.history_) == 1
    assert model.history_["passes"][-1] == model.n_passes_ == 1.0


def test_one_warning_counts_what_failed(rng):
    X, y = regression(rng, kind="dependent")
    with pytest.warns(ConvergenceWarning, match=r"of 50 errors on held-out") as caught:
        CaLassoCV(l1_ratio=0.0, alphas=10, max_iter=1).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__


# ---- degenerate data, as the twins -------------------------------------------------


def test_fewer_rows_than_columns(rng):
    X, y = regression(rng, 30, 40)
    model = CaLassoCV(alphas=10, eps=0.05, cv=3).fit(X, y)
    folds = KFold(3).split(X)
    assert_same_search(model, exact_errors(X, y, folds, model.alphas_, 1.0))


@needs_recent_twin
def test_a_constant_target(rng):
    X, _ = regression(rng)
    model = CaLassoCV(alphas=4).fit(X, np.full(300, 7.0))
    twin = LassoCV(**twin_grid(4)).fit(X, np.full(300, 7.0))
    assert_allclose(model.alphas_, twin.alphas_)
    assert not model.coef_.any()
    assert model.intercept_ == 7.0


@needs_recent_twin
def test_nothing_positive(rng):
    X = np.abs(rng.standard_normal((100, 3)))
    y = -X.sum(axis=1)
    model = CaLassoCV(positive=True, alphas=4).fit(X, y)
    assert_allclose(
        model.alphas_, LassoCV(positive=True, **twin_grid(4)).fit(X, y).alphas_
    )
    assert not model.coef_.any()


def test_weight_zero_and_integer_weights(rng):
    X, y = regression(rng, 120, 4)
    weights = rng.integers(0, 3, 120).astype(float)
    copies = np.repeat(np.arange(120), weights.astype(int))
    halves = np.arange(120) % 2
    model = CaLassoCV(cv=[(halves == 0, halves == 1)]).fit(X, y, weights)
    halves = halves[copies]
    other = CaLassoCV(cv=[(halves == 0, halves == 1)]).fit(X[copies], y[copies])
    assert_allclose(model.mse_path_, other.mse_path_)
    assert_allclose(model.coef_, other.coef_)


# ---- input ------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["fortran", "float32", "frame", "csr", "csc"])
def test_layouts_give_the_same_search(layout, rng):
    X, y = regression(rng, 500, 5)
    X = X.astype(np.float32).astype(np.float64)
    make = {
        "fortran": np.asfortranarray,
        "float32": lambda X: X.astype(np.float32),
        "frame": lambda X: pd.DataFrame(X, columns=list("abcde")),
        "csr": sparse.csr_array,
        "csc": sparse.csc_matrix,
    }[layout]
    wanted = CaLassoCV().fit(X, y)
    found = CaLassoCV().fit(make(X), y)
    assert_allclose(found.mse_path_, wanted.mse_path_, rtol=1e-10)
    assert_allclose(found.coef_, wanted.coef_, rtol=1e-6)
    if layout == "frame":
        assert list(found.feature_names_in_) == list("abcde")


def test_nothing_is_written_and_threads_do_not_matter(rng):
    X, y = regression(rng, 60_000, 4)
    X.flags.writeable = y.flags.writeable = False
    cv = KFold(3, shuffle=True, random_state=0)
    one = CaLassoCV(cv=cv, n_jobs=1).fit(X, y)
    two = CaLassoCV(cv=cv, n_jobs=2).fit(X, y)
    assert_array_equal(one.mse_path_, two.mse_path_)
    assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alphas": [0.1, -1.0]}, ValueError, r"alphas\[1\] must be non-negative"),
        ({"alphas": [np.nan]}, ValueError, r"alphas\[0\] must be non-negative"),
        ({"alphas": ["a"]}, TypeError, r"alphas\[0\] must be a number"),
        ({"alphas": []}, ValueError, "alphas must have at least one"),
        ({"alphas": 0}, ValueError, "'alphas' parameter"),
        ({"l1_ratio": [0.5, 2.0]}, ValueError, r"l1_ratio must be in \[0, 1\]"),
        ({"l1_ratio": []}, ValueError, "l1_ratio must be a number or a list"),
        ({"l1_ratio": 1.5}, ValueError, "'l1_ratio' parameter"),
        ({"eps": 0.0}, ValueError, "'eps' parameter"),
        ({"cv": "five"}, ValueError, "'cv' parameter"),
        ({"cv": 500}, ValueError, "n_splits=500"),
        ({"standardize": "yes"}, ValueError, "'standardize' parameter"),
    ],
)
def test_wrong_arguments(options, error, message, rng):
    with pytest.raises(error, match=message):
        CaLassoCV(**options).fit(*regression(rng))


def test_one_target_only(rng):
    X, y = regression(rng)
    with pytest.raises(ValueError, match="the penalty of one target"):
        CaLassoCV().fit(X, np.column_stack([y, y]))
    with pytest.warns(DataConversionWarning):
        model = CaLassoCV().fit(X, y[:, None])
    assert model.coef_.shape == (6,)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_values_of_large_data_are_named(value, rng):
    X = rng.standard_normal((300_000, 4))
    X[1234, 2] = value
    with pytest.raises(ValueError, match="Input X contains"):
        CaLassoCV().fit(X, X[:, 0] * 1.0)


# ---- running ------------------------------------------------------------------------


def test_verbose_prints_one_line_per_fold(rng, capsys):
    CaLassoCV(verbose=1, cv=4).fit(*regression(rng))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["fold", "reads", "seconds"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3", "4"]


class Callback:
    """Counts folds, scores the model of each, and stops after some of them."""

    def __init__(self, last=None, error=None):
        self.scores, self.last, self.error = [], last, error

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        if context.parent is None:
            return False
        self.scores.append(fitted_estimator.score(X, y))
        if self.error is not None:
            raise self.error
        return len(self.scores) == self.last

    def teardown(self, estimator, context):
        pass


needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn has no callbacks"
)


@needs_callbacks
def test_callbacks_see_every_fold(rng):
    X, y = regression(rng)
    callback = Callback()
    model = CaLassoCV().set_callbacks(callback).fit(X, y)
    # The read, then the folds.
    assert len(callback.scores) == 6
    assert callback.scores[-1] == pytest.approx(model.score(X, y))


@needs_callbacks
def test_callbacks_may_stop_a_search(rng):
    X, y = regression(rng)
    model = CaLassoCV().set_callbacks(Callback(last=3)).fit(X, y)
    assert np.isfinite(model.mse_path_[:, :2]).all()
    assert np.isnan(model.mse_path_[:, 2:]).all()
    best = np.argmin(model.mse_path_[:, :2].mean(axis=1))
    assert model.alpha_ == model.alphas_[best]


@needs_callbacks
def test_an_interrupted_fit_leaves_the_last_one(rng):
    X, y = regression(rng)
    model = CaLassoCV().fit(X, y)
    before = {name: value for name, value in vars(model).items() if name[-1] == "_"}
    model.set_callbacks(Callback(error=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        model.fit(-X, 2 * y)
    after = {name: value for name, value in vars(model).items() if name[-1] == "_"}
    assert before == after


@needs_callbacks
def test_progress_bar_of_sklearn(rng, capsys):
    from sklearn.callback import ProgressBar

    CaLassoCV().set_callbacks(ProgressBar()).fit(*regression(rng))
    assert "CaLassoCV" in capsys.readouterr().out


def test_no_warnings_by_default(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CaLassoCV(l1_ratio=[0.0, 0.5, 1.0]).fit(*regression(rng))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("is_heavy", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_columns_far_from_zero_take_one_read(
    shuffle, is_heavy, form, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    far = 1e6 + rng.standard_normal((2000, 5))
    y = far @ [1.0, -2.0, 0.0, 0.5, 0.0] + rng.standard_normal(2000)
    weights = np.where(np.arange(2000) < 400, 1e3 if is_heavy else 1.0, 1.0)
    folds = KFold(5, shuffle=shuffle, random_state=0 if shuffle else None)
    search = CaLassoCV(alphas=20, cv=folds).fit(form(far), y, sample_weight=weights)
    assert search.n_passes_ == 1
    # Nothing is rounded in this difference.
    wanted = CaLassoCV(alphas=20, cv=folds).fit(far - 1e6, y, sample_weight=weights)
    assert_allclose(search.mse_path_, wanted.mse_path_, rtol=1e-9)
