"""LASSO: CaBCD against BCD, ADAM and SAG (Figure 4 of the article).

Principal components of tensor powers of real measurements, a penalised column of ones,
no intercept. The article minimises ``mean (x @ theta - y)^2 + 0.01 |theta|_1``, twice
the package's objective at ``alpha = 0.005``: losses are shown in the article's scale,
and its step size 1e-3 is 2e-3 here. Next to the published settings, each
baseline with a tuned step, FISTA, gradient descent with step 1/c, and the package's
default solver. The optimum is certified by a duality gap.
"""

import time
import warnings
from functools import partial

import baselines
import matplotlib.pyplot as plt
import numpy as np
from datasets import LASSO_RECIPES, make_lasso_set
from reporting import markdown_table, parse_arguments, save, write_csv, write_report
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skcara import CaLasso

ALPHA = 0.005
STEP_SIZE = 2e-3
SAG_STEP_SIZE = 2e-6
GRIDS = {
    "ADAM tuned": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0),
    "SAG tuned": (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "BCD mom GS tuned": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
}
LOSS_SCALE = 2.0


def fit_skcara(objective, max_passes, **parameters):
    """Fit of the package from zero, as a trace of its history."""
    estimator = CaLasso(
        alpha=ALPHA,
        fit_intercept=False,
        tol=1e-14,
        max_iter=max_passes,
        random_state=0,
        **parameters,
    )
    started, cpu_started = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        # Stopped by the number of passes, as the article does.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(objective.X, objective.y)
    total, cpu_total = time.perf_counter() - started, time.process_time() - cpu_started
    history = estimator.history_
    # What happens before the first round is part of the time of every round. The
    # history keeps wall time; the baselines are measured in processor time.
    seconds = history["seconds"] + max(0.0, total - history["seconds"][-1])
    seconds *= cpu_total / total
    kept = history["passes"] <= max_passes
    at_zero = objective.value(np.zeros(objective.X.shape[1]))
    return (
        np.append(0.0, history["passes"][kept]),
        np.append(0.0, seconds[kept]),
        np.append(at_zero, history["objective"][kept]),
    )


def cabcd(selection, momentum, step_size=STEP_SIZE):
    """The article's CaBCD: blocks of 2, ``combined``, at most 100 reduced steps."""
    return {
        "solver": "cabcd",
        "selection": selection,
        "momentum": momentum,
        "step_size": step_size,
        "block_size": 2,
        "recombination": "combined",
        "max_inner_iter": 100,
    }


def skcara_methods(max_passes):
    """Name -> function of the objective that returns passes, seconds, objective."""
    parameters = {
        "CaBCD mom GS": cabcd("GS", 0.9),
        "CaBCD mom Random": cabcd("Random", 0.9),
        "CaBCD GS": cabcd("GS", 0.0),
        "CaBCD mom GS, step auto": cabcd("GS", 0.9, "auto"),
        "skcara auto": {},
    }
    return {
        name: partial(fit_skcara, max_passes=max_passes, **chosen)
        for name, chosen in parameters.items()
    }


def baseline_methods(objective, start):
    """Name -> (generator for a step size, the step sizes to choose from)."""
    rng = np.random.default_rng
    safe = 1.0 / objective.lipschitz()
    greedy = partial(baselines.greedy_block_descent, objective, start)
    random = partial(baselines.random_block_descent, objective, start, rng=rng(0))
    adam = partial(baselines.adam, objective, start, rng=rng(0))
    sag = partial(baselines.sag, objective, start, rng=rng(0))
    return {
        "BCD mom GS": (partial(greedy, momentum=0.9), (STEP_SIZE,)),
        "BCD mom Random": (partial(random, momentum=0.9), (STEP_SIZE,)),
        "BCD GS": (greedy, (STEP_SIZE,)),
        "ADAM": (adam, (1e-3,)),
        "SAG": (sag, (SAG_STEP_SIZE,)),
        "ADAM tuned": (adam, GRIDS["ADAM tuned"]),
        "SAG tuned": (sag, GRIDS["SAG tuned"]),
        "BCD mom GS tuned": (
            partial(greedy, momentum=0.9),
            GRIDS["BCD mom GS tuned"],
        ),
        "GD 1/c": (partial(baselines.gradient_descent, objective, start), (safe,)),
        "FISTA": (partial(baselines.fista, objective, start), (safe,)),
    }


def run_set(lasso, max_passes):
    """All methods on one set: traces by name, steps by name, certified optimum."""
    objective = baselines.Objective(lasso.X, lasso.y, "squared", ALPHA)
    start = np.zeros(lasso.X.shape[1])
    _, optimum, bound = baselines.lasso_optimum(objective)
    traces, steps = {}, {}
    for name, fit in skcara_methods(max_passes).items():
        traces[name], steps[name] = fit(objective), ""
    for name, (make, grid) in baseline_methods(objective, start).items():
        steps[name], trace = baselines.tune(
            make, objective, start, grid, max_passes=max_passes
        )
        traces[name] = (trace.passes, trace.seconds, trace.objective)
        print(f"{lasso.name}: {name} done", flush=True)
    return traces, steps, optimum, bound


def first_within(trace, optimum, share):
    """Passes and seconds at which the objective first is within a share of F*."""
    passes, seconds, values = trace
    reached = np.flatnonzero(values <= optimum * (1.0 + share))
    if reached.size == 0:
        return np.inf, np.inf
    return float(passes[reached[0]]), float(seconds[reached[0]])


def summarise(lasso, traces, steps, optimum, bound):
    """One record per method."""
    rows = []
    for name, trace in traces.items():
        passes, seconds, values = trace
        one_percent = first_within(trace, optimum, 0.01)
        certified = first_within(trace, optimum, 1e-8)
        rows.append(
            {
                "set": lasso.name,
                "source": lasso.source,
                "n_rows": len(lasso.y),
                "method": name,
                "step_size": steps[name],
                "last_loss": LOSS_SCALE * float(values[-1]),
                "loss_minus_optimum": LOSS_SCALE * float(values[-1] - optimum),
                "optimum": LOSS_SCALE * float(optimum),
                "certified_gap": LOSS_SCALE * float(optimum - bound),
                "passes": float(passes[-1]),
                "seconds": float(seconds[-1]),
                "passes_to_1_percent": one_percent[0],
                "seconds_to_1_percent": one_percent[1],
                "passes_to_1e-8": certified[0],
                "seconds_to_1e-8": certified[1],
            }
        )
    return rows


def draw(name, traces, optimum, path):
    """Relative distance to the optimum against passes and against seconds."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 5.2), sharey=True)
    for method, (passes, seconds, values) in traces.items():
        gap = np.maximum((values - optimum) / optimum, 1e-13)
        is_ours = method.startswith(("CaBCD", "skcara"))
        style = {
            "linewidth": 2 if is_ours else 1,
            "linestyle": "-" if is_ours else "--",
        }
        panels[0].semilogy(passes, gap, label=method, **style)
        panels[1].loglog(np.maximum(seconds, 1e-3), gap, **style)
    panels[0].set_xlabel("passes")
    panels[1].set_xlabel("seconds")
    panels[0].set_ylabel("(F - F*) / F*")
    figure.suptitle(name)
    figure.legend(fontsize=7, ncol=5, loc="lower center")
    figure.subplots_adjust(bottom=0.24)
    save(figure, path)


def table(rows):
    """Markdown lines of the summary."""

    def pair(row, level):
        passes, seconds = row[f"passes_to_{level}"], row[f"seconds_to_{level}"]
        return f"{passes:.3g} ({seconds:.3g} s)" if np.isfinite(passes) else "-"

    lines = [
        [
            row["set"],
            row["method"],
            row["step_size"] if row["step_size"] == "" else f"{row['step_size']:.2g}",
            f"{row['last_loss']:.8g}",
            f"{row['loss_minus_optimum']:.2e}",
            f"{row['passes']:.3g} ({row['seconds']:.3g} s)",
            pair(row, "1_percent"),
            pair(row, "1e-8"),
        ]
        for row in rows
    ]
    header = [
        "set",
        "method",
        "step",
        "last loss",
        "loss - F*",
        "passes",
        "to 1 % of F*",
    ]
    return markdown_table([*header, "to 1e-8"], lines)


def main():
    """Run the experiment and write its tables and figures."""
    arguments = parse_arguments(__doc__.splitlines()[0], needs_data=True)
    max_passes = 20 if arguments.quick else 50
    max_rows = 4_000 if arguments.quick else None
    rows, notes, points = [], [], []
    with threadpool_limits(1):
        for name in LASSO_RECIPES:
            lasso = make_lasso_set(name, arguments.data_dir, max_rows)
            traces, steps, optimum, bound = run_set(lasso, max_passes)
            rows += summarise(lasso, traces, steps, optimum, bound)
            notes.append(
                f"- {name}: {lasso.source}, {len(lasso.y)} rows, components with "
                f"{lasso.explained:.5%} of the variance, std(y) = {lasso.y.std():.5g}; "
                f"F* = {LOSS_SCALE * optimum:.10g}, certified to "
                f"{LOSS_SCALE * (optimum - bound):.1e}."
            )
            points += [
                {"set": name, "method": method, "passes": float(p), "seconds": float(s),
                 "loss": LOSS_SCALE * float(value)}
                for method, trace in traces.items()
                for p, s, value in zip(*trace, strict=True)
            ]  # fmt: skip
            draw(name, traces, optimum, arguments.output / f"experiment_3_{name}.png")
            write_csv(arguments.output / "experiment_3.csv", rows)
            write_csv(arguments.output / "experiment_3_traces.csv", points)
    write_report(
        arguments.output / "experiment_3.md",
        "LASSO: CaBCD against BCD, ADAM and SAG",
        [*notes, "", *table(rows)],
    )


if __name__ == "__main__":
    main()
