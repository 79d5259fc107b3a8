"""Fits of the campaign: the three estimators, judged by `campaign_judge`."""

import time
import warnings

import numpy as np
from campaign_judge import SLACK, Rows, judge_logistic, judge_squared
from campaign_problems import draw_fit
from campaign_report import Report, patience, snapshot, where
from sklearn.exceptions import ConvergenceWarning

from skcara import CaLasso, CaLogisticRegression


def class_factors(class_weight, codes, weights):
    """Weight of every class: "balanced" gives all of them the same total."""
    masses = np.bincount(codes, weights)
    if class_weight is None:
        return np.ones(len(masses))
    factors = np.zeros(len(masses))
    np.divide(masses.sum(), len(masses) * masses, out=factors, where=masses > 0)
    return factors


def verdicts(fit, model):
    """One verdict per target, with the fitted attributes of that target."""
    weights = np.ones(len(fit.y)) if fit.sample_weight is None else fit.sample_weight
    if isinstance(model, CaLogisticRegression):
        codes = np.searchsorted(model.classes_, fit.y)
        weights = weights * class_factors(model.class_weight, codes, weights)[codes]
        yield (
            judge_logistic(
                Rows(fit.X, weights),
                codes,
                model.coef_,
                model.intercept_,
                C=model.C,
                l1_ratio=model.l1_ratio,
                fit_intercept=model.fit_intercept,
            ),
            model.objective_,
            model.optimality_,
            None,
        )
        return
    alpha, ratio = 0.0, 0.0
    if isinstance(model, CaLasso):
        alpha, ratio = np.longdouble(model.alpha), model.l1_ratio
    rows = Rows(fit.X, weights)
    for target in range(1 if fit.y.ndim == 1 else fit.y.shape[1]):
        fitted = {
            name: of_target(getattr(model, name, None), target, fit.y.ndim)
            for name in ("coef_", "objective_", "optimality_", "dual_gap_")
        }
        verdict = judge_squared(
            rows,
            fit.y if fit.y.ndim == 1 else fit.y[:, target],
            fitted.pop("coef_"),
            of_target(model.intercept_, target, np.ndim(model.intercept_) + 1),
            l1=alpha * ratio,
            l2=alpha * (1 - ratio),
            positive=model.positive,
            fit_intercept=model.fit_intercept,
        )
        yield verdict, *fitted.values()


def of_target(values, target, n_dimensions):
    """The entry of one target where there are several."""
    return values if n_dimensions == 1 or values is None else values[target]


def compare(exact, objective, optimality, gap, tol, has_converged, *, is_bound=False):
    """Failures of one fitted problem against its verdict.

    ``is_bound`` says that the optimality that is claimed includes a bound of rounding.
    """
    if not abs(objective - exact.objective) <= exact.objective_error:
        yield (
            "objective_",
            f"{objective:.6g}, true {exact.objective:.6g}, off by "
            f"{objective - exact.objective:.2g}, allowed {exact.objective_error:.1g}",
        )
    if exact.objective > exact.at_zero + exact.objective_error:
        yield "worse than zero", f"{exact.objective:.6g} > {exact.at_zero:.6g}"
    slack = SLACK * exact.optimality + exact.optimality_error
    excess = optimality - exact.optimality
    if not (excess >= -slack if is_bound else abs(excess) <= slack):
        yield (
            "optimality_",
            f"{optimality:.3g}, true {exact.optimality:.3g} +- {slack:.1g}",
        )
    if has_converged and exact.criterion * (1 - SLACK) > tol + exact.criterion_error:
        yield (
            "tol",
            f"converged with {exact.criterion:.3g} > tol {tol:.3g} "
            f"+- {exact.criterion_error:.1g}",
        )
    if gap is not None and exact.known_gap is not None and not gap >= exact.known_gap:
        yield "dual_gap_", f"{gap:.9g}, true {exact.gap:.9g}"


def check_attributes(fit, model):
    """Failures of shapes, signs and the last measure."""
    coef = np.asarray(model.coef_)
    if isinstance(model, CaLogisticRegression):
        n_classes = len(model.classes_)
        shape = (1 if n_classes == 2 else n_classes, fit.X.shape[1])
    else:
        shape = (*fit.y.shape[1:], fit.X.shape[1])
    if coef.shape != shape:
        yield "shape", f"coef_ {coef.shape}, expected {shape}"
    if not (np.isfinite(coef).all() and np.isfinite(model.intercept_).all()):
        yield "not finite", "coef_ or intercept_"
    if getattr(model, "positive", False) and (coef < 0).any():
        yield "sign", f"positive=True but coef_ {coef.min():.3g}"
    if not model.fit_intercept and np.any(model.intercept_):
        yield "intercept", "fit_intercept=False but intercept_ is not zero"
    supports = [(model.support_, model.support_weights_)]
    if isinstance(model.support_, list):
        supports = list(zip(model.support_, model.support_weights_, strict=True))
    for indices, weights in supports:
        if indices is not None and not is_measure(indices, weights, len(fit.y)):
            yield "support_", "rows are not distinct, or weights not positive"


def is_measure(indices, weights, n_rows):
    is_row = (np.diff(indices) > 0).all() and 0 <= indices[0] and indices[-1] < n_rows
    return is_row and (weights > 0).all() and np.isfinite(weights).all()


def allowed_seconds(fit, n_rounds):
    """Generous: some seconds, the Gram matrix, twenty passes a round, what a slow
    method of recombination takes, the recombinations of blocks, and factors of matrices
    of all coordinates.
    """
    n_rows, n_columns = fit.X.shape
    n_outputs = np.atleast_2d(fit.estimator.coef_).shape[0]
    work = float(n_rows) * n_columns * n_outputs * (n_columns + 20 * n_rounds)
    # Every target recombines groups of rows, and then rows.
    is_slow = fit.estimator.recombination not in ("auto", None)
    recombinations = 0.1 * is_slow * 2 * n_outputs
    # A block recombines up to twice a round, half a millisecond each however few the
    # rows are: calls, not entries. Twice that, for a machine with other work.
    blocks = 2e-3 * n_blocks(fit.estimator)
    # Gradient descent needs the largest eigenvalue of such a matrix in every round, and
    # the signs under an L1 penalty some tens of factorisations in all. Half a second
    # for 3000 coordinates is twice what either takes.
    factor = 2e-11 * (np.size(fit.estimator.coef_) + n_outputs) ** 3
    rest = factor * (n_rounds + 40)
    return 5 + 2e-8 * work + (recombinations + blocks) * n_rounds + rest


def n_blocks(model):
    """Most blocks that move in a round; a single one is among the passes."""
    if model.solver != "cabcd" or model.fraction is None:
        return 0
    n_coords = np.size(model.coef_) + np.size(model.intercept_)
    return -(-n_coords // model.block_size)


def examine_fit(seed) -> Report:
    """Draw, fit and judge one problem."""
    fit = draw_fit(seed)
    report = examine(fit, fit.X, fit.y, fit.sample_weight)
    model = fit.estimator
    if model.n_jobs == 2 and hasattr(model, "coef_"):
        if not is_same_with_one_thread(fit, model):
            failure = ("n_jobs", "another result with n_jobs=1")
            return Report([*report.failures, failure], str(fit))
    return report


def examine(fit, *data) -> Report:
    """Fit an estimator to data that are those of the problem, and judge it."""
    before = snapshot(fit.X, fit.y, fit.sample_weight)
    model = fit.estimator
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught, patience():
        warnings.simplefilter("always")
        try:
            model.fit(*data)
        except Exception as error:  # the campaign is about these
            return Report([(type(error).__name__, where(error))], str(fit))
    seconds = time.process_time() - started
    alarms, failures = sort_warnings(caught)
    failures += judge_fit(fit, model, has_converged=not alarms)
    if snapshot(fit.X, fit.y, fit.sample_weight) != before:
        failures.append(("inputs", "X, y or sample_weight were modified"))
    limit = allowed_seconds(fit, np.max(model.n_iter_))
    if seconds > limit:
        failures.append(("slow", f"{seconds:.1f} s, allowed {limit:.1f}"))
    return Report(failures, str(fit) if failures else "warned" * bool(alarms))


def sort_warnings(caught):
    """Warnings that a fit has not converged, and failures: all the others."""
    alarms, failures = [], []
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            alarms.append(warning)
        else:
            failures.append((warning.category.__name__, str(warning.message)))
    return alarms, failures


def judge_fit(fit, model, has_converged):
    """Failures of a fitted estimator."""
    failures = list(check_attributes(fit, model))
    if any(kind in ("shape", "not finite") for kind, _ in failures):
        return failures
    judged = list(verdicts(fit, model))
    for verdict, *attributes in judged:
        failures += compare(verdict, *attributes, model.tol, has_converged)
    if not has_converged and is_alarm_needless(fit, model, judged):
        failures.append(("needless warning", f"on an easy problem, tol={model.tol}"))
    return failures


def is_alarm_needless(fit, model, judged):
    """Whether the default solver warns although it cannot have had a reason."""
    has_time = model.solver in ("auto", "canewton") and model.max_iter >= 100
    is_easy = fit.is_benign and model.tol >= 1e-6
    is_exact = all(verdict.is_exact_fit for verdict, *_ in judged)
    return has_time and (is_easy or (is_exact and model.tol > 0))


def is_same_with_one_thread(fit, model):
    again = type(model)(**(model.get_params() | {"n_jobs": 1}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again.fit(fit.X, fit.y, fit.sample_weight)
    return np.array_equal(again.coef_, model.coef_) and np.array_equal(
        again.intercept_, model.intercept_
    )
