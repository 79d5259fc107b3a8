"""Block rules on Dataset A (Figures 5 and 6 of the article, after Nutini et al.).

Least squares on a million rows and 500 sparse columns; every rule moves one block a
round, 20 rounds from zero. The gap is in the article's scale, half the *sum* of
squares. A rule is ``partition_selection_direction``; ``_CA`` means that a block goes on
on a reduced measure after its first step.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from datasets import sparse_least_squares
from reporting import markdown_table, parse_arguments, save, write_csv, write_report
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from skcara import CaLeastSquares
from skcara.blocks import rule_params

GRADIENT_RULES = (
    "VB_Random_Lb", "VB_Cyclic_Lb", "VB_Perm_Lb", "VB_Lipschitz_Lb", "VB_GS_Lb",
    "VB_GSDHb_Lb", "Sort_Random_Lb", "Sort_Cyclic_Lb", "Sort_Lipschitz_Lb",
    "Sort_GS_Lb", "Sort_GSL_Lb", "Order_GS_Lb", "Order_GSL_Lb", "Avg_GS_Lb",
    "Avg_GSD_Lb", "Avg_GSL_Lb",
)  # fmt: skip
MATRIX_RULES = (
    "VB_GS_Hb", "VB_GSD_Hb", "VB_GSDHb_Hb", "VB_IHT_Hb", "Sort_GSQ_Hb", "Sort_GS_Hb",
    "Sort_GSL_Hb", "Sort_GSD_Hb",
)  # fmt: skip
QUICK_RULES = (
    "VB_Random_Lb", "VB_Cyclic_Lb", "VB_GS_Lb", "VB_GSDHb_Lb", "Sort_GSL_Lb",
    "VB_GSD_Hb", "Sort_GSQ_Hb",
)  # fmt: skip
ROUNDS = 20
DRAW_RULES = ("Sort_GSQ_Hb", "Sort_GS_Hb", "VB_GS_Hb", "VB_GSD_Hb", "VB_IHT_Hb")
DRAWS = range(1, 9)


def optimal_value(X, y):
    """Half the sum of squared residuals at the least-squares solution."""
    gram = (X.T @ X).toarray()
    params = np.linalg.lstsq(gram, X.T @ y, rcond=1e-15)[0]
    # One correction with the exact residual: the columns differ in scale by 1e4.
    params += np.linalg.lstsq(gram, X.T @ (y - X @ params), rcond=1e-15)[0]
    return 0.5 * float(((y - X @ params) ** 2).sum())


def run_rule(X, y, rule, block_size, optimum):
    """Gaps after every round of one rule, as records."""
    estimator = CaLeastSquares(
        solver="cabcd",
        fit_intercept=False,
        block_size=block_size,
        fraction=None,
        tol=0.0,
        max_iter=ROUNDS,
        random_state=0,
        **rule_params(rule),
    )
    started = time.process_time()
    with warnings.catch_warnings():
        # Stopped by the number of rounds.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, y)
    seconds = time.process_time() - started
    return [
        {
            "rule": f"{rule}_CA",
            "block_size": block_size,
            "round": int(entry["round"]),
            "passes": float(entry["passes"]),
            "gap": float(entry["objective"] * len(y) - optimum),
            "inner_steps": int(entry["inner_steps"]),
            "seconds": seconds,
        }
        for entry in estimator.history_
    ]


def spread_over_draws(shape, block_size):
    """Gap at the start and after the last round on other draws of the data."""
    rows = []
    for seed in DRAWS:
        X, y = sparse_least_squares(*shape, seed=seed)
        optimum = optimal_value(X, y)
        for rule in DRAW_RULES:
            history = run_rule(X, y, rule, block_size, optimum)
            rows.append(
                {
                    "seed": seed,
                    "rule": history[-1]["rule"],
                    "start": history[0]["gap"],
                    "gap": history[-1]["gap"],
                }
            )
    return rows


def draw_lines(rows):
    """Markdown lines: smallest and largest gap over the draws."""
    lines = []
    for rule in dict.fromkeys(row["rule"] for row in rows):
        gaps = [row["gap"] for row in rows if row["rule"] == rule]
        lines.append([rule, f"{min(gaps):.3g}", f"{max(gaps):.3g}"])
    starts = [row["start"] for row in rows]
    lines.append(["(start)", f"{min(starts):.3g}", f"{max(starts):.3g}"])
    return markdown_table(["rule, s = 5", "smallest gap", "largest gap"], lines)


def last_gaps(rows):
    """Gap and seconds at the last round by (rule, block size)."""
    return {
        (row["rule"], row["block_size"]): (row["gap"], row["seconds"]) for row in rows
    }


def table(rows, block_sizes):
    """Markdown lines: gap after the last round, one column per block size."""
    gaps = last_gaps(rows)
    lines = []
    for rule in dict.fromkeys(row["rule"] for row in rows):
        cells = [f"{gaps[rule, size][0]:.3g} ({gaps[rule, size][1]:.1f} s)"
                 for size in block_sizes]  # fmt: skip
        lines.append([rule, *cells])
    return markdown_table(["rule", *(f"s = {size}" for size in block_sizes)], lines)


def draw(rows, block_sizes, suffix, path):
    """Gap against rounds, one panel per block size."""
    figure, panels = plt.subplots(
        1, len(block_sizes), figsize=(4.2 * len(block_sizes), 4.2), squeeze=False
    )
    for axes, size in zip(panels[0], block_sizes, strict=True):
        chosen = [row for row in rows if row["block_size"] == size]
        rules = [r for r in dict.fromkeys(row["rule"] for row in chosen) if suffix in r]
        for index, rule in enumerate(rules):
            points = [row for row in chosen if row["rule"] == rule]
            axes.semilogy(
                [row["round"] for row in points],
                [max(row["gap"], 1e-9) for row in points],
                linestyle=("-", "--", ":")[index // 10 + index % 2],
                label=rule.removesuffix("_CA"),
            )
        axes.set_title(f"block size {size}")
        axes.set_xlabel("round")
    panels[0][0].set_ylabel("f - f*")
    panels[0][-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5))
    save(figure, path)


def main():
    """Run all rules and write the table and one figure per direction."""
    arguments = parse_arguments(__doc__.splitlines()[0])
    if arguments.quick:
        shape, block_sizes, rules = (20_000, 100), (5, 20), QUICK_RULES
    else:
        shape, block_sizes = (1_000_000, 500), (5, 50, 100)
        rules = GRADIENT_RULES + MATRIX_RULES
    X, y = sparse_least_squares(*shape)
    optimum = optimal_value(X, y)
    rows = []
    with threadpool_limits(1):
        for rule in rules:
            for size in block_sizes:
                rows += run_rule(X, y, rule, size, optimum)
                print(rule, size, f"{rows[-1]['gap']:.3g}", flush=True)
            write_csv(arguments.output / "experiment_4.csv", rows)
        draws = spread_over_draws(shape, block_sizes[0])
    write_csv(arguments.output / "experiment_4_draws.csv", draws)
    for suffix in ("Lb", "Hb"):
        path = arguments.output / f"experiment_4_{suffix}.png"
        draw(rows, block_sizes, f"_{suffix}_", path)
    write_report(
        arguments.output / "experiment_4.md",
        "Block rules on Dataset A",
        [
            f"{shape[0]} rows, {shape[1]} columns, {X.nnz} non-zeros; optimum "
            f"{optimum:.10g}, gap at the start {rows[0]['gap']:.7g}; gap after "
            f"{ROUNDS} rounds (seconds of the fit):",
            "",
            *table(rows, block_sizes),
            "",
            f"Over {len(DRAWS)} draws of the data:",
            "",
            *draw_lines(draws),
        ],
    )


if __name__ == "__main__":
    main()
