"""Small fits: every estimator against its twin in scikit-learn, in milliseconds.

Below some ten thousand rows a fit is over before the data matter: what is measured is
the price of validation, of Python calls and of the rounds. Each estimator is compared
with the one scikit-learn estimator that it replaces, twice: as a user gets it, at the
default tolerance, and at the loosest tolerance at which the judge finds a relative
suboptimality of 1e-8. The fits alternate, so that a slow moment of the machine hits
both; the table shows medians of CPU time.

Examples
--------
::

    python bench_small.py --quick --output results
    python bench_small.py --cache cache --output results
"""

import argparse
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from adapters import Skcara, SklearnLasso, SklearnLinearRegression, SklearnLogistic
from judge import Judge
from problems import logistic_gaussian, multinomial_gaussian, squared_gaussian
from reference import reference_objective
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

SHAPES = ((200, 5), (500, 10), (1_000, 20), (3_000, 20), (10_000, 20))
SHAPES += ((500, 100), (2_000, 100), (2_000, 300), (10_000, 100))
QUICK_SHAPES = ((200, 5),)


def elastic_net_gaussian(n_rows, n_features):
    """Penalty of strength 0.01, half of it L1."""
    problem = squared_gaussian(n_rows, n_features)
    name = problem.name.replace("lasso", "elastic-net")
    return replace(problem, name=name, l1=problem.l1 / 2, l2=problem.l1 / 2)


FAMILIES = {
    "Lasso": (squared_gaussian, SklearnLasso(precompute=False)),
    "elastic net": (
        elastic_net_gaussian,
        SklearnLasso(precompute=False, name="sklearn ElasticNet"),
    ),
    "least squares": (partial(squared_gaussian, alpha=0.0), SklearnLinearRegression()),
    "logistic L2": (logistic_gaussian, SklearnLogistic("lbfgs")),
    "logistic L1": (partial(logistic_gaussian, penalty="l1"), SklearnLogistic("saga")),
    "multinomial, 4 classes": (
        partial(multinomial_gaussian, n_classes=4),
        SklearnLogistic("lbfgs"),
    ),
}
"""Problems by rows and columns, and the twin of the estimator for them."""


@dataclass(frozen=True)
class Contest:
    """Two rivals with one setting each, and what the judge says.

    Attributes
    ----------
    settings : tuple of float
        Of skcara and of its twin.
    suboptimality : tuple of float
        Relative, on the full data.
    """

    settings: tuple
    suboptimality: tuple


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one tiny shape")
    parser.add_argument("--cache", default=None, help="folder of reference optima")
    parser.add_argument("--output", default=Path("results/small"), type=Path)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--clock", choices=measure.CLOCKS, default="cpu")
    return parser.parse_args()


def suboptimality(adapter, problem, judge, optimum, setting):
    """Relative distance of one fit to the optimum, on the full data."""
    solution = adapter.solve(problem, setting)
    objective = judge.objective(solution.coef, solution.intercept)
    return float((objective - optimum) / abs(optimum))


def first_solved(adapter, problem, judge, optimum):
    """Loosest setting that solves the problem, or the tightest; its suboptimality."""
    for setting in adapter.settings:
        reached = suboptimality(adapter, problem, judge, optimum, setting)
        if reached <= measure.TARGET:
            break
    return setting, reached


def contests(rivals, problem, optimum):
    """Default settings against each other, and settings that solve the problem."""
    judge = Judge(problem)
    settings = tuple(adapter.settings[0] for adapter in rivals)
    reached = tuple(
        suboptimality(adapter, problem, judge, optimum, setting)
        for adapter, setting in zip(rivals, settings, strict=True)
    )
    solved = [first_solved(adapter, problem, judge, optimum) for adapter in rivals]
    return Contest(settings, reached), Contest(*zip(*solved, strict=True))


def alternate(rivals, problem, settings, *, repeats, clock):
    """Median seconds of each rival; every repeat lets all of them fit once."""
    clock, seconds = measure.CLOCKS[clock], [[] for _ in rivals]
    for _ in range(repeats):
        for adapter, setting, mine in zip(rivals, settings, seconds, strict=True):
            start = clock()
            adapter.solve(problem, setting)
            mine.append(clock() - start)
    return [float(np.median(mine)) for mine in seconds]


def compare(family, shape, arguments):
    """Record of one estimator and its twin on one shape."""
    build, twin = FAMILIES[family]
    problem = build(*shape)
    optimum = reference_objective(problem, arguments.cache)["objective"]
    rivals = (Skcara(), twin)
    record = {"family": family, "n_rows": shape[0], "n_features": shape[1]}
    record["twin"] = twin.name
    labels = ("default", "solved")
    for label, contest in zip(labels, contests(rivals, problem, optimum), strict=True):
        ours, theirs = alternate(
            rivals,
            problem,
            contest.settings,
            repeats=3 if arguments.quick else arguments.repeats,
            clock=arguments.clock,
        )
        record |= {
            f"{label}_skcara_ms": 1e3 * ours,
            f"{label}_twin_ms": 1e3 * theirs,
            f"{label}_ratio": ours / theirs,
            f"{label}_skcara_suboptimality": contest.suboptimality[0],
            f"{label}_twin_suboptimality": contest.suboptimality[1],
        }
    return record


def table(records, label):
    """Markdown lines for the default settings or for those that solve the problem."""
    header = ["problem", "rows x columns", "skcara (ms)", "twin (ms)", "ratio"]
    header += ["suboptimality", "of twin", "twin"]
    lines = [
        [
            record["family"],
            f"{record['n_rows']} x {record['n_features']}",
            f"{record[f'{label}_skcara_ms']:.2f}",
            f"{record[f'{label}_twin_ms']:.2f}",
            f"{record[f'{label}_ratio']:.2f}",
            f"{record[f'{label}_skcara_suboptimality']:.0e}",
            f"{record[f'{label}_twin_suboptimality']:.0e}",
            record["twin"],
        ]
        for record in records
    ]
    return markdown_table(header, lines)


def write_report(folder, records, clock):
    """Both tables as Markdown, all numbers as CSV."""
    write_csv(folder / "small.csv", records)
    lines = [
        "# Small fits",
        "",
        f"{measure.machine_description()}; medians of {clock} time. The ratio is "
        "the time of skcara over that of its twin: below 1 skcara is faster.",
        "",
        "## At the default tolerance",
        "",
        *table(records, "default"),
        "",
        f"## At a relative suboptimality of {measure.TARGET:g}",
        "",
        *table(records, "solved"),
        "",
    ]
    (folder / "small.md").write_text("\n".join(lines))


def main():
    """Compare all estimators on all shapes; the report is rewritten after each."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    records = []
    with threadpool_limits(1):
        for family in FAMILIES:
            for shape in QUICK_SHAPES if arguments.quick else SHAPES:
                records.append(compare(family, shape, arguments))
                print(table(records[-1:], "solved")[-1], flush=True)
                write_report(arguments.output, records, arguments.clock)


if __name__ == "__main__":
    main()
