"""What do users get who set nothing? Suboptimality at the default settings.

Every problem is fitted once by skcara and once by scikit-learn's default solver for it,
both with the default tolerance and the default number of iterations. The judge compares
what they return with the optimum, on the full data. skcara promises a relative
suboptimality of at most 1e-6 on all of them; if one of its fits breaks the promise, the
script says so and ends with an error.

Examples
--------
::

    python bench_defaults.py --quick --output results
    python bench_defaults.py --data-dir data --cache cache --output results/defaults
"""

import sys
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
from adapters import ADAPTERS
from bench_peers import make_parser, problem_names
from judge import Judge
from problems import MissingDataError, make_problem
from reference import reference_objective
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

PROMISE = 1e-6


def parse_arguments():
    """Command line: that of ``bench_peers.py``, with groups of its own."""
    parser = make_parser(__doc__.splitlines()[0])
    parser.set_defaults(output=Path("results/defaults"), clock="cpu")
    arguments = parser.parse_args()
    if arguments.problems is None and not arguments.quick:
        arguments.problems = ["tall", "adverse"]
    return arguments


def rivals_for(problem):
    """skcara, and the default solver of scikit-learn."""
    able = [adapter for adapter in ADAPTERS if adapter.skip(problem) is None]
    theirs = next(adapter for adapter in able if adapter.library == "sklearn")
    return [next(adapter for adapter in able if adapter.name == "skcara"), theirs]


def judged_default(adapter, problem, optimum, clock):
    """Seconds and relative suboptimality of a fit with default settings."""
    now = measure.CLOCKS[clock]
    start = now()
    solution = adapter.solve(problem, None)
    seconds = now() - start
    objective = Judge(problem).objective(solution.coef, solution.intercept)
    return seconds, float((objective - optimum) / abs(optimum))


def compare(name, arguments):
    """Record of one problem."""
    problem = make_problem(name, arguments.data_dir)
    optimum = reference_objective(problem, arguments.cache)["objective"]
    rivals = rivals_for(problem)
    measure.warm_up(rivals, problem)
    record = {"problem": name, "default of scikit-learn": rivals[1].name}
    for label, adapter in zip(("skcara", "sklearn"), rivals, strict=True):
        seconds, reached = judged_default(adapter, problem, optimum, arguments.clock)
        record |= {f"{label}_seconds": seconds, f"{label}_suboptimality": reached}
    record["is_kept"] = record["skcara_suboptimality"] <= PROMISE
    return record


def table(records):
    """Markdown lines, one for each problem."""
    header = ["problem", "skcara (s)", "suboptimality", "scikit-learn (s)"]
    header += ["suboptimality", "its solver", "1e-6 kept"]
    rows = []
    for record in records:
        row = [record["problem"]]
        for label in ("skcara", "sklearn"):
            row.append(f"{record[f'{label}_seconds']:.3f}")
            row.append(f"{record[f'{label}_suboptimality']:.0e}")
        kept = "yes" if record["is_kept"] else "**no**"
        rows.append([*row, record["default of scikit-learn"], kept])
    return markdown_table(header, rows)


def main():
    """Fit all problems; the report is rewritten after each of them."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    records = []
    with threadpool_limits(1):
        for name in problem_names(arguments):
            try:
                records.append(compare(name, arguments))
            except MissingDataError as reason:
                print(f"{name}: skipped, {reason}", flush=True)
                continue
            print(table(records[-1:])[-1], flush=True)
            write_csv(arguments.output / "defaults.csv", records)
            machine = f"{measure.machine_description()}; {arguments.clock} time."
            lines = ["# Default settings", "", machine, "", *table(records), ""]
            (arguments.output / "defaults.md").write_text("\n".join(lines))
    if broken := [record["problem"] for record in records if not record["is_kept"]]:
        sys.exit(f"Above a relative suboptimality of {PROMISE:g}: {', '.join(broken)}.")


if __name__ == "__main__":
    main()
