"""skcara against its peers: time to a certified solution, side by side.

Every rival gets the arrays of the problem as a user has them and fits cold, on one
thread. Its tolerance is tightened from the library's default until an independent judge
finds a relative suboptimality of at most 1e-8 on the full data; the time of that fit,
the median of the repeats, is its result. All of them are warmed up on tiny data first,
because some compile at the first call; a column says what the first call costs.

Examples
--------
::

    python bench_peers.py --quick --output results
    python bench_peers.py --data-dir data --cache cache --output results
    python bench_peers.py --problems adverse --output results
"""

import argparse
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
from adapters import ADAPTERS
from judge import Judge
from problems import GROUPS, MissingDataError, make_problem
from reference import reference_objective
from report import (
    plot_ladders,
    problem_section,
    summary_row,
    summary_section,
    write_csv,
)
from threadpoolctl import threadpool_limits


def make_parser(description):
    """Command line of the scripts that go through the problems."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="tiny problems, one repeat"
    )
    parser.add_argument(
        "--problems",
        nargs="+",
        default=None,
        help=f"problem names or groups {', '.join(GROUPS)}; default tall",
    )
    parser.add_argument(
        "--rivals", nargs="+", default=None, help="only names with one of these parts"
    )
    parser.add_argument("--data-dir", default=None, help="folder of the real data")
    parser.add_argument("--cache", default=None, help="folder of reference optima")
    parser.add_argument("--output", default="results/peers", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--budget",
        type=float,
        default=60.0,
        help="seconds of one fit, of the clock",
    )
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall")
    return parser


def problem_names(arguments):
    """Names asked for, groups expanded."""
    asked = arguments.problems or (["quick"] if arguments.quick else ["tall"])
    return [name for part in asked for name in GROUPS.get(part, (part,))]


def choose_adapters(problem, parts):
    """Adapters that solve the problem, restricted to the rivals asked for."""
    return [
        adapter
        for adapter in ADAPTERS
        if adapter.skip(problem) is None
        and (parts is None or any(part in adapter.name for part in parts))
    ]


def run_problem(name, arguments, first_calls):
    """Compare all rivals on one problem: Markdown lines, runs and the summary row."""
    problem = make_problem(name, arguments.data_dir)
    reference = reference_objective(problem, arguments.cache)
    adapters = choose_adapters(problem, arguments.rivals)
    for adapter in adapters:
        key = (adapter.name, problem.loss)
        if key not in first_calls:
            first_calls[key] = measure.first_call_seconds(adapter, problem.loss)
    results, gradient_seconds = measure.compare(
        adapters,
        problem,
        Judge(problem),
        reference["objective"],
        repeats=1 if arguments.quick else arguments.repeats,
        budget=arguments.budget,
        clock=arguments.clock,
    )
    costs = {rival: first_calls[rival, problem.loss] for rival in results}
    lines = problem_section(name, problem, reference, results, gradient_seconds, costs)
    plot_ladders(arguments.output / f"{name}.png", name, results, gradient_seconds)
    runs = [run.as_dict() for result in results.values() for run in result.ladder]
    return lines, runs, summary_row(name, results, gradient_seconds)


def main():
    """Run all problems; the report is rewritten after each of them."""
    arguments = make_parser(__doc__.splitlines()[0]).parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    sections, runs, summary, first_calls = [], [], [], {}
    with threadpool_limits(1):
        for name in problem_names(arguments):
            try:
                lines, new_runs, row = run_problem(name, arguments, first_calls)
            except MissingDataError as reason:
                sections.append([f"## {name}", "", f"Skipped: {reason}.", ""])
                print(f"{name}: skipped, {reason}", flush=True)
                continue
            sections.append(lines)
            runs += new_runs
            summary.append(row)
            print("\n".join(lines), flush=True)
            write_csv(arguments.output / "runs.csv", runs)
            write_csv(arguments.output / "summary.csv", summary)
            path = arguments.output / "README.md"
            write_report(path, arguments.clock, summary, sections)


def write_report(path, clock, summary, sections):
    """Markdown file with the machine, the summary and every problem."""
    machine = f"{measure.machine_description()}; seconds of {clock} time."
    lines = ["# skcara against its peers", "", machine, ""]
    lines += summary_section(summary)
    for section in sections:
        lines += section
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
