"""A random campaign: many nasty problems, judged by code that shares nothing.

::

    python tests/campaign.py --seconds 600 --seed 0
    python tests/campaign.py --kind recombinations --cases 100000
    python tests/campaign.py --kind fits --replay 20000123

Problem number ``n`` is always the same; a run with ``--seed s`` takes the numbers from
``s`` times ten million on. A failure is one line with the number to replay. What is
judged, see `examine_fit` and `examine_cloud`; how, see `campaign_judge`.
"""

import argparse
import itertools
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from campaign_clouds import draw_cloud
from campaign_judge import (
    SLACK,
    Rows,
    judge_logistic,
    judge_measure,
    judge_squared,
)
from campaign_problems import draw_fit
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skcara import CaLasso, CaLogisticRegression, merge, recombine
from skcara.recombination import RECOMBINATION_METHODS, recombine_groups

SEEDS_PER_RUN = 10_000_000
# A problem that takes longer is reported as one that does not end.
PATIENCE = 120


class Report(NamedTuple):
    """What came out of one problem: failures as (kind, detail), and a remark."""

    failures: list
    remark: str = ""


# ---- fits -----------------------------------------------------------------------


def snapshot(*arrays):
    """Bytes of all arrays, to see that nobody has written into them."""
    parts = []
    for array in arrays:
        if sparse.issparse(array):
            parts += [array.data, array.indices, array.indptr]
        elif array is not None:
            parts.append(array)
    return [part.tobytes() for part in parts]


def class_factors(model, codes, weights):
    """Weight of every class: "balanced" gives all of them the same total."""
    if model.class_weight is None:
        return np.ones(len(model.classes_))
    masses = np.bincount(codes, weights, len(model.classes_))
    factors = np.zeros(len(masses))
    np.divide(masses.sum(), len(masses) * masses, out=factors, where=masses > 0)
    return factors


def verdicts(fit, model):
    """One verdict per target, with the fitted attributes of that target."""
    weights = np.ones(len(fit.y)) if fit.sample_weight is None else fit.sample_weight
    if isinstance(model, CaLogisticRegression):
        codes = np.searchsorted(model.classes_, fit.y)
        weights = weights * class_factors(model, codes, weights)[codes]
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


def compare(exact, objective, optimality, gap, tol, has_converged):
    """Failures of one fitted problem against its verdict."""
    if not abs(objective - exact.objective) <= exact.objective_error:
        yield (
            "objective_",
            f"{objective:.6g}, true {exact.objective:.6g}, off by "
            f"{objective - exact.objective:.2g}, allowed {exact.objective_error:.1g}",
        )
    if exact.objective > exact.at_zero + exact.objective_error:
        yield "worse than zero", f"{exact.objective:.6g} > {exact.at_zero:.6g}"
    slack = SLACK * exact.optimality + exact.optimality_error
    if not abs(optimality - exact.optimality) <= slack:
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
    if gap is not None and exact.gap is not None:
        if not gap >= exact.gap * (1 - SLACK) - exact.gap_error:
            yield (
                "dual_gap_",
                f"{gap:.3g}, true {exact.gap:.3g} +- {exact.gap_error:.1g}",
            )


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
    """Generous: some seconds, the Gram matrix, and twenty passes a round."""
    n_rows, n_columns = fit.X.shape
    n_outputs = np.atleast_2d(fit.estimator.coef_).shape[0]
    work = float(n_rows) * n_columns * n_outputs * (n_columns + 20 * n_rounds)
    return 5 + 2e-8 * work


def examine_fit(seed) -> Report:
    """Draw, fit and judge one problem."""
    fit = draw_fit(seed)
    before = snapshot(fit.X, fit.y, fit.sample_weight)
    model = fit.estimator
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught, patience():
        warnings.simplefilter("always")
        try:
            model.fit(fit.X, fit.y, fit.sample_weight)
        except Exception as error:  # the campaign is about these
            return Report([(type(error).__name__, where(error))], str(fit))
    seconds = time.process_time() - started
    alarms, others = [], []
    for warning in caught:
        is_alarm = issubclass(warning.category, ConvergenceWarning)
        (alarms if is_alarm else others).append(warning)
    failures = [(other.category.__name__, str(other.message)) for other in others]
    failures += judge_fit(fit, model, has_converged=not alarms)
    if snapshot(fit.X, fit.y, fit.sample_weight) != before:
        failures.append(("inputs", "X, y or sample_weight were modified"))
    limit = allowed_seconds(fit, np.max(model.n_iter_))
    if seconds > limit:
        failures.append(("slow", f"{seconds:.1f} s, allowed {limit:.1f}"))
    if model.n_jobs == 2 and not is_same_with_one_thread(fit, model):
        failures.append(("n_jobs", "another result with n_jobs=1"))
    return Report(failures, str(fit) if failures else "warned" * bool(alarms))


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


# ---- recombinations -------------------------------------------------------------


def run_cloud(cloud):
    """Run a mission; return the result and the points and masses it stands for."""
    points, weights, options = cloud.points, cloud.weights, cloud.options
    n_rows = len(points)
    if cloud.mission == "recombine":
        masses = np.full(n_rows, 1 / n_rows) if weights is None else weights
        return recombine(points, weights, **options), points, masses
    masses = np.ones(n_rows) if weights is None else weights
    if cloud.mission == "merge":
        part = np.random.default_rng(cloud.seed).integers(0, 3, n_rows)
        pairs = []
        for rows in (np.flatnonzero(part == k) for k in range(3)):
            if masses[rows].any():
                indices, new = recombine(points[rows], masses[rows], **options)
                pairs.append((rows[indices], new))
        return merge(points, pairs, **options), points, masses
    # Groups of one row: the measure on the rows is the one on the groups.
    sums = np.asarray(points, dtype=np.float64) * masses[:, None]
    result = recombine_groups(sums, masses, np.arange(n_rows + 1), masses, **options)
    # The sums may have lost what the points were; they are what was given.
    divisors = np.where(masses > 0, masses, 1).astype(np.longdouble)
    return result, sums / divisors[:, None], masses


def examine_cloud(seed) -> Report:
    """Draw, reduce and judge one measure."""
    cloud = draw_cloud(seed)
    before = snapshot(cloud.points, cloud.weights)
    with warnings.catch_warnings(), patience():
        warnings.simplefilter("error")
        try:
            result, points, masses = run_cloud(cloud)
        except Exception as error:  # the campaign is about these
            return Report([(type(error).__name__, where(error))], str(cloud))
    size = cloud.options.get("target_size")
    failures = [
        ("measure", text) for text in judge_measure(points, masses, result, size)
    ]
    if result.method not in {*RECOMBINATION_METHODS, "nnls"} - {"auto"}:
        failures.append(("method", repr(result.method)))
    if snapshot(cloud.points, cloud.weights) != before:
        failures.append(("inputs", "points or weights were modified"))
    asked = cloud.options["method"]
    fell_back = asked not in ("auto", "calibration", result.method)
    return Report(failures, str(cloud) if failures else "fell back" * fell_back)


# ---- the run --------------------------------------------------------------------


KINDS = {"fits": examine_fit, "recombinations": examine_cloud}


@contextmanager
def patience():
    """Turn a hang into an exception, where the platform has alarms."""

    def give_up(signum, frame):
        raise TimeoutError(f"no end after {PATIENCE} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    previous = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def where(error):
    """What was raised, and the innermost line of the package it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if "skcara" in frame.filename] or frames
    name = inner[-1].filename.rpartition("skcara/")[2]
    text = " ".join(str(error).split())[:200]
    return f"{text} ({name}:{inner[-1].lineno})"


def run(kind, seeds, seconds):
    """Examine problems until the time is over; print failures and a summary."""
    started = time.perf_counter()
    kinds, remarks, n_cases, n_failed = Counter(), Counter(), 0, 0
    for seed in seeds:
        if time.perf_counter() - started > seconds:
            break
        report = KINDS[kind](seed)
        n_cases += 1
        n_failed += bool(report.failures)
        for name, detail in report.failures:
            kinds[name] += 1
            print(
                f"{kind} --replay {seed}: {name}: {detail} | {report.remark}",
                flush=True,
            )
        if not report.failures and report.remark:
            remarks[report.remark] += 1
    print(
        f"{kind}: {n_cases} cases in {time.perf_counter() - started:.0f} s, "
        f"{n_failed} with failures {dict(kinds)}; {dict(remarks)}",
        flush=True,
    )
    return n_failed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind")
    parser.add_argument("--cases", type=int, help="most problems of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int, help="number of one problem")
    options = parser.parse_args(arguments)
    seeds = itertools.count(options.seed * SEEDS_PER_RUN)
    if options.replay is not None:
        seeds = [options.replay]
    elif options.cases is not None:
        seeds = itertools.islice(seeds, options.cases)
    kinds = options.kind or list(KINDS)
    # Kinds take turns in the same numbers, so each gets its own iterator.
    streams = itertools.tee(seeds, len(kinds))
    with threadpool_limits(1, user_api="blas"):
        failed = [
            run(kind, stream, options.seconds)
            for kind, stream in zip(kinds, streams, strict=True)
        ]
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
