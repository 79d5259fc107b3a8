"""What the experiments share: command line, tables, figures, the machine."""

import argparse
import csv
import os
import platform
from importlib import metadata
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def parse_arguments(description, needs_data=False):
    """Command line shared by all experiments; the output folder is created."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="about a minute or less")
    parser.add_argument("--output", type=Path, default=Path("results"))
    if needs_data:
        parser.add_argument(
            "--data-dir", default=None, help="folder of the real data (.npz)"
        )
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    return arguments


def write_csv(path, rows):
    """Write dictionaries with the same keys; numbers with six digits."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _short(value) for key, value in row.items()})


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def markdown_table(header, rows):
    """Lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def write_report(path, title, lines):
    """Write a Markdown file that starts with the machine, and print it."""
    text = "\n".join([f"# {title}", "", machine_description(), "", *lines, ""])
    path.write_text(text)
    print(text)


def machine_description():
    """Processor, cores and versions; nothing that names the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((x.split(":")[1] for x in lines if "model name" in x), model)
    versions = ", ".join(
        f"{package} {metadata.version(package)}"
        for package in ("numpy", "scipy", "scikit-learn")
    )
    return (
        f"{model.strip()}, {os.cpu_count()} cores, one BLAS thread; "
        f"Python {platform.python_version()}, {versions}."
    )


def save(figure, path):
    """Write a small PNG and forget the figure."""
    figure.savefig(path, dpi=85, bbox_inches="tight")
    plt.close(figure)
