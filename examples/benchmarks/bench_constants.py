"""What does a tuning constant decide? The same fits with other values of it.

The package has some two hundred numbers. Each has its reason beside it; those that
decide speed, and nothing but speed, are listed here with values around the shipped one
and the fits that feel them. Fits with all values take turns, on one thread, and the
table shows medians of processor time relative to the shipped value: where every other
entry of a row is above one, the number is well chosen for that fit.

Examples
--------
::

    python bench_constants.py --list
    python bench_constants.py solvers._strategy._MAX_DENSE_COLUMNS
    python bench_constants.py data._source._CHUNK_ENTRIES --values 65536 1048576
    python bench_constants.py --output results/constants     # all of them, five minutes
"""

import argparse
import csv
import importlib
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from problems import (
    census_like,
    logistic_gaussian,
    multinomial_gaussian,
    squared_gaussian,
)
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

from skcara import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
    recombine,
)

TIGHT = 1e-7
"""Tolerance of the fits, so that the last rounds count as well."""


@dataclass(frozen=True)
class Workload:
    """A fit that can be repeated.

    Attributes
    ----------
    make : callable
        ``make(divisor)`` builds the data, with that many times fewer rows.
    run : callable
        ``run(data)`` makes a cold fit.
    """

    make: Callable[[int], object]
    run: Callable[[object], object]


def _estimating(make_estimator, build, n_rows, *arguments, **options):
    """Workload of an estimator on one of the problems of the benchmarks."""

    def make(divisor):
        return build(n_rows // divisor, *arguments, **options)

    def run(problem):
        return make_estimator(problem).fit(problem.X, problem.y)

    return Workload(make, run)


def _logistic(problem, **options):
    return CaLogisticRegression(
        C=problem.inverse_strength, l1_ratio=problem.l1_ratio, tol=TIGHT, **options
    )


def _lasso(problem, **options):
    return CaLasso(problem.l1, tol=TIGHT, **options)


def _points(divisor, n_rows=200_000, n_columns=20):
    shape = n_rows // divisor, n_columns
    return np.random.default_rng(0).standard_normal(shape)


def _sparse_lasso(divisor):
    """One-hot columns with a real target."""
    problem = census_like(200_000 // divisor, 300, 10)
    noise = np.random.default_rng(1).standard_normal(problem.n_rows)
    return problem.X, problem.y + noise


def _dense_levels(divisor):
    """One-hot columns, dense: a few rows carry much."""
    problem = census_like(150_000 // divisor, 40, 4)
    return problem.X.toarray(), problem.y


WORKLOADS = {
    "logistic, 20 columns": _estimating(_logistic, logistic_gaussian, 500_000, 20),
    "logistic, 50 columns": _estimating(_logistic, logistic_gaussian, 300_000, 50),
    "logistic, 90 columns": _estimating(_logistic, logistic_gaussian, 100_000, 90),
    "logistic, 200 columns": _estimating(_logistic, logistic_gaussian, 50_000, 200),
    **{
        f"logistic, 100 columns of {n_rows} rows": _estimating(
            _logistic, logistic_gaussian, n_rows, 100
        )
        for n_rows in (2_000, 5_000, 30_000)
    },
    "logistic, 1000 rows": _estimating(_logistic, logistic_gaussian, 1000, 20),
    "logistic L1, 1000 rows": _estimating(
        _logistic, logistic_gaussian, 1000, 20, penalty="l1"
    ),
    "logistic, 20 000 rows": _estimating(_logistic, logistic_gaussian, 20_000, 20),
    "logistic L1, 50 columns": _estimating(
        _logistic, logistic_gaussian, 300_000, 50, penalty="l1"
    ),
    "logistic L1, wide": _estimating(
        _logistic, logistic_gaussian, 2_000, 1_000, penalty="l1"
    ),
    "multinomial, 5 classes": _estimating(
        _logistic, multinomial_gaussian, 100_000, 20, 5
    ),
    "multinomial L1, 20 classes": _estimating(
        lambda problem: CaLogisticRegression(C=100.0, l1_ratio=1.0, tol=TIGHT),
        multinomial_gaussian,
        1_000,
        20,
        20,
    ),
    "multinomial L1, 300 rows": _estimating(
        lambda problem: CaLogisticRegression(C=100.0, l1_ratio=1.0, tol=TIGHT),
        multinomial_gaussian,
        300,
        40,
        30,
    ),
    "one-hot logistic": _estimating(_logistic, census_like, 100_000, 300),
    "logistic, tree": _estimating(
        lambda problem: _logistic(problem, recombination="tree"),
        logistic_gaussian,
        200_000,
        20,
    ),
    "logistic, cagd": _estimating(
        lambda problem: CaLogisticRegression(solver="cagd"),
        logistic_gaussian,
        50_000,
        10,
    ),
    "Lasso, 20 columns": _estimating(_lasso, squared_gaussian, 500_000, 20),
    "Lasso, 60 columns": _estimating(_lasso, squared_gaussian, 300_000, 60),
    "Lasso, 120 columns": _estimating(_lasso, squared_gaussian, 300_000, 120),
    "Lasso, wide": _estimating(_lasso, squared_gaussian, 500, 2_000, alpha=0.1),
    "Lasso, 300 columns": _estimating(_lasso, squared_gaussian, 3_000, 300),
    "Lasso, 100 columns of 2000 rows": _estimating(
        _lasso, squared_gaussian, 2_000, 100
    ),
    "Lasso, 200 columns of 8000 rows": _estimating(
        _lasso, squared_gaussian, 8_000, 200
    ),
    "Lasso, cabcd": _estimating(
        lambda problem: CaLasso(problem.l1, solver="cabcd"),
        squared_gaussian,
        100_000,
        20,
    ),
    "sparse Lasso": Workload(
        _sparse_lasso, lambda data: CaLasso(1e-3, tol=TIGHT).fit(*data)
    ),
    "least squares, 20 columns": _estimating(
        lambda problem: CaLeastSquares(), squared_gaussian, 500_000, 20, alpha=0.0
    ),
    "search, Lasso, 50 columns": _estimating(
        lambda problem: CaLassoCV(), squared_gaussian, 200_000, 50
    ),
    "search, Lasso, 300 columns": _estimating(
        lambda problem: CaLassoCV(), squared_gaussian, 20_000, 300
    ),
    "search, logistic, 20 columns": _estimating(
        lambda problem: CaLogisticRegressionCV(), logistic_gaussian, 100_000, 20
    ),
    "search, logistic, 1000 rows": _estimating(
        lambda problem: CaLogisticRegressionCV(refit=False), logistic_gaussian, 1000, 20
    ),
    "search, logistic, 500 000 rows": _estimating(
        lambda problem: CaLogisticRegressionCV(refit=False),
        logistic_gaussian,
        500_000,
        20,
    ),
    "search, one-hot": _estimating(
        lambda problem: CaLogisticRegressionCV(refit=False),
        census_like,
        30_000,
        120,
        14,
    ),
    "search, dense levels": Workload(
        _dense_levels, lambda data: CaLogisticRegressionCV(refit=False).fit(*data)
    ),
    "recombine": Workload(_points, lambda points: recombine(points, random_state=0)),
    "recombine, cone": Workload(
        lambda divisor: _points(divisor, 20_000, 90),
        lambda points: recombine(points, method="cone", random_state=0),
    ),
}

PASSES = ("logistic, 20 columns", "Lasso, 60 columns", "multinomial, 5 classes")
FEW_ROWS = ("logistic, 1000 rows", "logistic L1, 1000 rows", "logistic, 20 000 rows")
MEASURES = ("logistic, 50 columns", "logistic L1, 50 columns", "multinomial, 5 classes")

STUDIES = {
    # chunks of rows
    "data._source._CHUNK_ENTRIES": ((2**16, 2**17, 2**18, 2**20), PASSES),
    "data._source._MAX_CHUNK_ROWS": ((1024, 2048, 4096, 8192, 32768), PASSES),
    "data._source._MAX_SPARSE_CHUNK_ROWS": (
        (2**12, 2**13, 2**14, 2**16),
        ("one-hot logistic", "sparse Lasso"),
    ),
    "data._sparse_gram._COUNTED_SHARE": ((0.0, 0.05, 0.5, 1.0), ("sparse Lasso",)),
    "data._sparse_gram._MAX_PAIRS": ((2**19, 2**21, 2**25), ("sparse Lasso",)),
    # which way
    "solvers._strategy._SMALL_ENTRIES": (
        (2**16, 2**18, 2**22),
        ("logistic, 20 000 rows", "logistic, cagd"),
    ),
    "solvers._strategy._TALL_ROWS_PER_COORD": (
        (100, 250, 1000, 2000),
        ("logistic, 90 columns", "multinomial, 5 classes"),
    ),
    "solvers._strategy._MAX_DENSE_COLUMNS": (
        (40, 160),
        ("Lasso, 60 columns", "Lasso, 120 columns"),
    ),
    "solvers._strategy._MAX_SPARSE_COLUMNS": ((100, 10_000), ("sparse Lasso",)),
    "solvers._strategy._MAX_SPARSE_ENTRIES": ((4, 128), ("sparse Lasso",)),
    "solvers._strategy._MIN_FEATURES": (
        (50, 5_000),
        ("Lasso, wide", "logistic L1, wide"),
    ),
    "solvers._strategy._MAX_ROWS_PER_FEATURE": ((1, 100), ("logistic L1, wide",)),
    "solvers._strategy._GRAM_FEATURES": ((200,), ("Lasso, 300 columns",)),
    "solvers._strategy._GRAM_ROWS_PER_FEATURE": ((20,), ("Lasso, 300 columns",)),
    "solvers._strategy._MIN_DESCENT_COLUMNS": (
        (40, 1000),
        ("Lasso, 100 columns of 2000 rows", "Lasso, 300 columns"),
    ),
    "solvers._strategy._MAX_DESCENT_ROWS": (
        (5, 80),
        ("Lasso, 300 columns", "Lasso, 200 columns of 8000 rows"),
    ),
    "solvers._strategy._FEW_HESSIAN_TERMS": (
        (0, 2**26),
        ("logistic, 100 columns of 2000 rows", "logistic, 100 columns of 5000 rows"),
    ),
    "data._products._CACHED_ENTRIES": (
        (0, 2**22, 2**23),
        ("logistic, 100 columns of 5000 rows", "logistic, 100 columns of 30000 rows"),
    ),
    "solvers._strategy._MANY_COLUMNS": (
        (40, 80, 300),
        ("logistic, 50 columns", "logistic, 90 columns", "logistic, 200 columns"),
    ),
    "solvers._strategy._FEW_ROWS_PER_COLUMN": (
        (0, 1000, 10_000),
        ("logistic, 50 columns", "logistic, 90 columns"),
    ),
    # how many rows
    "solvers._sample_size._ROWS_SHARE": ((1 / 128, 1 / 64, 1 / 16), MEASURES),
    "solvers._sample_size._MIN_ROWS": ((2_000, 4_000, 16_000, 32_000), MEASURES),
    "solvers._sample_size._MIN_ROWS_PER_COORD": ((16, 32, 128, 256), MEASURES),
    "solvers._sample_size._GROWTH": ((2, 5), ("one-hot logistic",)),
    "solvers._sample_size._METRIC_SHARE": (
        (1 / 80, 1 / 40, 1 / 10),
        ("Lasso, 120 columns",),
    ),
    "solvers._sample_size._START_ROWS_PER_COLUMN": (
        (10, 25, 100, 200),
        ("logistic, 200 columns",),
    ),
    "solvers._sample_size._CORRELATED_ROWS_PER_COLUMN": (
        (10, 25, 100),
        ("logistic, 200 columns",),
    ),
    # steps on measures
    "solvers.newton._pilot._ROWS_PER_PARAM": ((12, 25, 100, 200), MEASURES),
    "solvers.newton._pilot._GROWTH": ((2, 3, 12), MEASURES),
    "solvers.newton._pilot.ACCURACY": ((0.002, 0.1, 0.5), MEASURES),
    "solvers.newton._measures._ACCURACY": ((1e-4, 1e-3, 0.1), MEASURES),
    "solvers.newton._measures._GROUP_ROWS": ((8, 16, 64, 128), ("logistic, tree",)),
    "solvers.newton._measures._GROUPS_PER_MOMENT": ((2, 8, 16), ("logistic, tree",)),
    "solvers.newton._calibration.TILES_PER_MOMENT": ((9, 18, 72), MEASURES),
    "solvers.newton._canewton._CONTRACTION": (
        (0.1, 0.5, 0.9),
        ("one-hot logistic", "logistic, 50 columns"),
    ),
    "solvers.newton._concentration._MIN_EFFECTIVE_ROWS": (
        (100, 500, 5_000),
        ("one-hot logistic", "logistic, 50 columns"),
    ),
    "solvers.newton._reduced._PART_PREDICTIONS": ((2**12, 2**13, 2**15), MEASURES),
    "solvers.newton._reduced._STEP_ENTRIES": ((0, 30_000, 300_000), FEW_ROWS),
    "solvers.newton._reduced._HESSIAN_ENTRIES": ((10_000, 100_000, 300_000), FEW_ROWS),
    "solvers.newton._reduced_steps._NEWTON_SHARE": ((0.0, 0.01, 0.3), FEW_ROWS),
    "solvers.newton._reduced_steps._MAX_EFFORT": (
        (4, 8, 32, 1000),
        ("multinomial L1, 20 classes", "multinomial L1, 300 rows"),
    ),
    "solvers.newton._reduced._FEW_SWEEPS": (
        (2, 5, 10),
        ("multinomial L1, 20 classes",),
    ),
    "solvers.newton._reduced._FLOPS_PER_ENTRY": (
        (20, 200, 2_000),
        ("multinomial L1, 20 classes",),
    ),
    "solvers.newton._secant_steps._MEMORY": ((3, 5, 20), ("logistic, 200 columns",)),
    # the article's solvers
    "solvers.descent._cagd._AUTO_INNER_STEPS": ((100, 300, 3000), ("logistic, cagd",)),
    "solvers.descent._cabcd._AUTO_INNER_STEPS": ((10, 30, 300), ("Lasso, cabcd",)),
    "solvers.descent._reduction._MAX_SECOND_ORDER": ((0, 5, 80), ("Lasso, cabcd",)),
    # searches
    "solvers.paths._path._MAX_HOMOTOPY_COLUMNS": (
        (100,),
        ("search, Lasso, 300 columns",),
    ),
    "solvers.paths._homotopy._MAX_PENDING": (
        (8, 16, 64),
        ("search, Lasso, 300 columns",),
    ),
    "solvers.paths._atom_sums._MIN_COPIED_COLUMNS": (
        (32, 1000),
        ("search, Lasso, 300 columns",),
    ),
    "solvers.paths._near_hessians.MODEL_REACH": (
        (0.25, 0.5, 2.0),
        ("search, one-hot", "search, dense levels"),
    ),
    "solvers.paths._near_hessians._KEPT_REACH": (
        (0.1, 0.2, 0.7),
        ("search, one-hot", "search, dense levels"),
    ),
    "solvers.paths._fold_column._MAX_REACH": (
        (1.0, 16.0, 1e9),
        ("search, one-hot", "search, dense levels"),
    ),
    "solvers.paths._fold_newton._GRADIENTS_PER_ENTRY": (
        (1, 2, 6),
        ("search, one-hot",),
    ),
    "solvers.paths._fold_search._ENOUGH": (
        (1e-14, 1e-13, 1e-11),
        ("search, one-hot", "search, logistic, 1000 rows"),
    ),
    "solvers.paths._fold_reads._SHARED_REACH": (
        (0.0, 3e-4, 3e-3, 1e-2),
        ("search, logistic, 500 000 rows",),
    ),
    "solvers.paths._fold_reads._NEAR": (
        (1e-7, 1e-5),
        ("search, logistic, 500 000 rows",),
    ),
    "data._products._PANEL_COLUMNS": ((16, 32, 48), ("search, Lasso, 50 columns",)),
    "data._products._PRODUCT_TERMS": (
        (2**17, 2**18, 2**20),
        ("search, Lasso, 50 columns", "multinomial, 5 classes"),
    ),
    "passes._gram._MIN_COPIED_COLUMNS": ((1000,), ("Lasso, 300 columns",)),
    "data._atoms._ROWS_PER_COLUMN": ((4, 100), ("search, Lasso, 50 columns",)),
    # recombination
    "recombination._pivoting.GROUPS_PER_DIMENSION": ((4, 8, 32, 64), ("recombine",)),
    "recombination._moments.BLOCK_ENTRIES": ((2**14, 2**15, 2**18), ("recombine",)),
    "recombination._cone.MAX_UPDATED_ENTRIES": ((2**24, 2**30), ("recombine, cone",)),
}
"""Name below the package, values to compare with the shipped one, and workloads."""


def shipped_value(name):
    """Value of a constant by its dotted name below the package."""
    module, _, constant = name.rpartition(".")
    return getattr(importlib.import_module(f"skcara.{module}"), constant)


@contextmanager
def changed(name, value):
    """Give a constant another value, in every module that has imported it."""
    owner, _, constant = name.rpartition(".")
    shipped = shipped_value(name)
    # A private name belongs to its module; two of them may have the same name.
    owners = [
        module
        for key, module in list(sys.modules.items())
        if key == f"skcara.{owner}"
        or (
            key.startswith("skcara.")
            and not constant.startswith("_")
            and getattr(module, constant, None) is shipped
        )
    ]
    try:
        for module in owners:
            setattr(module, constant, value)
        yield
    finally:
        for module in owners:
            setattr(module, constant, shipped)


@cache
def data_of(workload, divisor):
    """Data of a workload, built once."""
    return WORKLOADS[workload].make(divisor)


def relative_times(name, values, workload, *, repeats, divisor):
    """Median processor time with each value, relative to the shipped one."""
    data, run = data_of(workload, divisor), WORKLOADS[workload].run
    all_values = [shipped_value(name), *values]
    seconds = np.empty((repeats, len(all_values)))
    run(data)
    for repeat in range(repeats):
        # Everybody is first once: what ran before leaves its traces in the caches.
        for position in np.roll(np.arange(len(all_values)), repeat):
            with changed(name, all_values[position]):
                started = time.process_time()
                run(data)
                seconds[repeat, position] = time.process_time() - started
    # Ratios within a repeat: a slow moment of the machine hits all values.
    return np.median(seconds[:, 1:] / seconds[:, :1], axis=0)


def study(name, values, workloads, **options):
    """Yield a record for every value and workload."""
    for workload in workloads:
        ratios = relative_times(name, values, workload, **options)
        for value, ratio in zip(values, ratios, strict=True):
            yield {
                "constant": name,
                "shipped": shipped_value(name),
                "workload": workload,
                "value": value,
                "relative_time": float(ratio),
            }


def plain(value):
    """A number as one would write it."""
    return f"{int(value)}" if float(value).is_integer() else f"{value:.3g}"


def table(records):
    """Markdown lines, a row for every constant and workload."""
    rows = {}
    for record in records:
        key = (record["constant"], plain(record["shipped"]), record["workload"])
        text = f"{plain(record['value'])}: {record['relative_time']:.2f}"
        rows.setdefault(key, []).append(text)
    header = ["constant", "shipped", "fit", "time with other values"]
    lines = [[f"`{key[0]}`", *key[1:], ", ".join(rows[key])] for key in rows]
    return markdown_table(header, lines)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="constants; all of them if none")
    parser.add_argument(
        "--values", nargs="+", type=float, help="instead of the table's"
    )
    parser.add_argument("--list", action="store_true", help="only print the table")
    parser.add_argument("--quick", action="store_true", help="few rows, one repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="folder of constants.md and .csv")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(STUDIES)
    if unknown:
        parser.error(f"no study of {sorted(unknown)}; --list shows those there are")
    return arguments


def kept_records(path, names):
    """Records of a file, without those of the constants that are studied again."""
    if not path.exists():
        return []
    with open(path, newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["constant"] not in names]
    numbers = ("shipped", "value", "relative_time")
    return [row | {name: float(row[name]) for name in numbers} for row in rows]


def write_report(folder, records):
    """All records as CSV, and the table as Markdown; what is not new is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "constants.csv"
    records = kept_records(path, {one["constant"] for one in records}) + records
    records.sort(key=lambda record: list(STUDIES).index(record["constant"]))
    write_csv(path, records)
    text = [f"{measure.machine_description()}; medians of processor time.", ""]
    (folder / "constants.md").write_text("\n".join([*text, *table(records), ""]))


def main():
    """Study the constants that were asked for."""
    arguments = parse_arguments()
    names = arguments.names or STUDIES
    if arguments.list:
        for name in names:
            values, workloads = STUDIES[name]
            print(f"{name} = {shipped_value(name)}: try {values} on {workloads}")
        return
    repeats, divisor = (1, 50) if arguments.quick else (arguments.repeats, 1)
    records = []
    with threadpool_limits(1):
        for name in names:
            values, workloads = STUDIES[name]
            if arguments.values:
                kind = type(shipped_value(name))
                values = [kind(value) for value in arguments.values]
            new = list(study(name, values, workloads, repeats=repeats, divisor=divisor))
            records += new
            print(*table(new)[2:], sep="\n", flush=True)
            if arguments.output:
                write_report(arguments.output, records)


if __name__ == "__main__":
    main()
