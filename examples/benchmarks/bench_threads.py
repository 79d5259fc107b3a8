"""What a second thread is worth: fits with one and with two threads, in turn.

A thread cannot give more than the machine has. So the same minute also measures what
two plain threads reach on products of matrices, whose data stay in the cache, and on
passes over a large array, which are bound by memory; on a busy machine neither is
near two. Wall time, the best of several rounds; one thread for BLAS.

Examples
--------
::

    python bench_threads.py --quick --output results
    python bench_threads.py --output results/threads
"""

import argparse
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from problems import logistic_gaussian, multinomial_gaussian, squared_gaussian
from report import markdown_table, write_csv
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skcara import CaLasso, CaLassoCV, CaLeastSquares, CaLogisticRegression

N_THREADS = 2
CALIBRATIONS = ("plain threads: products", "plain threads: memory")
# Blocks of the article's descent, reduced and moved side by side.
CABCD = {"solver": "cabcd", "max_iter": 3, "tol": 1e-12, "random_state": 0}


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--output", default="results/threads", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


def make_fits(scale):
    """Functions of the number of threads, by name; ``scale`` shrinks the data."""
    rows = {size: int(size * scale) for size in (300_000, 1_000_000, 2_000_000)}
    tall, wide = rows[2_000_000], rows[1_000_000]
    fits = {}

    def add(name, make_estimator, problem):
        X, y = problem.X, problem.y
        fits[name] = lambda n_jobs: make_estimator(n_jobs=n_jobs).fit(X, y)

    logistic = logistic_gaussian(tall, 20)
    squared = squared_gaussian(tall, 20)
    add("logistic, 2e6 x 20", CaLogisticRegression, logistic)
    add("Lasso, 2e6 x 20", partial(CaLasso, 0.01), squared)
    add("least squares, 2e6 x 20", CaLeastSquares, squared)
    squared = squared_gaussian(wide, 100)
    add("logistic, 1e6 x 100", CaLogisticRegression, logistic_gaussian(wide, 100))
    add("Lasso, 1e6 x 100", partial(CaLasso, 0.01), squared)
    add("least squares, 1e6 x 100", CaLeastSquares, squared)
    add("CaLassoCV, 1e6 x 100", CaLassoCV, squared)
    add("Lasso, 1e6 x 80", partial(CaLasso, 0.01), squared_gaussian(wide, 80))
    few = rows[300_000]
    for n_features, n_classes in ((40, 5), (100, 10)):
        name = f"multinomial, 3e5 x {n_features}, {n_classes} classes"
        problem = multinomial_gaussian(few, n_features, n_classes)
        add(name, CaLogisticRegression, problem)
    descent = partial(CaLogisticRegression, **CABCD)
    add("cabcd, blocks of two, 3e5 x 60", descent, logistic_gaussian(few, 60))
    descent = partial(CaLasso, 0.01, block_size=5, **CABCD)
    add("cabcd, blocks of five, 1e6 x 60", descent, squared_gaussian(wide, 60))
    return fits


def make_calibrations(scale):
    """What plain threads do with the same work, as functions of their number."""
    square = np.random.default_rng(0).standard_normal((256, 256))
    large = np.ones(int(40_000_000 * scale))
    n_products = int(400 * scale) + 8

    def multiply(_):
        for _ in range(n_products // 8):
            square @ square

    def read(part):
        return part.sum()

    def run(function, items, n_jobs):
        with ThreadPoolExecutor(n_jobs) as executor:
            list(executor.map(function, items))

    return {
        CALIBRATIONS[0]: partial(run, multiply, range(8)),
        CALIBRATIONS[1]: partial(run, read, np.array_split(large, 64)),
    }


def best_seconds(function, repeats):
    """Best wall time with one and with several threads, measured in turn."""
    best = dict.fromkeys((1, N_THREADS), np.inf)
    for _ in range(repeats):
        for n_jobs in best:
            start = time.perf_counter()
            function(n_jobs)
            best[n_jobs] = min(best[n_jobs], time.perf_counter() - start)
    return best


def thread_rows(scale, repeats):
    """Records of all fits, and of the plain threads before and after them."""
    rows = []

    def measure_all(functions):
        for name, function in functions.items():
            best = best_seconds(function, repeats)
            speedup = best[1] / best[N_THREADS]
            rows.append(
                {"work": name, "seconds_1": best[1], "seconds_2": best[N_THREADS],
                 "speedup": speedup, "load": os.getloadavg()[0]}
            )  # fmt: skip
            print(f"{name}: {speedup:.2f}", flush=True)

    calibrations = make_calibrations(scale)
    measure_all(calibrations)
    measure_all(make_fits(scale))
    measure_all(calibrations)
    return rows


def main():
    """Write a table and a CSV file."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    # Three rounds of cabcd are not meant to converge.
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        rows = thread_rows(0.01 if arguments.quick else 1.0, arguments.repeats)
    write_csv(arguments.output / "threads.csv", rows)
    header = ["work", "one thread (s)", "two threads (s)", "speed-up", "load"]
    lines = [
        [row["work"], f"{row['seconds_1']:.3f}", f"{row['seconds_2']:.3f}",
         f"{row['speedup']:.2f}", f"{row['load']:.1f}"]
        for row in rows
    ]  # fmt: skip
    text = ["# Two threads", "", measure.machine_description(), ""]
    text += markdown_table(header, lines)
    (arguments.output / "threads.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
