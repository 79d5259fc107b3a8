"""Timings of the recombination algorithms (the article's appendix, its companion).

Standard normal points in 15 dimensions, uniform weights; the answer has at most 16
atoms. The residual is the largest error of a moment relative to its column.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from reporting import markdown_table, parse_arguments, save, write_csv, write_report
from threadpoolctl import threadpool_limits

from skcara import recombine

SIZES = (500, 5_000, 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
METHODS = ("auto", "combined", "log", "cone", "tree", "litterer-lyons", "maalouf")
DIMENSION = 15


def time_method(method, points, repeats):
    """Processor time (median), largest residual, largest support, who answered."""
    milliseconds, residuals, supports, answers = [], [], [], set()
    for seed in range(repeats):
        started = time.process_time()
        result = recombine(points, method=method, random_state=seed)
        milliseconds.append(1e3 * (time.process_time() - started))
        residuals.append(result.residual)
        supports.append(len(result.indices))
        answers.add(result.method)
    return {
        "milliseconds": float(np.median(milliseconds)),
        "residual": float(max(residuals)),
        "support": max(supports),
        "answered": " ".join(sorted(answers)),
    }


def main():
    """Run the experiment and write its table and figure."""
    arguments = parse_arguments(__doc__.splitlines()[0])
    sizes = SIZES[:4] if arguments.quick else SIZES
    repeats = 3 if arguments.quick else 7
    rows = []
    with threadpool_limits(1):
        for n_points in sizes:
            points = np.random.default_rng(0).standard_normal((n_points, DIMENSION))
            for method in METHODS:
                outcome = time_method(method, points, repeats)
                rows.append({"n_points": n_points, "method": method, **outcome})
            write_csv(arguments.output / "experiment_5.csv", rows)
    times = {(row["method"], row["n_points"]): row["milliseconds"] for row in rows}
    lines = [
        [method, *(f"{times[method, size]:.3g}" for size in sizes)]
        for method in METHODS
    ]
    figure, axes = plt.subplots(figsize=(6, 4.2))
    for method in METHODS:
        axes.loglog(sizes, [times[method, n] for n in sizes], marker=".", label=method)
    axes.set_xlabel("points")
    axes.set_ylabel("milliseconds")
    axes.set_title(f"recombination in dimension {DIMENSION}")
    axes.legend(fontsize=8)
    save(figure, arguments.output / "experiment_5.png")
    write_report(
        arguments.output / "experiment_5.md",
        "Recombination timings",
        [
            f"Milliseconds of processor time, median of {repeats}; largest residual "
            f"{max(row['residual'] for row in rows):.1e}, largest support "
            f"{max(row['support'] for row in rows)}.",
            "",
            *markdown_table(["method", *(f"N = {n:,}" for n in sizes)], lines),
        ],
    )


if __name__ == "__main__":
    main()
