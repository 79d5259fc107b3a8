"""What several problems cost that share their reads of the data.

Two tables, each measured side by side in one process on one thread:

1. ten evaluations of a logistic regression, asked for one after the other or all at
   once: one product of a chunk with all coefficients instead of ten;
2. fits of twenty targets against the fit of one.

Examples
--------
::

    python bench_shared.py --quick --output results
    python bench_shared.py --output results
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from bench_inner import make_problem, median_seconds, write_tables
from report import markdown_table

from skcara import CaLasso, CaLeastSquares
from skcara.objective import LogisticLoss
from skcara.passes import Evaluate
from skcara.solvers import answer_all

N_POINTS, N_TARGETS = 10, 20


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", default="results/shared", type=Path)
    return parser.parse_args()


def stacked_table(arguments):
    """Markdown lines: ten points one by one, and at once."""
    n_rows = 5000 if arguments.quick else 200_000
    table = []
    for n_features in (20, 100):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, n_features))
        y = (X[:, 0] + rng.standard_normal(n_rows) > 0).astype(np.int8)
        problem, source = make_problem(X, y, LogisticLoss())
        points = 0.1 * rng.standard_normal((N_POINTS, n_features, 1))
        requests = [Evaluate(problem, params) for params in points]

        def one_by_one(source=source, requests=requests):
            return [answer_all(source, [request]) for request in requests]

        functions = {
            "one by one": one_by_one,
            "stacked": partial(answer_all, source, requests),
        }
        table += ratio_rows(functions, arguments.repeats, n_rows, n_features)
    header = ["rows", "columns", f"{N_POINTS} evaluations", "milliseconds", "ratio"]
    return markdown_table(header, table)


def targets_table(arguments):
    """Markdown lines: one target, and twenty."""
    n_rows = 5000 if arguments.quick else 500_000
    n_features, rng, table = 30, np.random.default_rng(0), []
    X = rng.standard_normal((n_rows, n_features))
    noise = rng.standard_normal((n_rows, N_TARGETS))
    Y = X @ rng.standard_normal((n_features, N_TARGETS)) + noise
    for model in (CaLeastSquares(), CaLasso(alpha=0.1)):
        functions = {
            f"{type(model).__name__}, 1 target": partial(model.fit, X, Y[:, 0].copy()),
            f"{type(model).__name__}, {N_TARGETS} targets": partial(model.fit, X, Y),
        }
        table += ratio_rows(functions, arguments.repeats, n_rows, n_features)
    return markdown_table(["rows", "columns", "fit", "milliseconds", "ratio"], table)


def ratio_rows(functions, repeats, n_rows, n_features):
    """Cells of some functions, relative to the first of them."""
    seconds = median_seconds(functions, repeats)
    baseline = next(iter(seconds.values()))
    return [
        [n_rows, n_features, name, f"{1e3 * s:.1f}", f"{s / baseline:.2f}"]
        for name, s in seconds.items()
    ]


def main():
    """Print and write the tables."""
    sections = {"Stacked evaluations": stacked_table, "Several targets": targets_table}
    write_tables(sections, parse_arguments(), "shared.md")


if __name__ == "__main__":
    main()
