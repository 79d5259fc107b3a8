"""Growth of the fitting time with the number of rows, and peak extra memory.

The time is that of the loosest tolerance at which the judge finds a relative
suboptimality of 1e-8; the exponent is the slope of log(time) against log(rows).
Memory is measured in a fresh process, as the peak that a fit adds to the data.

Examples
--------
::

    python bench_growth.py --quick --output results
    python bench_growth.py --cache cache --output results
"""

import argparse
from functools import partial
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from adapters import ADAPTERS
from judge import Judge
from problems import logistic_gaussian, make_problem, squared_gaussian
from reference import reference_objective
from report import markdown_table, plot_growth, write_csv
from threadpoolctl import threadpool_limits

FAMILIES = {
    "logistic L2, 20 columns": partial(logistic_gaussian, n_features=20),
    "logistic L1, 20 columns": partial(logistic_gaussian, n_features=20, penalty="l1"),
    "lasso, 20 columns": partial(squared_gaussian, n_features=20),
    "least squares, 20 columns": partial(squared_gaussian, n_features=20, alpha=0.0),
}
SLOW_RIVALS = ("sklearn saga", "skglm", "celer")
RIVALS = {
    "logistic": ("skcara", "sklearn lbfgs", "sklearn newton-cholesky", "glum"),
    "squared": ("skcara", "sklearn Lasso precompute", "sklearn Ridge cholesky"),
}
SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
QUICK_SIZES = (5_000, 20_000)
MEMORY_PROBLEMS = ("logistic-l2-n10", "logistic-l2-n50", "logistic-l1-n50",
                   "multinomial-5", "lasso-n100", "least-squares-n50",
                   "census-like")  # fmt: skip
QUICK_MEMORY_PROBLEMS = ("quick-logistic-l2",)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--cache", default=None, help="folder of reference optima")
    parser.add_argument("--output", default="results/growth", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall")
    return parser.parse_args()


def growth_rows(family, build, sizes, arguments):
    """Seconds of every rival at every size, as records."""
    rows = []
    for n_rows in sizes:
        problem = build(n_rows)
        names = RIVALS[problem.loss]
        adapters = [a for a in ADAPTERS if a.name in names and a.skip(problem) is None]
        results, gradient_seconds = measure.compare(
            adapters,
            problem,
            Judge(problem),
            reference_objective(problem, arguments.cache)["objective"],
            repeats=arguments.repeats,
            budget=120.0,
            clock=arguments.clock,
        )
        for rival, result in results.items():
            rows.append(
                {
                    "family": family,
                    "n_rows": n_rows,
                    "rival": rival,
                    "seconds": result.seconds,
                    "gradient_evaluations": result.seconds / gradient_seconds,
                    "suboptimality": result.last.suboptimality,
                }
            )
        print(family, n_rows, {k: round(v.seconds, 3) for k, v in results.items()})
    return rows


def exponents(rows):
    """Table lines: slope of log(time) against log(rows) by family and rival."""
    lines = []
    for family, rival in dict.fromkeys((row["family"], row["rival"]) for row in rows):
        chosen = [r for r in rows if (r["family"], r["rival"]) == (family, rival)]
        sizes = np.log([row["n_rows"] for row in chosen])
        slope = np.polyfit(sizes, np.log([row["seconds"] for row in chosen]), 1)[0]
        times = ", ".join(f"{row['seconds']:.3f}" for row in chosen)
        lines.append([family, rival, f"{slope:.2f}", times])
    return lines


def memory_rows(names):
    """Peak extra memory of all but the slow rivals, in percent of X."""
    rows = []
    for name in names:
        problem = make_problem(name)
        adapters = [
            adapter
            for adapter in ADAPTERS
            if adapter.name not in SLOW_RIVALS and adapter.skip(problem) is None
        ]
        del problem
        for adapter in adapters:
            setting = adapter.settings[min(2, len(adapter.settings) - 1)]
            share = measure.peak_extra_memory(adapter, name, setting)
            rows.append(
                {"problem": name, "rival": adapter.name, "percent_of_X": 100 * share}
            )
            print(rows[-1], flush=True)
    return rows


def main():
    """Growth first, then memory; one Markdown file for both."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    sizes = QUICK_SIZES if arguments.quick else SIZES
    rows = []
    with threadpool_limits(1):
        for family, build in FAMILIES.items():
            rows += growth_rows(family, build, sizes, arguments)
            write_csv(arguments.output / "growth.csv", rows)
    memory = memory_rows(QUICK_MEMORY_PROBLEMS if arguments.quick else MEMORY_PROBLEMS)
    write_csv(arguments.output / "memory.csv", memory)
    plot_growth(arguments.output / "growth.png", rows)
    header = ["problem", "solver", "exponent", "seconds at each size"]
    memory_lines = [
        [row["problem"], row["rival"], f"{row['percent_of_X']:.1f}"] for row in memory
    ]
    lines = [
        "# Growth and memory",
        "",
        measure.machine_description(),
        "",
        f"Rows: {', '.join(str(size) for size in sizes)}; {arguments.clock} time.",
        "",
        *markdown_table(header, exponents(rows)),
        "",
        *markdown_table(["problem", "solver", "peak extra, % of X"], memory_lines),
        "",
    ]
    (arguments.output / "growth.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
