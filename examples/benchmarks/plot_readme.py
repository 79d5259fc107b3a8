"""The two pictures of the README: the idea, and speed relative to scikit-learn.

The speed is measured as in ``bench_peers.py``: every solver is tightened until an
independent judge finds a relative suboptimality of 1e-8 on the full data, on one
thread, cold; the median of the repeats counts. A point is the time of the *fastest*
solver that scikit-learn has for the problem divided by the time of skcara: below one
skcara loses. Columns are standardised; a dotted line shows logistic regression on
columns whose scales differ, which flatters skcara.

Examples
--------
::

    python plot_readme.py --output ../../doc/_static
    python plot_readme.py --quick --output results
"""

import argparse
from functools import partial
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from adapters import ADAPTERS
from judge import Judge
from problems import logistic_gaussian, squared_gaussian
from reference import reference_objective
from threadpoolctl import threadpool_limits

# Columns of unequal scales slow scikit-learn's gradient methods down, and Newton-type
# methods not at all: they have a line of their own, beside that of standardised ones.
FAMILIES = {
    "logistic regression": logistic_gaussian,
    "logistic, unequal scales": partial(logistic_gaussian, scale_spread=0.5),
    "Lasso": squared_gaussian,
    "least squares": partial(squared_gaussian, alpha=0.0),
}
STYLES = {
    "logistic regression": "C0o-",
    "logistic, unequal scales": "C0o:",
    "Lasso": "C1o-",
    "least squares": "C2o-",
}
ROWS, N_COLUMNS = (1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000), 20
COLUMNS, N_ROWS = (5, 10, 20, 40, 80, 160, 320), 100_000
QUICK = {"rows": (1_000, 4_000), "columns": (5, 10)}


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two small sizes")
    parser.add_argument("--output", default="results", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall")
    return parser.parse_args()


def relative_speed(problem, repeats, clock):
    """Time of scikit-learn's fastest solver over that of skcara."""
    adapters = [
        adapter
        for adapter in ADAPTERS
        if adapter.name == "skcara" or adapter.library == "sklearn"
        if adapter.skip(problem) is None
    ]
    optimum = reference_objective(problem, None)["objective"]
    results, _ = measure.compare(
        adapters,
        problem,
        Judge(problem),
        optimum,
        repeats=repeats,
        budget=120.0,
        clock=clock,
    )
    assert results["skcara"].last.is_solved, problem.name
    ours = results.pop("skcara").seconds
    theirs = {
        name: result.seconds
        for name, result in results.items()
        if result.last.is_solved
    }
    fastest = min(theirs, key=theirs.get)
    print(f"{problem.name}: {theirs[fastest] / ours:.2f} ({fastest})", flush=True)
    return theirs[fastest] / ours


def draw_speed(path, arguments):
    """Relative speed against the number of rows and of columns."""
    import matplotlib.pyplot as plt

    rows = QUICK["rows"] if arguments.quick else ROWS
    columns = QUICK["columns"] if arguments.quick else COLUMNS
    n_rows = max(rows) if arguments.quick else N_ROWS
    panels = {
        f"rows ({N_COLUMNS} columns)": {size: (size, N_COLUMNS) for size in rows},
        f"columns ({n_rows:,} rows)": {size: (n_rows, size) for size in columns},
    }
    fig, axes = plt.subplots(
        1, 2, figsize=(8.6, 3.4), sharey=True, layout="constrained"
    )
    for ax, (label, shapes) in zip(axes, panels.items(), strict=True):
        for name, make in FAMILIES.items():
            speeds = [
                relative_speed(make(*shape), arguments.repeats, arguments.clock)
                for shape in shapes.values()
            ]
            ax.plot(list(shapes), speeds, STYLES[name], markersize=4, label=name)
        ax.axhspan(1e-3, 1, color="0.93", zorder=0)
        ax.axhline(1, color="0.5", linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.grid(axis="y", color="0.9", zorder=0)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(max(low, 0.1), max(high, 10.0))
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes[0].set_ylabel("speed of skcara relative to\nscikit-learn's fastest solver")
    axes[0].legend(loc="upper left")
    axes[1].annotate(
        "scikit-learn is faster", (0.03, 0.03), xycoords="axes fraction", color="0.4"
    )
    fig.savefig(path, dpi=110)
    plt.close(fig)


def draw_idea(path):
    """A cloud of rows, the three that survive, and the gradient that they share."""
    import matplotlib.pyplot as plt

    from skcara import recombine

    rng = np.random.default_rng(3)
    n_rows = 50_000
    y = rng.random(n_rows) < 0.5
    X = rng.standard_normal((n_rows, 2)) + np.where(y, 0.8, -0.8)[:, None] * [1, 0.5]
    theta = np.array([-0.5, 1.0])
    gradients = (1 / (1 + np.exp(-X @ theta)) - y)[:, None] * X
    kept, weights = recombine(gradients)
    mean = gradients.mean(axis=0)

    fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.5), layout="constrained")
    for ax, cloud in zip(axes, (X, gradients), strict=False):
        shown = slice(0, 2500)
        colors = np.where(y[shown], "C0", "C3")
        ax.scatter(*cloud[shown].T, s=3, c=colors, alpha=0.4, linewidths=0)
        ax.scatter(*cloud[kept].T, s=500 * weights, c="k", edgecolors="w", zorder=3)
    axes[1].fill(*gradients[kept].T, facecolor="none", edgecolor="k", linewidth=1)
    axes[1].plot(*mean, "kX", markersize=9, markeredgecolor="w", zorder=4)
    axes[0].set(title=f"{n_rows:,} rows; three survive", xlabel="column 0")
    axes[0].set_ylabel("column 1")
    axes[1].set(title="their gradients have the same mean", xlabel="gradient, column 0")
    axes[1].set_ylabel("gradient, column 1")

    steps = np.linspace(-1.5, 3.0, 91)
    full = [objective(theta - t * mean, X, y, 1 / n_rows).sum() for t in steps]
    few = [objective(theta - t * mean, X[kept], y[kept], weights).sum() for t in steps]
    shift = np.interp(0, steps, full) - np.interp(0, steps, few)
    axes[2].plot(steps, full, color="0.65", linewidth=5, label=f"{n_rows:,} rows")
    axes[2].plot(steps, np.array(few) + shift, "k", label="three rows")
    axes[2].plot(0, np.interp(0, steps, full), "kX", markersize=9, markeredgecolor="w")
    axes[2].set(title="so the objectives touch")
    axes[2].set(xlabel="step along the negative gradient", ylabel="objective (shifted)")
    axes[2].legend()
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=90)
    plt.close(fig)


def objective(theta, X, y, weights):
    """Weighted logistic loss of every row."""
    return weights * np.logaddexp(0, np.where(y, -1, 1) * (X @ theta))


def main():
    """Write both pictures."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    draw_idea(arguments.output / "idea.png")
    print(measure.machine_description())
    with threadpool_limits(1):
        draw_speed(arguments.output / "speed.png", arguments)


if __name__ == "__main__":
    main()
