"""Timing mechanics of the benchmarks: one thread, side by side, judged runs.

Import this module before NumPy: thread pools read the environment when they are loaded.
"""

import json
import math
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))

import numpy as np  # noqa: E402
from problems import QUICK_PROBLEMS  # noqa: E402

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""On one thread both agree on a quiet machine; on a shared one only ``cpu`` is fair."""

ALARMS = {
    "wall": (signal.ITIMER_REAL, signal.SIGALRM),
    "cpu": (signal.ITIMER_PROF, signal.SIGPROF),
}
"""Timer of each clock, and the signal that it ends a process with."""

SHORT_FIT_SECONDS, MAX_SHORT_FITS_SECONDS = 0.1, 2.0

TARGET = 1e-8
"""Relative suboptimality on the full data at which a rival has solved the problem."""


@dataclass(frozen=True)
class Run:
    """One timed and judged fit."""

    problem: str
    rival: str
    setting: float
    seconds: float
    suboptimality: float
    violation: float
    relative_gap: float

    @property
    def is_solved(self):
        """Whether the judge accepts the solution."""
        return self.suboptimality <= TARGET

    def as_dict(self):
        """Plain values for CSV files."""
        return asdict(self)


@dataclass(frozen=True)
class RivalResult:
    """All runs of one rival on one problem.

    Attributes
    ----------
    ladder : tuple of Run
        One run per setting, loose to tight, up to the first that is solved.
    seconds : float
        Median time of the last setting over the repeats.
    """

    ladder: tuple
    seconds: float

    @property
    def last(self):
        """The tightest run: the solved one, or the one that ended the ladder."""
        return self.ladder[-1]


def timed_fit(adapter, problem, setting, *, clock, budget):
    """Seconds and solution of one cold fit, or None if it exceeds the budget.

    Compiled code cannot be interrupted, so the fit runs in a forked child, which shares
    the data and everything that was imported and compiled, and which an alarm of the
    same clock ends: what others do on the machine costs a fit nothing of its budget.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, adapter, problem, setting, clock, budget)
    child = context.Process(target=_fit_and_send, args=arguments)
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        child.join()
        _, alarm = ALARMS[clock]
        if child.exitcode == -alarm:
            return None
        raise
    finally:
        child.kill()
        child.join()


def _fit_and_send(sender, adapter, problem, setting, clock_name, budget):
    clock, (timer, alarm) = CLOCKS[clock_name], ALARMS[clock_name]
    # The parent may have a handler, which Python would call after the compiled code.
    signal.signal(alarm, signal.SIG_DFL)
    signal.setitimer(timer, budget)
    start = clock()
    solution = adapter.solve(problem, setting)
    seconds = clock() - start
    signal.setitimer(timer, 0)
    if seconds < SHORT_FIT_SECONDS:
        # The first fit after a fork copies memory pages of the interpreter, some
        # milliseconds that have nothing to do with the fit; and a processor clock with
        # an alarm goes by ticks of four milliseconds. Who waits takes no such time.
        start, n_fits, elapsed = clock(), 0, 0.0
        end = time.perf_counter() + MAX_SHORT_FITS_SECONDS
        while elapsed < SHORT_FIT_SECONDS and (
            n_fits == 0 or time.perf_counter() < end
        ):
            adapter.solve(problem, setting)
            n_fits, elapsed = n_fits + 1, clock() - start
        seconds = elapsed / n_fits
    sender.send((seconds, solution))


def judged_run(adapter, problem, judge, optimum, setting, **timing):
    """One fit with the judge's opinion; over the budget it counts as not solved."""
    outcome = timed_fit(adapter, problem, setting, **timing)
    if outcome is None:
        seconds, suboptimality = timing["budget"], math.inf
        violation, relative_gap = math.nan, math.nan
    else:
        seconds, solution = outcome
        verdict = judge.evaluate(solution.coef, solution.intercept)
        suboptimality = float((verdict.objective - optimum) / abs(optimum))
        violation = verdict.violation
        relative_gap = float(verdict.dual_gap / abs(optimum))
    return Run(
        problem=problem.name,
        rival=adapter.name,
        setting=setting,
        seconds=seconds,
        suboptimality=suboptimality,
        violation=violation,
        relative_gap=relative_gap,
    )


def climb_ladder(adapter, problem, judge, optimum, **timing):
    """Tighten the setting until the judge is content or a fit exceeds the budget."""
    ladder = []
    for setting in adapter.settings:
        run = judged_run(adapter, problem, judge, optimum, setting, **timing)
        ladder.append(run)
        if run.is_solved or math.isinf(run.suboptimality):
            break
    return tuple(ladder)


def warm_up(adapters, problem):
    """Import and compile outside the clock, on tiny data of the same kind."""
    for adapter in adapters:
        for build in QUICK_PROBLEMS.values():
            tiny = build()
            if tiny.loss == problem.loss and adapter.skip(tiny) is None:
                adapter.solve(tiny, adapter.settings[0])


def compare(adapters, problem, judge, optimum, *, repeats, **timing):
    """Results by rival name and the time of one plain gradient evaluation.

    The repeats go round all rivals that solved the problem and the gradient, so that a
    slow moment of the machine does not hit one rival alone. ``timing`` holds the
    ``clock`` (a key of :data:`CLOCKS`) and the ``budget`` of one fit in seconds of it.
    """
    warm_up(adapters, problem)
    ladders = {
        adapter: climb_ladder(adapter, problem, judge, optimum, **timing)
        for adapter in adapters
    }
    seconds = {adapter: [ladders[adapter][-1].seconds] for adapter in adapters}
    gradient_seconds = [gradient_evaluation(problem, timing["clock"])]
    for _ in range(repeats - 1):
        gradient_seconds.append(gradient_evaluation(problem, timing["clock"]))
        for adapter in adapters:
            last = ladders[adapter][-1]
            outcome = (
                timed_fit(adapter, problem, last.setting, **timing)
                if last.is_solved
                else None
            )
            if outcome is not None:
                seconds[adapter].append(outcome[0])
    results = {
        adapter.name: RivalResult(ladders[adapter], float(np.median(seconds[adapter])))
        for adapter in adapters
    }
    return results, float(np.median(gradient_seconds))


def gradient_evaluation(problem, clock, repeats=3):
    """Seconds of ``X @ w`` and ``X.T @ r``: the unit of the tables."""
    shape, clock = problem.n_outputs, CLOCKS[clock]
    coef = np.zeros((problem.n_features, shape)).squeeze()
    slope = np.ones((problem.n_rows, shape)).squeeze()
    seconds = []
    for _ in range(repeats):
        start = clock()
        problem.X @ coef
        problem.X.T @ slope
        seconds.append(clock() - start)
    return float(np.median(seconds))


def first_call_seconds(adapter, loss):
    """Extra time of the first fit after the import, on tiny data of the same loss."""
    first, second = ask_fresh_process("first-call", adapter.name, loss)
    return max(0.0, first - second)


def peak_extra_memory(adapter, problem_name, setting, data_dir=None):
    """Peak memory that one fit adds to the data, as a share of the bytes of X."""
    arguments = [adapter.name, problem_name, str(setting)]
    if data_dir is not None:
        arguments.append(str(data_dir))
    extra, size = ask_fresh_process("memory", *arguments)
    return extra / size


def ask_fresh_process(*arguments):
    """Run ``probe.py`` in a new interpreter and return the values it prints."""
    command = [sys.executable, str(Path(__file__).with_name("probe.py")), *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def machine_description():
    """Processor, cores and versions; nothing that names the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((x.split(":")[1] for x in lines if "model name" in x), model)
    packages = ("numpy", "scipy", "scikit-learn", "glum", "skglm", "celer", "skcara")
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    cores = os.cpu_count()
    return f"{model.strip()}, {cores} cores, one thread used; {', '.join(versions)}"
