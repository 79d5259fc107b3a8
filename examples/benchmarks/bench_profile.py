"""Where the time of a fit goes: passes, Gram matrices, the sample, reduced measures.

Each problem is fitted at the loosest tolerance at which the judge finds a relative
suboptimality of 1e-8, once more under the profiler of the standard library. Its
overhead is small here, because nearly all the time is spent in few large NumPy calls.

Examples
--------
::

    python bench_profile.py --problems quick-lasso --output results
    python bench_profile.py --data-dir data --cache cache --output results
"""

import argparse
import cProfile
import pstats
from inspect import unwrap
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
from adapters import Skcara
from judge import Judge
from problems import REAL_PROBLEMS, TALL_PROBLEMS, MissingDataError, make_problem
from reference import reference_objective
from report import markdown_table, write_csv
from threadpoolctl import threadpool_limits

from skcara.estimators import _validation
from skcara.passes import (
    Draw,
    DrawInfluential,
    Evaluate,
    Gram,
    Hessian,
    PreconditionedGram,
    Take,
)
from skcara.solvers.newton import _canewton, _measures
from skcara.solvers.squared import _sample

# Functions that do not call one another, by the part of a fit that they belong to.
# Solvers are generators: what they ask for is done while they wait.
PARTS = {
    "passes": [type(Evaluate.stacked([])).visit],
    "Gram matrices and Hessians of all rows": [
        type(Gram.stacked([])).visit,
        PreconditionedGram.visit,
        Hessian.visit,
    ],
    "drawing and copying rows": [Draw.fetch, DrawInfluential.visit, Take.fetch],
    "start on a sample": [
        _sample._solve_sample,
        _measures.AllRows.start,
        _measures.CalibratedSample.start,
    ],
    "reduced measures": [_canewton._step_on_measure],
    "checking the input": [
        _validation.check_training_data,
        _validation.check_sample_weight,
        _validation.encode_labels,
    ],
}


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=None)
    parser.add_argument("--data-dir", default=None, type=Path)
    parser.add_argument("--cache", default=None, help="folder of reference optima")
    parser.add_argument("--output", default=Path("results/profile"), type=Path)
    parser.add_argument("--budget", type=float, default=60.0)
    return parser.parse_args()


def profile_fit(problem, setting):
    """Statistics of the profiler for one fit after a first one."""
    adapter, profiler = Skcara(), cProfile.Profile()
    adapter.solve(problem, setting)
    profiler.enable()
    adapter.solve(problem, setting)
    profiler.disable()
    return pstats.Stats(profiler)


def shares(statistics):
    """Share of every part in the total time."""
    share = dict.fromkeys(PARTS, 0.0)
    for part, functions in PARTS.items():
        for function in functions:
            # As the profiler names it; a decorated function has its code inside.
            code = unwrap(function).__code__
            key = code.co_filename, code.co_firstlineno, code.co_name
            if key in statistics.stats:
                *_, cumulative, _ = statistics.stats[key]
                share[part] += cumulative / statistics.total_tt
    return share


def profile_row(name, arguments):
    """Shares of one problem as a record."""
    problem = make_problem(name, arguments.data_dir)
    optimum = reference_objective(problem, arguments.cache)["objective"]
    timing = {"clock": "cpu", "budget": arguments.budget}
    judge = Judge(problem)
    ladder = measure.climb_ladder(Skcara(), problem, judge, optimum, **timing)
    setting = ladder[-1].setting
    share = shares(profile_fit(problem, setting))
    share["everything else"] = 1.0 - sum(share.values())
    return {"problem": name, "tol": setting, **share}


def main():
    """Profile all problems; write a table and a CSV file."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    names, rows = arguments.problems or [*TALL_PROBLEMS, *REAL_PROBLEMS], []
    with threadpool_limits(1):
        for name in names:
            try:
                rows.append(profile_row(name, arguments))
            except MissingDataError as reason:
                print(f"{name}: skipped, {reason}", flush=True)
                continue
            print(rows[-1], flush=True)
            write_csv(arguments.output / "profile.csv", rows)
    parts = list(rows[0])[2:]
    lines = [
        [row["problem"], f"{row['tol']:g}", *(f"{row[part]:.0%}" for part in parts)]
        for row in rows
    ]
    text = ["# Shares of a fit", "", *markdown_table(["problem", "tol", *parts], lines)]
    (arguments.output / "profile.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
