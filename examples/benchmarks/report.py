"""Tables and plots of the benchmarks, from finished results."""

import csv

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

LOWEST_SHOWN = 1e-15


def write_csv(path, rows):
    """Write dictionaries with the same keys as one CSV file."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown_table(header, rows):
    """Lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def problem_section(name, problem, reference, results, gradient_seconds, first_calls):
    """Markdown lines on one problem: every rival, its time and its certificate."""
    rows = []
    for rival, result in sorted(results.items(), key=lambda item: item[1].seconds):
        run = result.last
        rows.append(
            [
                rival,
                f"{result.seconds:.3f}" if run.is_solved else "not reached",
                f"{result.seconds / gradient_seconds:.1f}",
                f"{run.setting:g}",
                f"{run.suboptimality:.0e}",
                f"{run.violation:.0e}",
                f"{run.relative_gap:.0e}",
                f"{result.ladder[0].suboptimality:.0e}",
                f"{result.ladder[0].seconds:.3f}",
                f"{first_calls[rival]:.1f}" if rival in first_calls else "",
            ]
        )
    header = [
        "solver",
        "seconds to 1e-8",
        "gradient evaluations",
        "setting",
        "suboptimality",
        "KKT violation",
        "relative gap",
        "suboptimality at default",
        "seconds at default",
        "first call adds (s)",
    ]
    shape = f"{problem.n_rows} x {problem.n_features}"
    return [
        f"## {name}",
        "",
        f"{problem.loss} loss, {shape}, l1 = {problem.l1:.3g}, l2 = {problem.l2:.3g}; "
        f"{reference['zero_share']:.0%} of the coefficients are zero at the optimum; "
        f"one gradient evaluation takes {gradient_seconds:.4f} s; reference optimum "
        f"{reference['objective']:.12g} (violation {reference['violation']:.0e}, "
        f"relative gap {reference['relative_gap']:.0e}).",
        "",
        *markdown_table(header, rows),
        "",
    ]


def summary_row(name, results, gradient_seconds):
    """One line of the summary: skcara against the default and the best peer."""
    ours = results.get("skcara")
    solved = {
        rival: result
        for rival, result in results.items()
        if rival != "skcara" and result.last.is_solved
    }
    best = min(solved, key=lambda rival: solved[rival].seconds, default=None)
    default = next((rival for rival in results if rival.startswith("sklearn")), None)
    is_solved = ours is not None and ours.last.is_solved
    row = {
        "problem": name,
        "gradient_seconds": gradient_seconds,
        "skcara_seconds": ours.seconds if is_solved else None,
        "skcara_gradients": ours.seconds / gradient_seconds if is_solved else None,
        "sklearn_default": default,
        "sklearn_default_seconds": None,
        "sklearn_default_ratio": None,
        "best_peer": best,
        "best_peer_seconds": solved[best].seconds if best else None,
        "best_peer_ratio": None,
    }
    if default in solved:
        row["sklearn_default_seconds"] = solved[default].seconds
    if is_solved:
        for key in ("sklearn_default", "best_peer"):
            seconds = row[f"{key}_seconds"]
            row[f"{key}_ratio"] = seconds / ours.seconds if seconds else None
    return row


def summary_section(rows):
    """Markdown lines of the summary over all problems."""
    header = [
        "problem",
        "gradient evaluation (s)",
        "skcara (s)",
        "in gradient evaluations",
        "against scikit-learn's default",
        "against the best peer",
    ]
    lines = []
    for row in rows:
        default = _ratio(row, "sklearn_default")
        lines.append(
            [
                row["problem"],
                f"{row['gradient_seconds']:.4f}",
                _number(row["skcara_seconds"], ".3f"),
                _number(row["skcara_gradients"], ".1f"),
                default,
                _ratio(row, "best_peer"),
            ]
        )
    return ["## Summary", "", *markdown_table(header, lines), ""]


def _number(value, spec):
    return "not reached" if value is None else format(value, spec)


def _ratio(row, key):
    if row[key] is None:
        return "none"
    if row[f"{key}_seconds"] is None:
        return f"{row[key]} does not reach 1e-8"
    text = f"{row[key]} {row[f'{key}_seconds']:.3f} s"
    ratio = row[f"{key}_ratio"]
    return text if ratio is None else f"**{ratio:.1f}x** ({text})"


def plot_ladders(path, name, results, gradient_seconds):
    """Suboptimality against time, one line per rival, one marker per setting."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for rival, result in results.items():
        finished = [run for run in result.ladder if np.isfinite(run.suboptimality)]
        seconds = [run.seconds for run in finished]
        values = [max(run.suboptimality, LOWEST_SHOWN) for run in finished]
        is_ours = rival.startswith("skcara")
        axes.loglog(
            seconds,
            values,
            marker="o",
            markersize=6 if is_ours else 4,
            linewidth=2.5 if is_ours else 1.2,
            color="black" if is_ours else None,
            label=rival,
        )
    axes.axhline(1e-8, color="grey", linewidth=0.8, linestyle=":")
    axes.axvline(
        gradient_seconds,
        color="grey",
        linewidth=0.8,
        linestyle="--",
        label="one gradient evaluation",
    )
    _label_seconds(axes.xaxis)
    axes.set_xlabel("seconds of one cold fit")
    axes.set_ylabel("relative suboptimality on the full data")
    axes.set_title(name)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _label_seconds(axis):
    """Few plain numbers: the default labels of a short logarithmic axis overlap."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def plot_growth(path, rows):
    """Seconds against rows, one panel per family."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    figure, panels = plt.subplots(
        1, len(families), figsize=(3.4 * len(families), 3.4), squeeze=False
    )
    for axes, family in zip(panels[0], families, strict=True):
        chosen = [row for row in rows if row["family"] == family]
        for rival in dict.fromkeys(row["rival"] for row in chosen):
            points = [row for row in chosen if row["rival"] == rival]
            axes.loglog(
                [row["n_rows"] for row in points],
                [row["seconds"] for row in points],
                marker="o",
                color="black" if rival == "skcara" else None,
                label=rival,
            )
        axes.set_title(family, fontsize=9)
        axes.set_xlabel("rows")
        axes.legend(fontsize=7)
    panels[0][0].set_ylabel("seconds to 1e-8")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
