"""Recombination: every method and PyRecombine against one sum over the columns.

All rivals run one after the other in the same process on one thread, in several rounds;
the median over the rounds is reported. Errors are measured here, not by the library:
the largest column error relative to the mass times the largest entry of the column.
A rival that needs longer than the budget is not asked again for larger dimensions.

The published methods run on this library's single pass over the rows: those
that work on groups see the sums of about 64 groups per moment first.

Examples
--------
::

    python bench_recombine.py --quick --output results
    python bench_recombine.py --n-rows 1000000 --output results
"""

import argparse
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import measure  # before NumPy: it fixes the number of threads
import numpy as np
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

from skcara import recombine
from skcara.recombination import RECOMBINATION_METHODS

try:
    from pyrecombine import recombine as pyrecombine
except ImportError:
    pyrecombine = None

DIMENSIONS = (2, 5, 10, 20, 50)
QUICK_DIMENSIONS = (2, 5)
DRAW_POINTS = {
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "Gaussian": lambda rng, shape: rng.standard_normal(shape),
}
WEIGHTINGS = ("uniform", "random")
# One elimination per row, tens of microseconds each: left out on larger data.
MOST_ROWS = {"davis": 5_000}
COLUMN_SUM = "column sum"
PYRECOMBINE = "PyRecombine"
STYLES = {
    COLUMN_SUM: {"color": "black", "linestyle": "--"},
    "auto": {"color": "black", "linewidth": 3},
    PYRECOMBINE: {"color": "black", "linewidth": 1.5, "marker": "s"},
}


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--n-rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds per call")
    parser.add_argument("--output", default="results/recombine", type=Path)
    return parser.parse_args()


def make_rivals(n_rows):
    """Functions of points and weights that return indices and masses."""

    def ours(method):
        return lambda points, weights: recombine(
            points, weights, method=method, random_state=0
        )

    rivals = {
        method: ours(method)
        for method in RECOMBINATION_METHODS
        if n_rows <= MOST_ROWS.get(method, n_rows)
    }
    if pyrecombine is None:
        print("PyRecombine is not installed and left out (pip install pyrecombine).\n")
        return rivals

    def theirs(points, weights):
        if weights is None:
            indices, masses = pyrecombine(points)
            return indices, masses / len(points)
        return pyrecombine(points, weights=weights)

    return rivals | {PYRECOMBINE: theirs}


def column_error(points, weights, indices, masses):
    """Largest error of a column sum or of the mass, both relative."""
    if weights is None:
        weights = np.full(len(points), 1 / len(points))
    mass = weights.sum()
    scale = mass * np.maximum(points.max(axis=0), -points.min(axis=0))
    error = np.abs(masses @ points[indices] - weights @ points) / scale
    return max(error.max(), abs(masses.sum() / mass - 1))


def seconds_of(function, *arguments):
    """Return the seconds of one call and its result."""
    started = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - started, result


def extra_memory(function, points, weights):
    """Peak of the memory that a call adds, relative to the points."""
    tracemalloc.start()
    function(points, weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / points.nbytes


def compare(rivals, points, weights, repeats, budget):
    """Time all rivals side by side; return one record for each of them."""
    seconds = {name: [] for name in (COLUMN_SUM, *rivals)}
    results = {}
    for _ in range(repeats):
        seconds[COLUMN_SUM].append(seconds_of(points.sum, 0)[0])
        for name, rival in rivals.items():
            if not seconds[name] or seconds[name][0] <= budget:
                elapsed, results[name] = seconds_of(rival, points, weights)
                seconds[name].append(elapsed)
    baseline = np.median(seconds[COLUMN_SUM])
    records = {COLUMN_SUM: {"seconds": baseline, "column_sums": 1.0}}
    for name, (indices, masses) in results.items():
        median = np.median(seconds[name])
        records[name] = {
            "seconds": median,
            "column_sums": median / baseline,
            "error": column_error(points, weights, indices, masses),
            "atoms": len(indices),
            "answered": getattr(results[name], "method", name),
            "extra_memory": extra_memory(rivals[name], points, weights)
            if median <= budget
            else np.nan,
        }
    return records


def run(arguments):
    """Yield one row for every rival, distribution, weighting and dimension."""
    n_rows = 5_000 if arguments.quick else arguments.n_rows
    dimensions = QUICK_DIMENSIONS if arguments.quick else DIMENSIONS
    rivals = make_rivals(n_rows)
    for distribution, draw in DRAW_POINTS.items():
        for weighting in WEIGHTINGS:
            alive = dict(rivals)
            for dimension in dimensions:
                rng = np.random.default_rng(dimension)
                points = draw(rng, (n_rows, dimension))
                weights = rng.random(n_rows) if weighting == "random" else None
                records = compare(
                    alive, points, weights, arguments.repeats, arguments.budget
                )
                for name, record in records.items():
                    yield {
                        "points": distribution,
                        "weights": weighting,
                        "n_rows": n_rows,
                        "dimension": dimension,
                        "rival": name,
                    } | record
                alive = {
                    name: rival
                    for name, rival in alive.items()
                    if records[name]["seconds"] <= arguments.budget
                }


def table_section(rows, distribution, weighting):
    """Markdown lines: milliseconds and column sums of every rival."""
    chosen = [
        r for r in rows if (r["points"], r["weights"]) == (distribution, weighting)
    ]
    dimensions = sorted({row["dimension"] for row in chosen})
    cells = {(row["rival"], row["dimension"]): row for row in chosen}
    lines = []
    for rival in dict.fromkeys(row["rival"] for row in chosen):
        line = [rival]
        for dimension in dimensions:
            row = cells.get((rival, dimension))
            line.append(
                f"{1e3 * row['seconds']:.1f} ({row['column_sums']:.2f})" if row else "-"
            )
        own = [row for row in chosen if row["rival"] == rival and "error" in row]
        line.append(f"{max(row['error'] for row in own):.0e}" if own else "")
        line.append(f"{max(row['extra_memory'] for row in own):.1%}" if own else "")
        lines.append(line)
    header = [
        "milliseconds (column sums)",
        *(f"n = {dimension}" for dimension in dimensions),
        "largest error",
        "extra memory",
    ]
    return [
        f"## {distribution} points, {weighting} weights",
        "",
        *markdown_table(header, lines),
        "",
    ]


def plot(path, rows):
    """Seconds against the dimension, one panel for each kind of input."""
    panels = list(dict.fromkeys((row["points"], row["weights"]) for row in rows))
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), sharex=True, sharey=True)
    for axis, panel in zip(axes.flat, panels, strict=True):
        chosen = [row for row in rows if (row["points"], row["weights"]) == panel]
        for rival in dict.fromkeys(row["rival"] for row in chosen):
            own = [row for row in chosen if row["rival"] == rival]
            axis.loglog(
                [row["dimension"] for row in own],
                [row["seconds"] for row in own],
                label=rival,
                **STYLES.get(rival, {"marker": "o", "markersize": 4}),
            )
        axis.set_title(f"{panel[0]} points, {panel[1]} weights")
        axis.grid(alpha=0.3, which="both")
    dimensions = sorted({row["dimension"] for row in rows})
    axes[0, 0].set_xticks(dimensions, [str(dimension) for dimension in dimensions])
    axes[0, 0].minorticks_off()
    for axis in axes[1]:
        axis.set_xlabel("dimension n")
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds")
    axes[0, 1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(f"Recombination of {rows[0]['n_rows']:,} points, one thread")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Run the comparison, print the table, write CSV, Markdown and plot."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        rows = list(run(arguments))
    lines = ["# Recombination", "", measure.machine_description(), ""]
    for distribution in DRAW_POINTS:
        for weighting in WEIGHTINGS:
            lines += table_section(rows, distribution, weighting)
    print("\n".join(lines))
    fields = dict.fromkeys(key for row in rows for key in row)
    complete = [{field: row.get(field, "") for field in fields} for row in rows]
    write_csv(arguments.output / "recombine.csv", complete)
    (arguments.output / "recombine.md").write_text("\n".join(lines))
    plot(arguments.output / "recombine.png", rows)


if __name__ == "__main__":
    main()
