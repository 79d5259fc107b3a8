"""A slice of the random campaign, and the judge of the campaign judged.

`python tests/campaign.py --seconds 600` runs more of it.
"""

import copy
import warnings
from fractions import Fraction

import numpy as np
import pytest
from campaign import KINDS
from campaign_fits import allowed_seconds, judge_fit, verdicts
from campaign_judge import IS_PRECISE, Rows, judge_measure
from campaign_problems import Fit, affordable_method, size_of
from campaign_references import SquaredFold, logistic_reference
from campaign_searches import Search, Units, draw_search
from numpy.testing import assert_allclose
from problems import classification, regression
from sklearn.exceptions import ConvergenceWarning

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression, recombine
from skcara.recombination import Recombination

pytestmark = pytest.mark.skipif(
    not IS_PRECISE, reason="long doubles are no more precise than doubles here"
)
QUICK_SIZES = ("tiny", "small")


def failures_of(kind, seeds):
    """Lines that suffice to replay what failed."""
    reports = {seed: KINDS[kind](seed) for seed in seeds}
    return [
        f"--kind {kind} --replay {seed}: {report}"
        for seed, report in reports.items()
        if report.failures
    ]


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_slice_of_fits(first):
    seeds = range(first, first + 25)
    assert not failures_of("fits", [s for s in seeds if size_of(s) in QUICK_SIZES])


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_slice_of_sources(first):
    seeds = range(first, first + 25)
    assert not failures_of("sources", [s for s in seeds if size_of(s) in QUICK_SIZES])


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_slice_of_searches(first):
    searches = [draw_search(seed) for seed in range(first, first + 15)]
    assert not failures_of("searches", [one.seed for one in searches if one.is_quick])


@pytest.mark.parametrize("seed", [44020000765, 44020001389])
def test_searches_with_scores_that_training_rows_do_not_determine(seed):
    """They were a third too large, and off by a twentieth, without a warning."""
    assert not failures_of("searches", [seed])


def test_constant_columns_round_like_their_values():
    """All rows are (0, 1000): what is left of the gradient is rounding of thousands."""
    assert not failures_of("searches", [51020000107])


def test_paths_stay_where_the_only_curvature_is_rounding():
    """One value is 1e18 times as large as all others; coefficients reached 1e302."""
    assert not failures_of("searches", [81020000173])


def test_gradients_of_all_rows_are_not_tilted_by_rounding():
    """One value is 1e10 times as large as all others; a fit was worse than zeros."""
    assert not failures_of("searches", [121040000801])


def test_products_with_few_values_round_alike():
    """Counts times a constant target, and columns of one value in logistic loss."""
    assert not failures_of("fits", [71010001737, 71010016194])
    X, weights = np.arange(2000.0)[:, None], np.ones(2000)
    assert Rows(X % 8, weights).product_error > Rows(X, weights).product_error


def test_time_is_allowed_for_every_block_of_a_round():
    X, y = classification(n_rows=60)
    model = CaLogisticRegression(
        solver="cabcd", block_size=1, fraction=1.0, max_iter=1, tol=0.5
    ).fit(X, y)
    each = allowed_seconds(Fit(0, model, X, y, None, ()), 1000)
    one = model.set_params(fraction=None)
    at_once = allowed_seconds(Fit(0, one, X, y, None, ()), 1000)
    assert each - at_once == pytest.approx(2 * (X.shape[1] + 1))


def test_time_is_allowed_for_the_recombinations_of_every_target():
    X, y = regression(n_rows=60)
    allowed = []
    for target in (y, np.column_stack([y, y])):
        model = CaLeastSquares(recombination="log", tol=0.5).fit(X, target)
        allowed.append(allowed_seconds(Fit(0, model, X, target, None, ()), 1000))
    # A tenth of a second for each of two, and the passes of the second target.
    work = 2e-8 * X.size * (X.shape[1] + 20 * 1000)
    assert np.diff(allowed) == pytest.approx(200 + work)


@pytest.mark.parametrize(
    ("method", "shape", "expected"),
    [
        ("davis", (1000, 10), "davis"),
        ("davis", (600_000, 20), "davis"),
        ("davis", (600_000, 600), "auto"),
        ("log", (600_000, 600), "log"),
        (None, (600_000, 600), None),
    ],
)
def test_methods_that_take_minutes_by_definition_are_not_drawn(method, shape, expected):
    assert affordable_method(method, *shape) == expected


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_slice_of_recombinations(first):
    assert not failures_of("recombinations", range(first, first + 200))


def scaled(name, factor):
    """A change that multiplies one attribute."""
    return lambda model: setattr(model, name, factor * getattr(model, name))


def shifted(name, amount):
    return lambda model: setattr(model, name, getattr(model, name) + amount)


def with_first_coef(value):
    def change(model):
        model.coef_ = model.coef_.copy()
        model.coef_.flat[0] = value

    return change


SQUARED = {
    "objective_": scaled("objective_", 1 + 1e-9),
    "optimality_": shifted("optimality_", 1e-7),
    "tol": shifted("intercept_", 1e-3),
    "worse than zero": scaled("coef_", 30.0),
    "not finite": with_first_coef(np.nan),
    "shape": lambda model: setattr(model, "coef_", model.coef_[:-1]),
    "support_": lambda model: vars(model).update(
        support_=np.array([3, 3]), support_weights_=np.ones(2)
    ),
}
LIES = [
    *((CaLeastSquares(tol=1e-8), kind, change) for kind, change in SQUARED.items()),
    *((CaLasso(0.05, tol=1e-8), kind, change) for kind, change in SQUARED.items()),
    (CaLasso(0.05, tol=1e-4), "dual_gap_", shifted("intercept_", 1e-2)),
    (CaLasso(0.05, l1_ratio=0.3, tol=1e-4), "dual_gap_", scaled("coef_", 1.01)),
    (CaLasso(0.05, positive=True), "sign", with_first_coef(-1e-9)),
    (CaLeastSquares(positive=True, tol=1e-8), "tol", scaled("coef_", 1.001)),
    (CaLeastSquares(fit_intercept=False), "intercept", shifted("intercept_", 1e-9)),
    *(
        (CaLogisticRegression(l1_ratio=0.5, tol=1e-6), kind, SQUARED[kind])
        for kind in ("objective_", "optimality_", "worse than zero", "not finite")
    ),
    (CaLogisticRegression(tol=1e-6), "tol", scaled("coef_", 1.001)),
    (CaLogisticRegression(tol=1e-6), "tol", shifted("intercept_", 1e-4)),
]


def make_fit(estimator, weighted):
    make = classification if hasattr(estimator, "C") else regression
    X, y = make(n_rows=300)
    weights = np.random.default_rng(0).random(300) if weighted else None
    return Fit(0, estimator, X, y, weights, ())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("estimator", "kind", "change"), LIES)
def test_the_judge_notices_a_lie(estimator, kind, change, weighted):
    fit = make_fit(estimator, weighted)
    model = copy.copy(estimator).fit(fit.X, fit.y, fit.sample_weight)
    assert not judge_fit(fit, model, has_converged=True)
    change(model)
    assert kind in dict(judge_fit(fit, model, has_converged=True))


@pytest.mark.parametrize("estimator", [CaLeastSquares(), CaLogisticRegression()])
def test_the_judge_wants_warnings_where_they_are_due_only(estimator):
    fit = make_fit(estimator, weighted=False)
    model = copy.copy(estimator).set_params(max_iter=1, solver="cagd", tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(fit.X, fit.y)
    assert "tol" in dict(judge_fit(fit, model, has_converged=True))
    assert not judge_fit(fit, model, has_converged=False)
    model = copy.copy(estimator).fit(fit.X, fit.y)
    assert dict(judge_fit(fit, model, has_converged=False)).keys() == {
        "needless warning"
    }


def test_the_judge_centres_columns_that_are_far_from_zero():
    """Next to a target far from zero, a rounded mean would be taken for a slope."""
    rng = np.random.default_rng(0)
    X = rng.normal([5.6e4, 2.4e6, -1.7e6], 0.3, size=(21, 3))
    search = Search(0, None, None, {"standardize": True}, X, X[:, 0], None, ())
    rows = Units.of(search, search.weights).rows(search, search.weights)
    assert np.abs(rows.mu @ rows.X).max() <= 8 * np.finfo(np.longdouble).eps


def test_the_judge_knows_how_far_the_coefficients_of_users_are_rounded():
    """Far from zero the intercept of a user is large, whatever the units of a judge."""
    rng = np.random.default_rng(0)
    X = rng.normal([-5.9e5, 1.5e5], 0.3, size=(21, 2))
    search = Search(0, None, None, {"standardize": True}, X, X[:, 0], None, ())
    units = Units.of(search, search.weights)
    rows = units.rows(search, search.weights)
    for _ in range(100):
        exact, middle = rng.normal(size=2), np.longdouble(rng.normal())
        coef = (exact / units.scale).astype(float)
        intercept = float(middle - exact @ rows.shift)
        found, error = rows.predict(*units.params(coef, intercept))
        moved = np.abs(found - rows.X @ exact - middle)
        assert (moved <= error).all()
        assert moved.max() >= 1e-4 * error.max()


def exact_gap(model, X, y):
    """Duality gap of an elastic net in rational numbers."""
    rational = np.vectorize(Fraction, otypes=[object])
    X, y, coef = rational(X), rational(y), rational(model.coef_)
    l1 = Fraction(model.alpha) * Fraction(model.l1_ratio)
    l2 = Fraction(model.alpha) * (1 - Fraction(model.l1_ratio))
    residual = y - X @ coef - Fraction(model.intercept_)
    primal = (residual**2).mean() / 2 + l1 * abs(coef).sum() + l2 * (coef @ coef) / 2
    residual, X = residual - residual.mean(), X - X.mean(axis=0)
    correlation = residual @ X / len(y)
    square, product = (residual**2).mean(), (residual * y).mean()
    duals = []
    if l2 > 0:
        excess = np.maximum(abs(correlation) - l1, 0)
        duals.append(product - square / 2 - excess @ excess / (2 * l2))
    if l1 > 0:
        square += l2 * (coef @ coef)
        largest = abs(correlation - l2 * coef).max()
        shrink = min(product / square, l1 / largest)
        duals.append(shrink * product - shrink**2 * square / 2)
    return primal - max(duals)


@pytest.mark.parametrize("alpha", [0.1, 1e-9, 1e-15, 1e-24])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.001])
@pytest.mark.parametrize("outlier", [3.0, 1e15])
@pytest.mark.parametrize("level", [0.0, 100.0, 2e5])
def test_neither_judge_nor_fit_sees_more_of_a_gap_than_there_is(
    alpha, l1_ratio, outlier, level
):
    """Next to levels far from zero, rounding of the judge was a gap of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 1.0, (20, 2))
    X[0, 0] = outlier
    y = level + (1e-5 if level else 1.0) * rng.standard_normal(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = CaLasso(alpha, l1_ratio=l1_ratio, tol=1e-3).fit(X, y)
    exact = exact_gap(model, X, y)
    [(verdict, *_)] = verdicts(Fit(0, model, X, y, None, ()), model)
    known = Fraction(*verdict.known_gap.as_integer_ratio())
    assert known <= exact <= Fraction(model.dual_gap_)
    if level == 0 and outlier == 3 and alpha == 0.1:
        assert_allclose(float(known), float(exact), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("is_unique", [True, False])
def test_the_judge_has_no_reference_where_several_fits_are_optimal(is_unique):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    if not is_unique:
        X[:, 1] = X[:, 0]
    rows = Rows(X, np.ones(40))
    fold = SquaredFold(rows, rows, y, fit_intercept=True)
    [coef] = fold.path([0.1], 1.0, positive=False).T
    # Of equal columns any may carry the coefficient.
    for one in [coef] if is_unique else [coef, coef[::-1], np.full(2, coef.mean())]:
        found = fold.reference(one, 0.1, 0.0, positive=False)
        assert (found is not None) == is_unique


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("case", ["unique", "alike", "alike while training"])
def test_the_judge_has_no_reference_where_several_classifiers_are_optimal(
    case, n_classes
):
    """Of equal columns any may carry the coefficient, which held-out rows may see."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 3))
    codes = (n_classes * rng.random(160)).astype(int)
    codes[::2] = np.digitize(X[::2, 0], [0.0, 0.8][: n_classes - 1])
    is_training = np.arange(160) < 80
    if case != "unique":
        X[:, 1] = X[:, 0]
    if case == "alike while training":
        X[~is_training, 1] *= 2
    train, test = Rows(X, 1.0 * is_training), Rows(X, 1.0 * ~is_training)
    options = {"C": 0.2, "l1_ratio": 1.0, "fit_intercept": True}
    found = logistic_reference(train, test, codes, options)
    assert (found is None) == (case == "alike while training")
    # An L2 term leaves no choice.
    options["l1_ratio"] = 0.5
    assert logistic_reference(train, test, codes, options) is not None


def test_the_judge_of_measures_notices_a_lie():
    points = np.random.default_rng(0).normal(size=(50, 3))
    masses = np.full(50, 0.02)
    true = recombine(points)
    indices, weights = true
    assert not judge_measure(points, masses, true)
    wrong = [
        (indices[::-1], weights[::-1], true.residual),
        (indices, weights * 1.001, true.residual),
        (indices, -weights, true.residual),
        (indices, weights, 1e-12),
        (np.arange(50), masses, 0.0),
        (indices + 50, weights, true.residual),
        (indices, np.roll(weights, 1), true.residual),
    ]
    for *measure, residual in wrong:
        result = Recombination(*measure, residual, "pivoting")
        assert judge_measure(points, masses, result)
