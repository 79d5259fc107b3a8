"""Searches of the campaign: the two CV classes and the two paths.

The scores of a search are compared with those of exact fits of its folds
(`campaign_references`); the final fit is judged like any other, and so is every fit of
a path.
"""

import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from campaign_fits import class_factors, compare, sort_warnings
from campaign_judge import EPS, SLACK, Rows, judge_logistic, judge_squared
from campaign_problems import (
    cast,
    chance,
    decades,
    draw_columns,
    draw_labels,
    draw_regression,
    draw_weights,
    fill_missing,
    lay_out,
    pick,
)
from campaign_references import SquaredFold, logistic_reference
from campaign_report import Report, patience, snapshot, where
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, check_cv

from skcara import CaLassoCV, CaLogisticRegressionCV, lasso_path, logistic_path

# Largest shift of dense columns, in their scales, that may wait until rows are added
# up: the library documents it with its coordinates. Its scales are those of a glance at
# the rows, so it may be some per cent more.
MOST_SHIFT = 1.1e3
# Keeps the numbers of searches apart from those of other kinds.
SEARCHES = 4
# Relative error of a score without a warning, and the share of the mean square of y
# below which a score is that of an exact fit.
MAX_SCORE_ERROR, EXACT_SHARE = 1e-6, 1e-10
# Folds without enough rows or classes are refused, and rightly so.
REFUSALS = ("rows of positive", "n_splits=", "class", "n_samples=")


# All of them are small.
MAX_SECONDS = 40


class Search(NamedTuple):
    """A search, or a path as a function of the data, and the data.

    Attributes
    ----------
    model : estimator or None
        None for a path.
    options : dict
        What judges must know: ``l1_ratios``, ``positive``, ``fit_intercept``,
        ``standardize``, ``class_weight``, ``tol``.
    """

    seed: int
    model: object
    path: object
    options: dict
    X: object
    y: np.ndarray
    sample_weight: np.ndarray | None
    traits: tuple

    def __str__(self):
        shape = "x".join(str(size) for size in self.X.shape)
        call = " ".join(str(self.model or self.path).split())
        call = call if len(call) < 300 else f"{type(self.model).__name__}(...)"
        return f"{call} on {shape} {' '.join(self.traits)}"

    @property
    def is_quick(self):
        """Whether neither search nor judge take long."""
        n_labels = 0 if self.y.dtype.kind == "f" else len(np.unique(self.y))
        return len(self.y) <= 300 and n_labels <= 3

    @property
    def weights(self):
        return (
            np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight
        )


# ---- draws ----------------------------------------------------------------------


def draw_search_shape(rng):
    most_rows, most_columns = pick(rng, [(60, 5)] * 5 + [(600, 10)] * 4 + [(9000, 12)])
    n_rows = int(decades(rng, np.log10(20), np.log10(most_rows)))
    return n_rows, int(decades(rng, 0, np.log10(most_columns + 0.99)))


def draw_folds(rng, n_rows):
    """Value of ``cv``."""
    n_folds = int(rng.integers(2, 6))
    return pick(
        rng,
        [
            None,
            n_folds,
            KFold(n_folds, shuffle=True, random_state=0),
            ShuffleSplit(n_folds, test_size=0.3, random_state=1),
            RepeatedKFold(n_splits=2, n_repeats=2, random_state=2),
            [np.array_split(rng.permutation(n_rows), 2) for _ in range(n_folds)],
        ],
    )


def draw_lasso_search(rng, n_rows):
    common = {
        "alphas": pick(rng, [4, decades(rng, -4, 0.5, 3).tolist()]),
        "eps": float(decades(rng, -4, -1)),
        "positive": chance(rng, 0.25),
        "fit_intercept": bool(chance(rng, 0.8)),
    }
    if chance(rng, 0.3):
        common["l1_ratio"] = pick(rng, [1.0, 0.5, 0.01])
        options = {**common, "l1_ratios": [common["l1_ratio"]], "standardize": False}
        return None, partial(lasso_path, **common), options
    model = CaLassoCV(
        **common,
        l1_ratio=pick(rng, [1.0, 0.5, 0.0, [0.3, 1.0]]),
        standardize=chance(rng, 0.3),
        cv=draw_folds(rng, n_rows),
        n_jobs=pick(rng, [None, None, 2]),
    )
    ratios = np.atleast_1d(model.l1_ratio).tolist()
    options = {**common, "l1_ratios": ratios, "standardize": model.standardize}
    return model, None, options


def draw_logistic_search(rng, n_rows):
    common = {
        "Cs": pick(rng, [3, decades(rng, -3, 2, 3).tolist()]),
        "class_weight": pick(rng, [None, None, "balanced"]),
        "fit_intercept": bool(chance(rng, 0.8)),
        "tol": pick(rng, [1e-4, 1e-4, 1e-7]),
        "random_state": int(rng.integers(1000)),
    }
    if chance(rng, 0.3):
        common["l1_ratio"] = pick(rng, [0.0, 0.5, 1.0])
        options = {**common, "l1_ratios": [common["l1_ratio"]], "standardize": False}
        return None, partial(logistic_path, **common), options
    model = CaLogisticRegressionCV(
        **common,
        l1_ratios=pick(rng, [(0.0,), (0.0,), (1.0,), (0.2, 0.8)]),
        standardize=bool(chance(rng, 0.3) and common["fit_intercept"]),
        cv=draw_folds(rng, n_rows),
        n_jobs=pick(rng, [None, None, 2]),
    )
    options = {
        **common,
        "l1_ratios": list(model.l1_ratios),
        "standardize": model.standardize,
    }
    return model, None, options


def draw_search(seed) -> Search:
    """The search of this number, always the same."""
    rng = np.random.default_rng([SEARCHES, seed])
    n_rows, n_columns = draw_search_shape(rng)
    is_classifier = chance(rng, 0.5)
    X, traits = draw_columns(rng, (n_rows, n_columns))
    X, more = cast(rng, X)
    traits += more
    y, more = (draw_labels if is_classifier else draw_regression)(rng, X.astype(float))
    y = y if y.ndim == 1 else y[:, 0]
    traits += more
    sample_weight, more = draw_weights(rng, n_rows)
    traits += more
    if "first-zero" in more and X.dtype.kind == "f" and chance(rng, 0.7):
        # A code among the labels would be a label.
        fill_missing(rng, X, np.zeros(n_rows) if is_classifier else y, sample_weight)
        traits.append("fill-values")
    X, more = lay_out(rng, X)
    draw = draw_logistic_search if is_classifier else draw_lasso_search
    model, path, options = draw(rng, n_rows)
    return Search(seed, model, path, options, X, y, sample_weight, (*traits, *more))


# ---- rows of folds --------------------------------------------------------------


def members(weights, rows):
    """Weights that are zero outside of some rows."""
    return weights * np.bincount(rows, minlength=len(weights)).astype(bool)


class Units(NamedTuple):
    """What features are measured from, and in.

    Attributes
    ----------
    origin : ndarray of shape (n_columns,)
        A value of each column near most of the others. Differences to it are exact, and
        so small that the rounding of their mean does not matter: without an intercept a
        residual multiplies it by the mean of the target.
    mean : ndarray of shape (n_columns,)
        Relative to the origin.
    scale : ndarray of shape (n_columns,)
    """

    origin: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, search, weights):
        """Units of a scaler that has seen the rows of positive weight."""
        rows = Rows(search.X, weights)
        zeros = np.zeros(rows.n_columns, dtype=np.longdouble)
        if not search.options["standardize"]:
            return cls(zeros, zeros, 1 + zeros)
        origin = np.sort(rows.X, axis=0)[rows.n_rows // 2]
        mean = rows.mu @ (rows.X - origin)
        spread = np.sqrt(rows.mu @ (rows.X - origin - mean) ** 2)
        size = np.sqrt(rows.mu @ rows.X**2)
        return cls(origin, mean, np.where(spread > 64 * EPS * size, spread, 1))

    def rows(self, search, weights):
        """Rows of positive weight in these units."""
        rows = Rows(search.X, weights)
        rows.X = (rows.X - self.origin - self.mean) / self.scale
        rows.shift = (self.origin + self.mean) / self.scale
        if rows.is_sparse:
            # They are shifted after they were added up.
            rows.sizes = rows.sizes / self.scale
        else:
            # So are dense ones if that costs no more than three digits: a shift of up
            # to a thousand scales is part of what is added up, even where nothing is
            # left of a constant column but the rounding of these sums.
            shift = np.abs(rows.shift)
            is_explicit = shift > MOST_SHIFT
            rows.sizes = np.abs(rows.X) + np.where(is_explicit, 0, shift)
        return rows

    def params(self, coef, intercept):
        """Coefficients and intercept for such rows."""
        coef = np.asarray(coef, dtype=np.longdouble)
        return coef * self.scale, intercept + coef @ self.origin + coef @ self.mean


def splits_of(search):
    is_classifier = isinstance(search.model, CaLogisticRegressionCV)
    splitter = check_cv(search.model.cv, search.y, classifier=is_classifier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(splitter.split(search.X, search.y))


# ---- verdicts on squared losses -------------------------------------------------


def judge_lasso_search(search, has_converged):
    """Failures of a fitted CaLassoCV, and how many scores had no reference."""
    model, options, failures, n_open = search.model, search.options, [], 0
    n_ratios = len(options["l1_ratios"])
    errors = model.mse_path_.reshape(n_ratios, *model.mse_path_.shape[-2:])
    alphas = np.broadcast_to(model.alphas_, errors.shape[:2])
    for fold, (train, test) in enumerate(splits_of(search)):
        kept = members(search.weights, train)
        units = Units.of(search, kept)
        train = units.rows(search, kept)
        test = units.rows(search, members(search.weights, test))
        exact = SquaredFold(train, test, search.y, options["fit_intercept"])
        for ratio, grid, found in zip(
            options["l1_ratios"], alphas, errors[:, :, fold], strict=True
        ):
            coefs = exact.path(grid, ratio, options["positive"])
            for alpha, coef, error in zip(grid, coefs.T, found, strict=True):
                strengths = alpha * ratio, alpha * (1 - ratio)
                reference = exact.reference(coef, *strengths, options["positive"])
                smallest = EXACT_SHARE * exact.size**2
                text = compare_score(error, reference, smallest)
                n_open += text is None
                if text and has_converged:
                    place = f"fold {fold}, alpha {alpha:.3g}, l1_ratio {ratio}"
                    failures.append(("mse_path_", f"{place}: {text}"))
    failures += check_choice(model, errors, alphas)
    units = Units.of(search, search.weights)
    verdict = judge_squared(
        units.rows(search, search.weights),
        search.y,
        *units.params(model.coef_, model.intercept_),
        l1=np.longdouble(model.alpha_) * model.l1_ratio_,
        l2=np.longdouble(model.alpha_) * (1 - model.l1_ratio_),
        positive=options["positive"],
        fit_intercept=options["fit_intercept"],
    )
    failures += compare(
        verdict,
        *(model.objective_, model.optimality_, model.dual_gap_),
        *(model.tol, has_converged),
        is_bound=True,
    )
    return failures, n_open


def compare_score(found, reference, smallest):
    """What is wrong with a score: nothing, a sentence, or None without a reference."""
    if reference is None:
        return None
    score, uncertainty = reference
    allowed = MAX_SCORE_ERROR * abs(score)
    if uncertainty > 0.1 * max(allowed, smallest):
        return None
    # The library estimates what it allows.
    if abs(found - score) <= 2 * allowed + smallest:
        return ""
    return f"{found:.9g}, exact {score:.9g}"


def check_choice(model, errors, alphas):
    """The penalty with the least mean error, the first of equal ones."""
    means = errors.mean(axis=2)
    ratio, place = np.unravel_index(means.argmin(), means.shape)
    if model.alpha_ != alphas[ratio, place]:
        yield "alpha_", f"{model.alpha_}, least error at {alphas[ratio, place]}"


def judge_lasso_path(search, found, has_converged):
    """Failures of what lasso_path has returned."""
    options, [ratio] = search.options, search.options["l1_ratios"]
    rows = Rows(search.X, search.weights)
    y = np.asarray(search.y, dtype=np.longdouble)[rows.kept]
    for alpha, coef, gap in zip(
        found.alphas, found.coefs.T, found.dual_gaps, strict=True
    ):
        intercept = 0.0
        if options["fit_intercept"]:
            intercept = rows.mean(y - rows.X @ coef)
        verdict = judge_squared(
            rows,
            search.y,
            coef,
            intercept,
            l1=np.longdouble(alpha) * ratio,
            l2=np.longdouble(alpha) * (1 - ratio),
            positive=options["positive"],
            fit_intercept=options["fit_intercept"],
        )
        yield from compare(
            verdict,
            *(verdict.objective, verdict.optimality, gap),
            *(options.get("tol", 1e-4), has_converged),
        )


# ---- verdicts on logistic losses ------------------------------------------------


def logistic_weights(search, codes, n_classes):
    """Sample weights times class weights, which are those of all rows."""
    factors = class_factors(search.options["class_weight"], codes, search.weights)
    return search.weights * factors[codes]


def logistic_options(search, C, ratio):
    return {
        "C": float(C),
        "l1_ratio": float(ratio),
        "fit_intercept": search.options["fit_intercept"],
    }


def judge_logistic_search(search, has_converged):
    """Failures of a fitted CaLogisticRegressionCV, and how many scores were open."""
    model, failures, n_open = search.model, [], 0
    codes = np.searchsorted(model.classes_, search.y)
    weights = logistic_weights(search, codes, len(model.classes_))
    n_features = search.X.shape[1]
    for fold, (train, test) in enumerate(splits_of(search)):
        units = Units.of(search, members(search.weights, train))
        train = units.rows(search, members(weights, train))
        test = units.rows(search, members(search.weights, test))
        for ratio_number, ratio in enumerate(model.l1_ratios_):
            for number, C in enumerate(model.Cs_):
                place = f"fold {fold}, C {C:.3g}, l1_ratio {ratio}"
                options = logistic_options(search, C, ratio)
                params = model.coefs_paths_[fold, ratio_number, number]
                intercept = np.zeros(len(params))
                if options["fit_intercept"]:
                    intercept = params[:, -1]
                point = units.params(params[:, :n_features], intercept)
                verdict = judge_logistic(train, codes, *point, **options)
                limit = model.tol + verdict.criterion_error
                if has_converged and verdict.criterion * (1 - SLACK) > limit:
                    text = f"{place}: violation {verdict.criterion:.3g}"
                    failures.append(("tol", text))
                score = model.scores_[fold, ratio_number, number]
                reference = logistic_reference(train, test, codes, options)
                text = compare_score(-score, reference, 1e-12)
                n_open += text is None
                if text and has_converged:
                    failures.append(("scores_", f"{place}: {text}"))
    failures += judge_final_logistic(search, codes, weights, has_converged)
    return failures, n_open


def judge_final_logistic(search, codes, weights, has_converged):
    model = search.model
    means = model.scores_.mean(axis=0)
    best = np.argwhere(means == means.max())
    if not any(
        (model.l1_ratios_[r], model.Cs_[c]) == (model.l1_ratio_, model.C_)
        for r, c in best
    ):
        yield "C_", f"{model.C_}, but the best score is at {best.tolist()}"
    units = Units.of(search, search.weights)
    verdict = judge_logistic(
        *(units.rows(search, weights), codes),
        *units.params(model.coef_, model.intercept_),
        **logistic_options(search, model.C_, model.l1_ratio_),
    )
    yield from compare(
        verdict, model.objective_, model.optimality_, None, model.tol, has_converged
    )


def judge_logistic_path(search, found, has_converged):
    """Failures of what logistic_path has returned."""
    classes, codes = np.unique(search.y, return_inverse=True)
    rows = Rows(search.X, logistic_weights(search, codes, len(classes)))
    [ratio], n_features = search.options["l1_ratios"], search.X.shape[1]
    for C, params, optimality in zip(*found, strict=True):
        intercept = np.zeros(len(params))
        if search.options["fit_intercept"]:
            intercept = params[:, -1]
        verdict = judge_logistic(
            *(rows, codes, params[:, :n_features], intercept),
            **logistic_options(search, C, ratio),
        )
        tol = search.options["tol"]
        yield from compare(
            verdict, verdict.objective, optimality, None, tol, has_converged
        )


# ---- one search -----------------------------------------------------------------


def examine_search(seed) -> Report:
    """Draw, search and judge."""
    search = draw_search(seed)
    arrays = search.X, search.y, search.sample_weight
    before, found, started = snapshot(*arrays), None, time.process_time()
    with warnings.catch_warnings(record=True) as caught, patience():
        warnings.simplefilter("always")
        try:
            if search.model is None:
                found = search.path(*arrays[:2], sample_weight=arrays[2])
            else:
                search.model.fit(*arrays)
        except Exception as error:  # the campaign is about these
            if isinstance(error, ValueError) and any(map(str(error).count, REFUSALS)):
                return Report([], "refused")
            return Report([(type(error).__name__, where(error))], str(search))
    seconds = time.process_time() - started
    # Splitters warn about classes that are too small for them, as in scikit-learn.
    caught = [one for one in caught if "least populated" not in str(one.message)]
    alarms, failures = sort_warnings(caught)
    if seconds > MAX_SECONDS:
        failures.append(("slow", f"{seconds:.1f} s"))
    new, n_open = judge_found(search, found, not alarms)
    failures += new
    if snapshot(*arrays) != before:
        failures.append(("inputs", "X, y or sample_weight were modified"))
    remark = "warned" if alarms else "scores without reference" if n_open else ""
    return Report(failures, str(search) if failures else remark)


def judge_found(search, found, has_converged):
    if isinstance(search.model, CaLassoCV):
        return judge_lasso_search(search, has_converged)
    if search.model is not None:
        return judge_logistic_search(search, has_converged)
    is_logistic = "Cs" in search.options
    judge = judge_logistic_path if is_logistic else judge_lasso_path
    return list(judge(search, found, has_converged)), 0
