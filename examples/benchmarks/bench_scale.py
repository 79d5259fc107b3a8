"""Rows on a cluster, in files and in memory maps: what a fit costs there.

Five questions. What does an empty pass cost the driver of a Dask cluster, and how many
bytes travel? How often are rows read? What does a fit on Dask cost beside the same fit
in memory? How long do both and dask-ml (if it is installed) take to the same
suboptimality? How much memory does a fit of a parquet file or a memory map need that is
larger than the memory it may use?

Times are processor seconds of the driver, the scheduler and all workers during a fit:
neither the start of the cluster nor the loading of persisted rows is counted, but what
an idle cluster spends in the same time is, and has a line of its own. The
suboptimality is judged on all rows by ``judge.py``. The tables are written after every
section: one that fails does not take the others along.

Examples
--------
::

    python bench_scale.py --quick --output results
    python bench_scale.py --output results/scale
"""

import argparse
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import measure  # before NumPy: it fixes the number of threads

# isort: split
import dask.array as da
import distributed
import numpy as np
from judge import Judge
from probe_scale import write_parquet, write_rows
from problems import BenchProblem
from reference import solve_reference
from report import markdown_table

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.data import SumTask
from skcara.io import from_dask
from skcara.io._transport import Transport
from skcara.io._watch import Watch

N_FEATURES = 20
N_WORKERS = 2
# Fits that take a second are repeated, and passes that take less; the median counts.
N_FITS, N_EMPTY = 5, 15
# A fit of some gigabytes takes a minute, or ten on a busy machine.
PROBE_SECONDS = 1800
ESTIMATORS = {
    "least squares": CaLeastSquares,
    "lasso": CaLasso,
    "logistic": CaLogisticRegression,
}


class Sizes(NamedTuple):
    """How large everything is."""

    parts: tuple[int, ...]
    fit_rows: int
    rival_rows: int
    part_rows: int
    file_megabytes: int
    room_megabytes: int
    map_megabytes: int


FULL = Sizes((40, 640, 10_000), 10_000_000, 3_000_000, 100_000, 4200, 1000, 4000)
QUICK = Sizes((4, 20), 40_000, 20_000, 5000, 20, 1000, 20)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--output", default="results/scale", type=Path)
    parser.add_argument("--scratch", default=None, help="folder for large files")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    return parser.parse_args()


# ---- a cluster, and what travels ---------------------------------------------------


@contextmanager
def cluster():
    """Client of a cluster on this machine, one process for each worker."""
    options = {"dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(N_WORKERS, threads_per_worker=1, **options) as local,
        distributed.Client(local) as client,
    ):
        yield client


def worker_seconds(client):
    """Processor seconds of all workers so far."""
    return sum(client.run(time.process_time).values())


def cpu_seconds(client):
    """Processor seconds of this process and all workers so far."""
    return time.process_time() + worker_seconds(client)


@contextmanager
def counted_bytes():
    """Bytes of arguments and results, by the function that the tasks ran."""
    tasks, run = defaultdict(list), Transport.run

    def counted(self, calls):
        calls = list(calls)
        results = run(self, calls)
        for call, result in zip(calls, results, strict=True):
            # The last argument is the shelves, which stay where they are.
            content = call.function, call.arguments[:-1], result
            n_bytes = len(pickle.dumps(content, protocol=5))
            tasks[call.function.__name__].append(n_bytes)
        return results

    Transport.run = counted
    try:
        yield tasks
    finally:
        Transport.run = run


def moved_bytes(client):
    """Bytes that workers sent to each other."""

    def sent(dask_worker):
        log = dask_worker.transfer_outgoing_log
        # What the client is sent goes to nobody by name.
        return sum(entry["total"] for entry in log if entry["who"] is not None)

    return sum(client.run(sent).values())


class Nothing(SumTask):
    """A pass that computes nothing."""

    def visit(self, chunk):
        """Return nothing to be added."""
        return [0.0]


class Reads(Watch):
    """Counts reads."""

    def __init__(self):
        self.n_reads = 0

    def begin(self, n_rows):
        """Count a read."""
        self.n_reads += 1


def make_part(n_rows, block_id=None):
    """X with the score behind it; a worker can make it again."""
    rng = np.random.default_rng(block_id[0])
    X = rng.standard_normal((n_rows, N_FEATURES))
    slope = np.random.default_rng(0).standard_normal(N_FEATURES) / 2
    return np.column_stack([X, X @ slope + rng.logistic(size=n_rows)])


def make_arrays(n_rows, part_rows):
    """X and targets that the workers can make."""
    lengths = (part_rows,) * (n_rows // part_rows)
    table = da.map_blocks(
        make_part,
        part_rows,
        chunks=(lengths, (N_FEATURES + 1,)),
        dtype=float,
        meta=np.empty((0, 0)),
    )
    return table[:, :N_FEATURES], table[:, N_FEATURES]


def persisted(client, *columns):
    """Columns in the memory of the workers, wherever Dask puts their parts."""
    columns = client.persist(columns)
    distributed.wait(columns)
    return columns


# ---- the questions -----------------------------------------------------------------


def empty_passes(sizes, arguments):
    """Seconds of the first touch and of a pass that computes nothing."""
    lines = []
    for n_parts in sizes.parts:
        with cluster() as client:
            X, y = make_arrays(10 * n_parts, 10)
            dask_seconds = measure_persist(client, X, y)
            before = cpu_seconds(client)
            source = from_dask(X, y)
            with source.reading(2):
                problem = source.for_regression()
                touch_seconds = cpu_seconds(client) - before
                passes = [measure_empty_pass(problem) for _ in range(N_EMPTY)]
            driver, wall = (median(seconds) for seconds in zip(*passes, strict=True))
            started = time.process_time()
            time.sleep(1.0)
            idle = wall * (time.process_time() - started)
        cells = [f"{seconds:.1f}" for seconds in (dask_seconds, touch_seconds)]
        cells += [f"{1e3 * seconds:.0f}" for seconds in (driver, idle, wall)]
        lines.append([n_parts, *cells])
        print("empty pass", lines[-1], flush=True)
    header = ["parts", "persist, CPU s", "first touch, CPU s", "driver, ms a pass"]
    header += ["idle, ms", "wall, ms"]
    return markdown_table(header, lines)


def measure_persist(client, X, y):
    """Seconds of all processes that Dask itself needs for so many parts."""
    before = cpu_seconds(client)
    persisted(client, X, y)
    return cpu_seconds(client) - before


def measure_empty_pass(problem):
    """Seconds of the driver, which contains the scheduler, and of the clock."""
    started, wall = time.process_time(), time.perf_counter()
    problem.run([Nothing()])
    return time.process_time() - started, time.perf_counter() - wall


def traffic(sizes, arguments):
    """Bytes and reads of fits on a cluster."""
    lines = []
    with cluster() as client:
        for is_persisted in (False, True):
            X, y = make_arrays(sizes.fit_rows, sizes.part_rows)
            X, y = persisted(client, X, y) if is_persisted else (X, y)
            where = "persisted" if is_persisted else "computed"
            for name, estimator in ESTIMATORS.items():
                source = from_dask(X, y > 0 if name == "logistic" else y)
                title = f"{name}, {sizes.fit_rows:.0e} rows, {where}"
                lines.append([title, *measure_traffic(client, estimator(), source)])
                print("traffic", lines[-1], flush=True)
    header = ["fit", "reads", "kB a task and pass"]
    header += ["all, MB", "all / sample", "moved, MB"]
    return markdown_table(header, lines)


def measure_traffic(client, model, source):
    """Reads and bytes of a fit."""
    reads, before = Reads(), moved_bytes(client)
    with counted_bytes() as tasks, source.reading(5, reads):
        model.fit(source)
        ((_, pool),) = source._surveys.values()
    # The rows among which solvers may choose; only those they want travel.
    sample = len(pool.indices) * (8 * N_FEATURES + pool.target.itemsize)
    in_all = sum(map(sum, tasks.values()))
    return (
        reads.n_reads,
        f"{max(tasks['visit_shelves']) / 1e3:.1f}",
        f"{in_all / 1e6:.1f}",
        f"{in_all / sample:.2f}",
        f"{(moved_bytes(client) - before) / 1e6:.1f}",
    )


def overheads(sizes, arguments):
    """Seconds of fits on Dask and in memory to the same tolerances."""
    lines = []
    with cluster() as client:
        X, y = make_arrays(sizes.fit_rows, sizes.part_rows)
        X, y, labels = persisted(client, X, y, y > 0)
        rows, targets = X.compute(), {"r": y.compute(), "l": labels.compute() * 1.0}
        for name, model, kind in (
            ("least squares", CaLeastSquares(), "r"),
            ("logistic, tol=1e-4", CaLogisticRegression(tol=1e-4), "l"),
            ("logistic, tol=1e-8", CaLogisticRegression(tol=1e-8), "l"),
        ):
            on_dask = (X, labels if kind == "l" else y)
            # In turns, because a busy machine slows down whatever runs.
            both = [
                spent(client, model.fit, *on_dask)
                + spent(client, model.fit, rows, targets[kind])
                for _ in range(N_FITS)
            ]
            driver, workers, wall, alone, *_ = map(median, zip(*both, strict=True))
            idle = sum(spent(client, time.sleep, wall)[:2])
            cells = [driver, workers, idle, alone, (driver + workers) / alone]
            lines.append([name, f"{model.n_passes_:.1f}", *(f"{c:.2f}" for c in cells)])
            print("overhead", lines[-1], flush=True)
    header = [f"{sizes.fit_rows:.0e} x {N_FEATURES}", "passes", "driver, CPU s"]
    header += ["workers, CPU s", "of these idle", "in memory, CPU s", "ratio"]
    return markdown_table(header, lines)


def spent(client, function, *arguments):
    """Processor seconds of this process and of all workers, and wall seconds."""
    before = worker_seconds(client)
    own, started = time.process_time(), time.perf_counter()
    function(*arguments)
    own, wall = time.process_time() - own, time.perf_counter() - started
    return own, worker_seconds(client) - before, wall


def rivals(sizes, arguments):
    """Seconds to the same suboptimality, all solvers and then the fastest of them."""
    lines = compared(sizes.rival_rows, sizes.part_rows, ("newton", "lbfgs"))
    return [*lines, "", *compared(sizes.fit_rows, sizes.part_rows, ("newton",))]


def compared(n_rows, part_rows, solvers):
    """Table of CPU and wall seconds of dask-ml and skcara."""
    with cluster() as client:
        X, y = make_arrays(n_rows, part_rows)
        X, y = persisted(client, X, y > 0)
        in_memory = X.compute(), y.compute().astype(float)
        problem = BenchProblem("rows", "logistic", *in_memory, l1=0.0, l2=1 / n_rows)
        judge, optimum = Judge(problem), solve_reference(problem)[2]

        def measured(fit):
            before, started = cpu_seconds(client), time.perf_counter()
            model = fit()
            wall = time.perf_counter() - started
            return (cpu_seconds(client) - before, wall), model

        def suboptimality(model):
            coef = np.reshape(model.coef_, (N_FEATURES, 1))
            objective = judge.objective(coef, np.atleast_1d(model.intercept_))
            return objective / optimum - 1

        results = {}
        if find_spec("dask_ml"):
            from dask_ml.linear_model import LogisticRegression

            for solver in solvers:
                rival = LogisticRegression(solver=solver, C=1.0)
                seconds, model = measured(lambda m=rival: m.fit(X, y))
                results[f"dask-ml {solver}"] = seconds, suboptimality(model)
                print(solver, results[f"dask-ml {solver}"], flush=True)
        goal = max(min([1e-8] + [result[1] for result in results.values()]), 1e-14)
        inputs = {"skcara Dask": (X, y), "skcara in memory": in_memory}
        results |= alternated(inputs, goal, measured, suboptimality)
        _, wall = results["skcara Dask"][0]
        idle, _ = measured(lambda: time.sleep(wall))
        results["an idle cluster"] = idle, float("nan")
    return rival_table(results, n_rows)


def alternated(inputs, goal, measured, suboptimality):
    """Medians of fits of different inputs, in turns, that all reach the goal."""
    models = {}
    for name, data in inputs.items():
        for tol in (1e-4, 1e-6, 1e-8, 1e-10):
            models[name] = CaLogisticRegression(tol=tol)
            gap = suboptimality(models[name].fit(*data))
            if gap <= goal:
                break
        print(name, "tol", tol, "suboptimality", gap, flush=True)
    seconds = defaultdict(list)
    for _ in range(N_FITS):
        for name, data in inputs.items():
            model = models[name]
            seconds[name].append(measured(lambda m=model, d=data: m.fit(*d))[0])
    return {
        name: (sorted(seconds[name])[N_FITS // 2], suboptimality(models[name]))
        for name in inputs
    }


def rival_table(results, n_rows):
    """Lines of a table, ratios to skcara on Dask."""
    (own, _), _ = results["skcara Dask"]
    lines = [
        [name, f"{cpu:.2f}", f"{wall:.2f}", f"{cpu / own:.1f}", f"{gap:.0e}"]
        for name, ((cpu, wall), gap) in results.items()
    ]
    if not find_spec("dask_ml"):
        lines.append(["dask-ml", "not installed", "", "", ""])
    header = [f"{n_rows:.0e} x {N_FEATURES}", "CPU s", "wall s", "ratio", "subopt."]
    return markdown_table(header, lines)


def memory(sizes, arguments):
    """Peak of anonymous memory that fits and predictions add."""
    scratch = Path(tempfile.mkdtemp(dir=arguments.scratch))
    lines = []
    try:
        for kind, write, megabytes in (
            ("parquet", write_parquet, sizes.file_megabytes),
            ("map", write_rows, sizes.map_megabytes),
        ):
            path = scratch / kind
            write(path, megabytes)
            size = path.stat().st_size / 1e6
            for name in ESTIMATORS:
                room = sizes.room_megabytes if kind == "parquet" else 0
                answer = ask_probe(kind, path, name, room)
                lines.append([f"{kind}, {size:.0f} MB", name, *answer])
                print("memory", lines[-1], flush=True)
            path.unlink()
    finally:
        shutil.rmtree(scratch)
    header = ["data", "fit", "limit, MB", "fit adds, MB", "predict adds, MB", "CPU s"]
    return markdown_table(header, lines)


def ask_probe(kind, path, name, room):
    """Answer of a fresh process."""
    script = Path(__file__).parent / "probe_scale.py"
    command = [sys.executable, str(script), kind, str(path), name, str(room)]
    # BLAS that gets no memory may wait for it for ever.
    output = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PROBE_SECONDS,
    ).stdout
    fit, predict, seconds = json.loads(output.splitlines()[-1])
    return room or "", f"{fit:.0f}", f"{predict:.0f}", f"{seconds:.1f}"


SECTIONS = {
    "Empty passes": empty_passes,
    "Traffic and reads": traffic,
    "Beside memory": overheads,
    "Side by side": rivals,
    "Memory": memory,
}


def main():
    """Ask the questions; sections that are left out keep what the file says."""
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "scale.md"
    sections = read_sections(path)
    machine = measure.machine_description().replace("one thread used", "two workers")
    machine += describe_commit()
    for name in arguments.only:
        sizes = QUICK if arguments.quick else FULL
        sections[name] = SECTIONS[name](sizes, arguments)
        write_sections(path, machine, sections)
    print(path.read_text())


def write_sections(path, machine, sections):
    """Write all tables that there are."""
    lines = ["# Larger than memory", "", machine, ""]
    for name in SECTIONS:
        if name in sections:
            lines += [f"## {name}", "", *sections[name], ""]
    path.write_text("\n".join(lines))


def describe_commit():
    """Which commit was measured, if this is a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f", commit {answer.stdout.strip()}"


def read_sections(path):
    """Tables of an earlier run, by section."""
    if not path.exists():
        return {}
    texts = path.read_text().split("\n## ")[1:]
    sections = (text.strip().split("\n\n", 1) for text in texts)
    return {name: table.splitlines() for name, table in sections}


if __name__ == "__main__":
    main()
