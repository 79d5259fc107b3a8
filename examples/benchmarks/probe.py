"""What only a fresh process can tell: the cost of a first call, the peak of memory.

Called by ``measure.py``; prints one JSON list on its last line.
"""

import gc
import importlib
import json
import sys
import time
from pathlib import Path

import measure  # noqa: F401 - before NumPy: it fixes the number of threads
from adapters import ADAPTERS
from problems import QUICK_PROBLEMS, make_problem


def find_adapter(name):
    """Adapter by its name."""
    return next(adapter for adapter in ADAPTERS if adapter.name == name)


def tiny_problem(adapter, loss):
    """First quick problem with this loss that the rival solves."""
    problems = (build() for build in QUICK_PROBLEMS.values())
    return next(p for p in problems if p.loss == loss and adapter.skip(p) is None)


def first_call(rival, loss):
    """Seconds of the first and the second fit; imports are not counted."""
    adapter = find_adapter(rival)
    problem = tiny_problem(adapter, loss)
    importlib.import_module("sklearn.linear_model")
    importlib.import_module(adapter.library)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        adapter.solve(problem, adapter.settings[0])
        seconds.append(time.perf_counter() - start)
    return seconds


def memory(rival, problem_name, setting, data_dir=None):
    """Bytes that a fit adds at its peak, and bytes of X."""
    adapter = find_adapter(rival)
    problem = make_problem(problem_name, data_dir)
    # Imports and compiled code belong to the library, not to the fit.
    adapter.solve(tiny_problem(adapter, problem.loss), adapter.settings[0])
    gc.collect()
    reset_peak()
    before = peak_bytes()
    adapter.solve(problem, type(adapter.settings[0])(float(setting)))
    X = problem.X
    size = (
        X.nbytes
        if hasattr(X, "nbytes")
        else sum(part.nbytes for part in (X.data, X.indices, X.indptr))
    )
    return [peak_bytes() - before, size]


def reset_peak():
    """Forget the peak of building the data, where the system can (Linux)."""
    clear_refs = Path("/proc/self/clear_refs")
    if clear_refs.exists():
        clear_refs.write_text("5")


def peak_bytes():
    """Peak resident memory of this process since the last reset."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return 1024 * int(next(x for x in lines if "VmHWM" in x).split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    question = {"first-call": first_call, "memory": memory}[sys.argv[1]]
    print(json.dumps(question(*sys.argv[2:])))
