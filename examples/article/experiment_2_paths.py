"""Paths of CaGD and CaBCD in parameter space (Figures 2 and 3 of the article).

Logistic regression without intercept or penalty, 5000 rows, step size 1e-3, stopped at
a gradient of 5e-3. Gradient descent draws its path in thousands of small steps; CaGD
and CaBCD stop at the few points where the full data are read. The second figure has 15
coordinates, of which pairs are shown.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from baselines import Objective, gradient_descent, greedy_block_descent, run
from datasets import LOGISTIC_SETS, set_b, uniform_start
from reporting import markdown_table, parse_arguments, save, write_csv, write_report
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skcara import CaLogisticRegression

STEP_SIZE = 1e-3
TOL = 5e-3
PAIRS = ((0, 5), (3, 9), (7, 14))


class PathRecorder:
    """scikit-learn callback that keeps the coefficients of every round of a fit."""

    def setup(self, estimator, context):
        """Forget an earlier fit."""
        self.points = []

    def on_fit_task_begin(self, estimator, context):
        """Part of the callback protocol; nothing to do."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Keep what a round reached; the root task is the whole fit."""
        if context.parent is not None:
            self.points.append(fitted_estimator.coef_.ravel().copy())

    def teardown(self, estimator, context):
        """Part of the callback protocol; nothing to do."""


def reduced_path(objective, start, max_rounds, **parameters):
    """Coefficients after every round of a fit from a given point, and the estimator."""
    recorder = PathRecorder()
    estimator = CaLogisticRegression(
        C=np.inf,
        fit_intercept=False,
        step_size=STEP_SIZE,
        tol=TOL,
        max_iter=max_rounds,
        random_state=0,
        warm_start=True,
        **parameters,
    )
    # A warm start from here: what a previous fit would have left behind.
    estimator.coef_, estimator.intercept_ = start[None, :], np.zeros(1)
    estimator.classes_ = np.unique(objective.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.set_callbacks(recorder).fit(objective.X, objective.y)
    return np.array([start, *recorder.points]), estimator


def plain_path(algorithm, objective, start, max_passes):
    """All points of a baseline."""
    return run(algorithm, objective, start, max_passes=max_passes, tol=TOL)


def plain_record(trace):
    """Columns of the table for a baseline."""
    return {
        "points": len(trace.params),
        "passes": float(trace.passes[-1]),
        "reduced_steps": 0,
        "optimality": float(trace.optimality[-1]),
        "end": end_point(trace.params),
    }


def reduced_record(points, fitted):
    """Columns of the table for a fit of the package."""
    return {
        "points": len(points),
        "passes": float(fitted.n_passes_),
        "reduced_steps": int(fitted.history_["inner_steps"].sum()),
        "optimality": float(fitted.optimality_),
        "end": end_point(points),
    }


def end_point(points):
    """First two coordinates of the last point, as text."""
    return " ".join(f"{value:.4f}" for value in points[-1][:2])


def compare(name, objective, start, max_passes, max_rounds):
    """Paths of GD and of CaGD with two controls; records of the table."""
    trace = plain_path(
        gradient_descent(objective, start, STEP_SIZE), objective, start, max_passes
    )
    paths, rows = {"GD": trace.params}, {"GD": plain_record(trace)}
    for control in ("secant", "lipschitz"):
        points, fitted = reduced_path(
            objective, start, max_rounds, solver="cagd", control=control
        )
        paths[f"CaGD {control}"] = points
        rows[f"CaGD {control}"] = reduced_record(points, fitted)
    return paths, labelled(rows, 2, name)


def labelled(rows, figure, name):
    """Records with the figure, the set and the method in front."""
    return [
        {"figure": figure, "set": name, "method": method, **row}
        for method, row in rows.items()
    ]


def compare_blocks(objective, start, max_passes, max_rounds):
    """Paths of BCD and CaBCD with blocks of three; records of the table."""
    algorithm = greedy_block_descent(objective, start, STEP_SIZE, block_size=3)
    trace = plain_path(algorithm, objective, start, max_passes)
    points, fitted = reduced_path(
        objective, start, max_rounds, solver="cabcd", block_size=3, direction="gradient"
    )
    rows = {
        "BCD GS": plain_record(trace),
        "CaBCD GS": reduced_record(points, fitted),
    }
    return {"BCD GS": trace.params, "CaBCD GS": points}, labelled(rows, 3, "B")


def draw_contours(axes, objective, paths):
    """Level lines of the loss under the paths."""
    corners = np.vstack(list(paths.values()))
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.2 * (high - low).max()
    grid = [np.linspace(low[k] - margin, high[k] + margin, 40) for k in range(2)]
    sample = Objective(objective.X[:1000], objective.y[:1000], "logistic")
    values = [[sample.value(np.array([a, b])) for a in grid[0]] for b in grid[1]]
    axes.contour(*grid, values, levels=20, colors="lightgrey", linewidths=0.7)


def draw_path(axes, paths, pair):
    """Lines for the plain method, a marker at every full read of the reduced one."""
    for method, points in paths.items():
        is_reduced = method.startswith("Ca")
        axes.plot(
            points[:, pair[0]],
            points[:, pair[1]],
            marker="o" if is_reduced else None,
            markersize=4,
            linewidth=1 if is_reduced else 3,
            alpha=1.0 if is_reduced else 0.4,
            label=method,
        )
    axes.set_xlabel(f"coordinate {pair[0]}")
    axes.set_ylabel(f"coordinate {pair[1]}")


def main():
    """Run both figures and write them with one table."""
    arguments = parse_arguments(__doc__.splitlines()[0])
    n_rows = 1_000 if arguments.quick else 5_000
    budget = (300, 10) if arguments.quick else (20_000, 500)
    rows = []
    with threadpool_limits(1):
        figure, panels = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
        for axes, (name, make) in zip(panels, LOGISTIC_SETS.items(), strict=True):
            rng = np.random.default_rng(1)
            objective = Objective(*make(n_rows, rng), "logistic")
            start = uniform_start(2, rng)
            paths, new_rows = compare(name, objective, start, *budget)
            draw_contours(axes, objective, paths)
            draw_path(axes, paths, (0, 1))
            axes.set_title(f"set {name}")
            rows += new_rows
        panels[0].legend(fontsize=7)
        save(figure, arguments.output / "experiment_2_cagd.png")
        rng = np.random.default_rng(1)
        objective = Objective(*set_b(n_rows, rng, n_features=15), "logistic")
        paths, new_rows = compare_blocks(objective, uniform_start(15, rng), *budget)
        figure, panels = plt.subplots(
            1, len(PAIRS), figsize=(11, 3.6), layout="constrained"
        )
        for axes, pair in zip(panels, PAIRS, strict=True):
            draw_path(axes, paths, pair)
        panels[0].legend(fontsize=7)
        save(figure, arguments.output / "experiment_2_cabcd.png")
    rows += new_rows
    write_csv(arguments.output / "experiment_2.csv", rows)
    header = [*rows[0]]
    cells = [
        [f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row.values()]
        for row in rows
    ]
    write_report(
        arguments.output / "experiment_2.md",
        "Paths in parameter space",
        markdown_table(header, cells),
    )


if __name__ == "__main__":
    main()
