"""Random shapes: where does the default lose to its twin in scikit-learn?

Benchmarks of chosen problems do not show the cliffs beside them. Here problems are
drawn at random, from tens of rows of a thousand columns to a hundred thousand of a few,
dense, sparse and one-hot, with strong and weak penalties, and every fit is compared
with the twin of the estimator. Each rival gets the loosest setting with which the judge
finds an objective within 1e-6 (relative) of the lowest one that any of them reached.
Problem number ``n`` is always the same, so that a loss can be looked at alone.

Examples
--------
::

    python bench_shapes.py --quick --output /tmp/quick
    python bench_shapes.py --seconds 600 --output results/shapes
    python bench_shapes.py --seed 1000 --seconds 60 --families lasso multinomial
"""

import argparse
import itertools
import time
from dataclasses import replace
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
import scipy.sparse as sp
from adapters import Skcara, SklearnLasso, SklearnLinearRegression, SklearnLogistic
from bench_small import alternate
from judge import Judge
from problems import BenchProblem, bernoulli, correlated_gaussian, one_hot
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

# Relative to the lowest objective: what both rivals are asked for.
TARGET = 1e-6
# Relative to the objective of coefficients of zero: what is no error any more.
PERFECT = 1e-12
# Settings of a rival are tightened no further once it has taken this many times the
# seconds of the other, and one more.
PATIENCE = 5
# Up to this many seconds a fit is repeated.
SHORT_SECONDS = 0.3

TWINS = {
    "lasso": SklearnLasso(precompute=False),
    "elastic net": SklearnLasso(precompute=False, name="sklearn ElasticNet"),
    "least squares": SklearnLinearRegression(),
    "logistic": SklearnLogistic("lbfgs"),
    "multinomial": SklearnLogistic("lbfgs"),
}
"""Families of problems, and the twins of their estimators."""


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three tiny problems")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    parser.add_argument("--families", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--output", default=Path("results/shapes"), type=Path)
    parser.add_argument("--clock", choices=measure.CLOCKS, default="cpu")
    return parser.parse_args()


def draw_rows(rng, n_rows, n_features):
    """Rows of a random kind, and its name."""
    kind = rng.choice(["dense", "scaled", "sparse", "one-hot"])
    if kind in ("dense", "scaled"):
        correlation = float(rng.choice([0.0, 0.5, 0.9, 0.99]))
        X = correlated_gaussian(n_rows, n_features, rng, correlation)
        if kind == "scaled":
            X *= np.exp(rng.choice([0.5, 2.0]) * rng.standard_normal(n_features))
            X += 3 * rng.standard_normal(n_features)
        return X, f"{kind}, correlation {correlation:g}"
    if kind == "sparse":
        density = max(float(rng.choice([0.01, 0.05, 0.2])), 2 / n_features)
        shape = (n_rows, n_features)
        density = min(density, 1.0)
        X = sp.random_array(shape, density=density, format="csr", random_state=rng)
        return X, f"sparse, {density:.2g} of the entries"
    return one_hot(n_rows, n_features, max(n_features // 12, 1), rng, decay=1.0), kind


def draw_problem(number, family, *, is_tiny=False):
    """Problem of a number, and what it is."""
    rng = np.random.default_rng(number)
    n_features = int(10 ** rng.uniform(0.6, 1.2 if is_tiny else 3.2))
    n_entries = 10 ** rng.uniform(3.5, 4.0 if is_tiny else 6.5)
    X, kind = draw_rows(rng, max(int(n_entries / n_features), 30), n_features)
    n_rows = X.shape[0]
    n_outputs = int(rng.integers(3, 25)) if family == "multinomial" else 1
    truth = rng.standard_normal((n_features, n_outputs))
    truth *= rng.uniform(size=truth.shape) < rng.choice([0.05, 0.3, 1.0])
    score = X @ truth
    score *= rng.choice([1.0, 3.0]) / max(score.std(), 1e-9)
    problem = BenchProblem(f"shape-{number}", "squared", X, score[:, 0])
    if family in ("logistic", "multinomial"):
        problem = replace(problem, loss=family, l2=10 ** rng.uniform(-3, 2) / n_rows)
        if family == "logistic":
            y = bernoulli(score[:, 0] + rng.choice([0.0, 3.0]), rng)
        else:
            y = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
            y = np.unique(y, return_inverse=True)[1].astype(float)
        return replace(problem, y=y), kind
    y = score[:, 0] + rng.standard_normal(n_rows) + 1.0
    largest = float(np.abs(X.T @ (y - y.mean())).max() / n_rows)
    strength = largest * 10 ** rng.uniform(-3.5, -0.3)
    shares = {"lasso": (1.0, 0.0), "elastic net": (0.5, 0.5)}
    l1, l2 = (strength * share for share in shares.get(family, (0.0, 0.0)))
    return replace(problem, y=y, l1=l1, l2=l2), kind


def climb(adapter, problem, judge, enough, patience, clock):
    """Fits with ever tighter settings until one is good enough or too slow.

    Returns
    -------
    fits : list of (setting, seconds, objective)
    """
    fits = []
    for setting in adapter.settings:
        start = clock()
        solution = adapter.solve(problem, setting)
        seconds = clock() - start
        objective = judge.objective(solution.coef, solution.intercept)
        fits.append((setting, seconds, float(objective)))
        if objective <= enough or seconds > patience:
            break
    return fits


def compare(number, family, arguments):
    """Record of one problem, or None if labels were all the same."""
    problem, kind = draw_problem(number, family, is_tiny=arguments.quick)
    if problem.loss != "squared" and len(np.unique(problem.y)) < 2:
        return None
    judge, clock = Judge(problem), measure.CLOCKS[arguments.clock]
    rivals = (Skcara(), TWINS[family])
    ours = climb(rivals[0], problem, judge, np.inf, np.inf, clock)
    # Rounding is all that a perfect fit leaves.
    zeros = np.zeros((problem.n_features, problem.n_outputs))
    noise = PERFECT * judge.objective(zeros, np.zeros(problem.n_outputs))
    enough = ours[-1][2] * (1 + TARGET) + noise
    patience = PATIENCE * ours[-1][1] + 1.0
    theirs = climb(rivals[1], problem, judge, enough, patience, clock)
    if min(fit[2] for fit in theirs) * (1 + TARGET) + noise < ours[-1][2]:
        enough = min(fit[2] for fit in theirs) * (1 + TARGET) + noise
        ours = climb(rivals[0], problem, judge, enough, np.inf, clock)
    seconds = [fits[-1][1] for fits in (ours, theirs)]
    if max(seconds) < SHORT_SECONDS:
        settings = [fits[-1][0] for fits in (ours, theirs)]
        seconds = alternate(rivals, problem, settings, repeats=5, clock=arguments.clock)
    return {
        "number": number,
        "family": family,
        "n_rows": problem.n_rows,
        "n_features": problem.n_features,
        "n_outputs": problem.n_outputs,
        "kind": kind,
        "skcara_ms": 1e3 * seconds[0],
        "twin_ms": 1e3 * seconds[1],
        "ratio": seconds[0] / seconds[1],
        "is_solved": ours[-1][2] <= enough,
        "is_solved_by_twin": theirs[-1][2] <= enough,
    }


def summary(records):
    """How often and by how much the fits of one family are slower than the twin's."""
    header = ["problem", "fits", "from 5 ms on", "median ratio", "above 1.5", "worst"]
    lines = []
    for family in TWINS:
        own = [one for one in records if one["family"] == family]
        long = [one["ratio"] for one in own if one["skcara_ms"] >= 5]
        if not own:
            continue
        cells = ["", "", ""]
        if long:
            share = np.mean(np.array(long) > 1.5)
            cells = [f"{np.median(long):.2f}", f"{share:.0%}", f"{max(long):.1f}"]
        lines.append([family, str(len(own)), str(len(long)), *cells])
    return markdown_table(header, lines)


def losses(records, n_shown=30):
    """The fits that take longest against the twin."""
    header = ["number", "problem", "rows x columns", "rows", "skcara (ms)"]
    header += ["twin (ms)", "ratio"]
    worst = sorted(records, key=lambda one: -one["ratio"])
    lines = []
    for one in worst[:n_shown]:
        if one["ratio"] <= 1:
            break
        classes = f" x {one['n_outputs']}" if one["n_outputs"] > 1 else ""
        lines.append(
            [
                str(one["number"]),
                one["family"],
                f"{one['n_rows']} x {one['n_features']}{classes}",
                one["kind"],
                f"{one['skcara_ms']:.1f}",
                f"{one['twin_ms']:.1f}" + " *" * (not one["is_solved_by_twin"]),
                f"{one['ratio']:.2f}",
            ]
        )
    return markdown_table(header, lines)


def write_report(folder, records, clock):
    """Summary and worst losses as Markdown, all numbers as CSV."""
    write_csv(folder / "shapes.csv", records)
    n_unsolved = sum(not one["is_solved"] for one in records)
    lines = [
        "# Random shapes",
        "",
        f"{measure.machine_description()}; medians of {clock} time. The ratio is "
        "the time of skcara over that of its twin: below 1 skcara is faster. "
        f"Problems that skcara did not solve: {n_unsolved} of {len(records)}.",
        "",
        "## Summary",
        "",
        *summary(records),
        "",
        "## Largest losses",
        "",
        *losses(records),
        "",
        "A star marks a twin that was not as accurate with the settings tried.",
        "",
    ]
    (folder / "shapes.md").write_text("\n".join(lines))


def main():
    """Compare until the time is over; the report is written at the end."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    started, records = time.perf_counter(), []
    with threadpool_limits(1):
        for family in arguments.families:  # the first fits import modules
            problem, _ = draw_problem(0, family, is_tiny=True)
            for adapter in (Skcara(), TWINS[family]):
                adapter.solve(problem, adapter.settings[0])
        for number in itertools.count(arguments.seed):
            is_over = time.perf_counter() - started > arguments.seconds
            if is_over or (arguments.quick and number == arguments.seed + 3):
                break
            family = arguments.families[number % len(arguments.families)]
            record = compare(number, family, arguments)
            if record is not None:
                records.append(record)
                if record["ratio"] > 1.5 or not record["is_solved"]:
                    print(losses([record])[-1], flush=True)
    write_report(arguments.output, records, arguments.clock)


if __name__ == "__main__":
    main()
