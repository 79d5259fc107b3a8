"""Logistic regression: gradient descent against CaGD (Figure 1 of the article).

Sets A, B and C in two dimensions, no intercept, no penalty. Gradient descent runs with
the step size until its gradient is below 1e-3 or for 10 000 iterations; CaGD then runs
with the same step until it reaches the same gradient, as in the article. Next to
them, what the article left out: gradient descent with the steps 1/c and 1.9/c, where c
bounds the curvature, and the package's default solver.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from baselines import Objective, gradient_descent, run
from datasets import LOGISTIC_SETS
from reporting import markdown_table, parse_arguments, save, write_csv, write_report
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skcara import CaLogisticRegression

STEP_SIZES = tuple(np.linspace(1e-4, 1e-2, 4))
SIZES = (5_000, 10_000, 50_000, 100_000)
LARGE_SET, LARGE_SIZE = "B", 1_000_000
SINGLE_DRAW_FROM = 100_000
TOL = 1e-3


def descend(objective, step_size, tol, max_passes):
    """Gradient descent from zero as a record."""
    start = np.zeros(2)
    trace = run(
        gradient_descent(objective, start, step_size),
        objective,
        start,
        max_passes=max_passes,
        tol=tol,
        record_every=max_passes,
    )
    return {
        "passes": float(trace.passes[-1]),
        "seconds": float(trace.seconds[-1]),
        "optimality": float(trace.optimality[-1]),
        "objective": float(trace.objective[-1]),
        "inner_steps": 0,
        "recombinations": 0,
    }


def fit_skcara(objective, tol, **parameters):
    """Fit of the package from zero as a record; processor time of all of ``fit``."""
    estimator = CaLogisticRegression(
        C=np.inf,
        fit_intercept=False,
        tol=tol,
        max_iter=10_000,
        random_state=0,
        **parameters,
    )
    started = time.process_time()
    with warnings.catch_warnings():
        # The separable set has no minimiser; the optimality column tells the outcome.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(objective.X, objective.y)
    return {
        "passes": float(estimator.n_passes_),
        "seconds": time.process_time() - started,
        "optimality": float(estimator.optimality_),
        "objective": float(estimator.objective_),
        "inner_steps": int(estimator.history_["inner_steps"].sum()),
        "recombinations": int(estimator.n_recombinations_),
    }


def cagd_parameters(step_size, control):
    """The article's CaGD: recombination ``log``, at most min(10/step, 1e4) steps."""
    return {
        "solver": "cagd",
        "step_size": float(step_size),
        "control": control,
        "recombination": "log",
        "max_inner_iter": int(min(10 / step_size, 10_000)),
    }


def compare(name, n_rows, step_sizes, max_passes, seed):
    """All methods on one draw of one set, as records."""
    X, y = LOGISTIC_SETS[name](n_rows, np.random.default_rng(seed))
    objective = Objective(X, y, "logistic")
    curvature = objective.lipschitz()
    rows = []
    for step_size in step_sizes:
        plain = descend(objective, step_size, TOL, max_passes)
        # The article's protocol: CaGD stops at the gradient that GD reached.
        tol = max(TOL, plain["optimality"])
        outcomes = {"GD": plain}
        for control in ("secant", "lipschitz"):
            parameters = cagd_parameters(step_size, control)
            outcomes[f"CaGD {control}"] = fit_skcara(objective, tol, **parameters)
        for factor, label in ((1.0, "GD 1/c"), (1.9, "GD 1.9/c")):
            outcomes[label] = descend(objective, factor / curvature, tol, max_passes)
        outcomes["skcara auto"] = fit_skcara(objective, tol)
        shared = {"set": name, "n_rows": n_rows, "seed": seed, "target": float(tol)}
        shared["step_size"] = float(step_size)
        rows += [{**shared, "method": key, **row} for key, row in outcomes.items()]
    return rows


def mean_over_seeds(rows, key):
    """Mean of one column by (set, n_rows, step_size, method)."""
    groups = {}
    for row in rows:
        index = (row["set"], row["n_rows"], row["step_size"], row["method"])
        groups.setdefault(index, []).append(row[key])
    return {index: float(np.mean(values)) for index, values in groups.items()}


def table(rows):
    """Markdown lines: seconds and passes of the methods, ratio of the times."""
    seconds, passes = mean_over_seeds(rows, "seconds"), mean_over_seeds(rows, "passes")
    methods = (
        "GD",
        "CaGD secant",
        "CaGD lipschitz",
        "GD 1/c",
        "GD 1.9/c",
        "skcara auto",
    )
    lines = []
    for index in dict.fromkeys(key[:3] for key in passes):
        ratio = seconds[*index, "GD"] / seconds[*index, "CaGD secant"]
        cells = [
            f"{passes[*index, method]:.0f} ({seconds[*index, method]:.3f} s)"
            for method in methods
        ]
        lines.append([index[0], index[1], f"{index[2]:.2g}", *cells, f"{ratio:.1f}"])
    columns = [f"{method}: passes" for method in methods]
    return markdown_table(["set", "N", "step", *columns, "GD / CaGD time"], lines)


def draw(rows, path):
    """Time ratio GD / CaGD against the step size, and passes next to GD at 1/c."""
    seconds, passes = mean_over_seeds(rows, "seconds"), mean_over_seeds(rows, "passes")
    names = list(dict.fromkeys(row["set"] for row in rows))
    figure, panels = plt.subplots(
        2,
        len(names),
        figsize=(3.2 * len(names), 5.6),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for column, name in enumerate(names):
        sizes = sorted({row["n_rows"] for row in rows if row["set"] == name})
        for n_rows in sizes:
            steps = sorted({k[2] for k in passes if k[:2] == (name, n_rows)})
            ratio = [
                seconds[name, n_rows, step, "GD"]
                / seconds[name, n_rows, step, "CaGD secant"]
                for step in steps
            ]
            panels[0][column].loglog(steps, ratio, marker="o", label=f"N = {n_rows:,}")
        panels[0][column].axhline(1.0, color="grey", linewidth=0.8)
        for method in ("GD", "GD 1/c", "CaGD secant", "CaGD lipschitz", "skcara auto"):
            values = [passes[name, sizes[-1], step, method] for step in steps]
            panels[1][column].loglog(steps, values, marker=".", label=method)
        panels[0][column].set_title(f"set {name}")
        panels[1][column].set_xlabel("step size")
    panels[0][0].set_ylabel("time GD / time CaGD")
    panels[1][0].set_ylabel("passes (largest N)")
    most_sizes = max(panels[0], key=lambda axes: len(axes.lines))
    most_sizes.legend(fontsize=7)
    panels[1][0].legend(fontsize=7)
    save(figure, path)


def main():
    """Run the experiment and write its table and figure."""
    arguments = parse_arguments(__doc__.splitlines()[0])
    quick = arguments.quick
    step_sizes = STEP_SIZES[::3] if quick else STEP_SIZES
    sizes = (5_000, 20_000) if quick else SIZES
    max_passes, seeds = (500, (0,)) if quick else (10_000, (0, 1))
    jobs = [(name, size) for name in LOGISTIC_SETS for size in sizes]
    if not quick:
        jobs.append((LARGE_SET, LARGE_SIZE))
    rows = []
    with threadpool_limits(1):
        for name, n_rows in jobs:
            for seed in seeds if n_rows < SINGLE_DRAW_FROM else seeds[:1]:
                rows += compare(name, n_rows, step_sizes, max_passes, seed)
            write_csv(arguments.output / "experiment_1.csv", rows)
    draw(rows, arguments.output / "experiment_1.png")
    write_report(
        arguments.output / "experiment_1.md",
        "Logistic regression: GD against CaGD",
        [
            f"Gradient descent stops at a gradient of {TOL:g} (largest entry) or after "
            f"{max_passes} passes; every other method stops where it stopped.",
            "",
            *table(rows),
        ],
    )


if __name__ == "__main__":
    main()
