"""Price list of the recombination methods: processor seconds against rows.

Gaussian points with random weights in one dimension, one thread. A method is measured
several times unless one call takes seconds, and left out where its time at the last
size, grown with the rows, would exceed the budget.

Examples
--------
::

    python bench_methods.py --quick --output results
    python bench_methods.py --output results/recombine
"""

import argparse
import time
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from bench_recombine import column_error
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

from skcara import recombine
from skcara.recombination import RECOMBINATION_METHODS

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (500, 1_000)
# Calls shorter than this are repeated; the median of three is reported.
SHORT_SECONDS = 2.0
REPEATS = 3


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--budget", type=float, default=300.0, help="seconds per call")
    parser.add_argument("--output", default="results/recombine", type=Path)
    return parser.parse_args()


def measure_method(method, points, weights):
    """Return median processor seconds and the result of a method."""
    seconds = []
    while len(seconds) < REPEATS:
        started = time.process_time()
        result = recombine(points, weights, method=method, random_state=0)
        seconds.append(time.process_time() - started)
        if seconds[-1] > SHORT_SECONDS:
            break
    return np.median(seconds), result


def run(sizes, dimension, budget):
    """Yield one row for every method and size."""
    seconds_per_row = dict.fromkeys(RECOMBINATION_METHODS, 0.0)
    for n_rows in sizes:
        rng = np.random.default_rng(dimension)
        points = rng.standard_normal((n_rows, dimension))
        weights = rng.random(n_rows)
        for method in RECOMBINATION_METHODS:
            if seconds_per_row[method] * n_rows > budget:
                continue
            seconds, result = measure_method(method, points, weights)
            seconds_per_row[method] = seconds / n_rows
            yield {
                "method": method,
                "n_rows": n_rows,
                "dimension": dimension,
                "seconds": seconds,
                "atoms": len(result.indices),
                "answered": result.method,
                "error": column_error(points, weights, result.indices, result.weights),
            }


def table(rows, sizes):
    """Markdown lines: seconds of every method at every size."""
    cells = {(row["method"], row["n_rows"]): row for row in rows}
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [cells[method, size] for size in sizes if (method, size) in cells]
        seconds = [
            f"{cells[method, size]['seconds']:.3g}" if (method, size) in cells else "-"
            for size in sizes
        ]
        largest = max(row["error"] for row in own)
        lines.append([f"`{method}`", *seconds, f"{largest:.0e}"])
    header = ["method", *(f"{size:,} rows" for size in sizes), "largest error"]
    return markdown_table(header, lines)


def main():
    """Measure, print the table, write CSV and Markdown."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    sizes = QUICK_SIZES if arguments.quick else SIZES
    with threadpool_limits(1):
        rows = list(run(sizes, arguments.dimension, arguments.budget))
    lines = [
        "# Price of the methods",
        "",
        measure.machine_description(),
        "",
        f"Processor seconds, {arguments.dimension} columns, random weights.",
        "",
        *table(rows, sizes),
        "",
    ]
    print("\n".join(lines))
    write_csv(arguments.output / "methods.csv", rows)
    (arguments.output / "methods.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
