"""Choosing a penalty: searches of skcara against those of its peers.

Every rival gets the same folds and the same grid and runs at the defaults of its class,
cold, on one thread, in a process of its own that may be stopped. Beside the time stand
the reads of X (where they are counted), the peak of memory on top of the data in per
cent of X, the largest relative error of the scores of the folds against exact fits, and
whether the choice is that of skcara. The searches of skcara are timed again beside each
rival, so that ratios belong to the same minutes.

Results of rivals that are not run again are kept, so that a long comparison can be made
in pieces.

Examples
--------
::

    python bench_search.py --quick --output /tmp/quick
    python bench_search.py --data-dir data --cache cache --output results/search
    python bench_search.py --problems lasso-n20 --rivals skcara sklearn
"""

import argparse
import csv
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from problems import MissingDataError
from report import markdown_table, write_csv
from search_problems import FULL, QUICK, make_search
from search_reference import exact_errors, largest_error
from search_rivals import RIVALS
from threadpoolctl import threadpool_limits

# Searches longer than this are not repeated.
LONG_SECONDS = 5.0
# The peak of memory contains some megabytes of libraries that a process touches first.
MIN_MEASURED_BYTES = 5e7
OURS = RIVALS[0]


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny problems")
    parser.add_argument("--problems", nargs="+", default=None, help="names")
    parser.add_argument(
        "--rivals", nargs="+", default=None, help="only names with one of these parts"
    )
    parser.add_argument("--data-dir", default=None, help="folder of the real data")
    parser.add_argument("--cache", default=None, help="folder of exact scores")
    parser.add_argument("--output", default=Path("results/search"), type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--budget",
        type=float,
        default=120.0,
        help="seconds of one search, of the clock",
    )
    parser.add_argument("--clock", choices=measure.CLOCKS, default="cpu")
    return parser.parse_args()


def choose_rivals(problem, parts):
    """Rivals that can do the search, restricted to those asked for; ours always."""
    return [
        rival
        for rival in RIVALS
        if rival.skip(problem) is None
        and (
            rival is OURS or parts is None or any(part in rival.name for part in parts)
        )
    ]


def tiny_search(problem):
    """A quick search of the same kind, for warming up."""
    return next(
        search
        for search in map(make_search, QUICK)
        if search.loss == problem.loss
        and any(search.l1_ratios) == any(problem.l1_ratios)
    )


def warm_up(rivals, tiny):
    """Import and compile before the processes start."""
    for rival in rivals:
        rival.search(tiny)


def timed_beside(rival, problem, arguments):
    """Seconds of a rival and of skcara in turns; the last outcome of each."""
    seconds, outcomes = {OURS: [], rival: []}, {}
    timing = {"clock": arguments.clock, "budget": arguments.budget}
    setting = tiny_search(problem), measure.CLOCKS[arguments.clock]
    for _ in range(1 if arguments.quick else arguments.repeats):
        for one in dict.fromkeys((rival, OURS)):
            if max(seconds[one], default=0.0) > LONG_SECONDS:
                continue
            result = measure.timed_fit(one, problem, setting, **timing)
            outcomes[one] = None if result is None else result[1]
            if result is None:
                break
            seconds[one].append(outcomes[one].seconds)
    return seconds, outcomes


def record_of(rival, problem, exact, arguments):
    """All numbers of one rival on one problem, as a flat dictionary."""
    seconds, outcomes = timed_beside(rival, problem, arguments)
    record = {"problem": problem.name, "rival": rival.name, "budget": arguments.budget}
    outcome = outcomes.get(rival)
    record["skcara_seconds"] = _median(seconds[OURS])
    if outcome is None:
        record["seconds"] = record["ratio"] = np.nan
        names = ("reads", "extra_memory", "score_error", "l1_ratio", "strength")
        return {**record, **dict.fromkeys(names, np.nan)}
    record["seconds"] = _median(seconds[rival])
    record["ratio"] = record["seconds"] / record["skcara_seconds"]
    record["reads"] = outcome.reads
    size = _size(problem.X)
    record["extra_memory"] = (
        outcome.extra_bytes / size if size > MIN_MEASURED_BYTES else np.nan
    )
    record["score_error"] = largest_error(outcome, problem, exact)
    record["l1_ratio"], record["strength"] = outcome.l1_ratio, outcome.strength
    return record


def _median(seconds):
    return float(np.median(seconds)) if seconds else np.nan


def _size(X):
    if hasattr(X, "indptr"):
        return sum(part.nbytes for part in (X.data, X.indices, X.indptr))
    return X.nbytes


# ---- report ----------------------------------------------------------------------


def load_records(path):
    """Records of earlier runs by problem and rival."""
    if not path.exists():
        return {}
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        for key in row.keys() - {"problem", "rival"}:
            row[key] = float(row[key])
    return {(row["problem"], row["rival"]): row for row in rows}


def choice_of(record, ours):
    """How the choice of a rival compares with ours."""
    if np.isnan(record["strength"]):
        return ""
    is_same = np.isclose(record["strength"], ours["strength"], rtol=1e-6)
    is_same &= np.isclose(record["l1_ratio"], ours["l1_ratio"])
    return "same" if is_same else "another"


def row_of(record, ours):
    """Cells of one rival on one problem."""
    return [
        record["rival"],
        _number(record["seconds"], ".3f", f"over {record['budget']:.0f}"),
        _number(record["ratio"], ".1f"),
        _number(record["reads"], ".1f"),
        _number(record["extra_memory"], ".0%"),
        _number(record["score_error"], ".0e"),
        choice_of(record, ours),
    ]


def problem_section(name, records):
    """Markdown lines on one problem."""
    header = ["search", "seconds", "times skcara", "reads of X", "extra memory"]
    header += ["largest score error", "choice"]
    lines = [row_of(record, records[0]) for record in records]
    return [f"## {name}", "", *markdown_table(header, lines), ""]


def _number(value, spec, missing=""):
    return format(value, spec) if np.isfinite(value) else missing


def summary_section(by_problem):
    """Markdown lines with one row per problem: ours, and ratios to the others."""
    lines = []
    for name, records in by_problem.items():
        ours, others = records[0], records[1:]
        lines.append(
            [
                name,
                f"{ours['seconds']:.3f}",
                f"{ours['reads']:.1f}",
                _number(ours["extra_memory"], ".0%"),
                _number(ours["score_error"], ".0e"),
                _best(others, "sklearn"),
                *(_best(others, part) for part in ("glum", "celer", "Grid", "loop")),
            ]
        )
    header = ["search", "skcara (s)", "reads", "extra memory", "score error"]
    header += ["scikit-learn's best", "glum CV", "celer path, no folds"]
    header += ["GridSearchCV of skcara", "loop of skcara"]
    return ["## Summary", "", *markdown_table(header, lines), ""]


def _best(records, part):
    """Ratio of the fastest of some rivals, with its solver where it has a choice."""
    chosen = [record for record in records if part in record["rival"]]
    done = [record for record in chosen if np.isfinite(record["ratio"])]
    if not done:
        return f"over {chosen[0]['budget']:.0f} s" if chosen else ""
    best = min(done, key=lambda record: record["ratio"])
    solver = best["rival"].removeprefix("sklearn ")
    label = f" ({solver})" if part == "sklearn" and len(chosen) > 1 else ""
    return f"**{best['ratio']:.1f}x**{label}"


def write_report(folder, records, clock):
    """All numbers as CSV; the summary and every problem as Markdown."""
    order = [rival.name for rival in RIVALS]
    by_problem = {}
    for name in (*FULL, *QUICK):
        own = [record for (problem, _), record in records.items() if problem == name]
        if own:
            own.sort(key=lambda record: order.index(record["rival"]))
            by_problem[name] = own
    rows = [record for own in by_problem.values() for record in own]
    write_csv(folder / "runs.csv", rows)
    lines = [
        "# Searches",
        "",
        f"{measure.machine_description()}; seconds of {clock} time.",
        "",
        *summary_section(by_problem),
    ]
    for name, own in by_problem.items():
        lines += problem_section(name, own)
    (folder / "README.md").write_text("\n".join(lines))


def main():
    """Run all searches; the report is rewritten after each of them."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    records = load_records(arguments.output / "runs.csv")
    with threadpool_limits(1):
        for name in arguments.problems or (QUICK if arguments.quick else FULL):
            try:
                problem = make_search(name, arguments.data_dir)
            except MissingDataError as reason:
                print(f"{name}: skipped, {reason}", flush=True)
                continue
            exact = exact_errors(problem, arguments.cache)
            rivals = choose_rivals(problem, arguments.rivals)
            warm_up(rivals, tiny_search(problem))
            for rival in rivals:
                record = record_of(rival, problem, exact, arguments)
                records[name, rival.name] = record
                ours = records[name, OURS.name]
                print(name, row_of(record, ours), flush=True)
                write_report(arguments.output, records, arguments.clock)


if __name__ == "__main__":
    main()
