"""What the kinds of the campaign share: reports, patience, and untouched inputs."""

import signal
import traceback
from contextlib import contextmanager
from typing import NamedTuple

from scipy import sparse

# A problem that takes longer is reported as one that does not end.
PATIENCE = 120


class Report(NamedTuple):
    """What came out of one problem: failures as (kind, detail), and a remark."""

    failures: list
    remark: str = ""


def snapshot(*arrays):
    """Bytes of all arrays, to see that nobody has written into them."""
    parts = []
    for array in arrays:
        if sparse.issparse(array):
            parts += [array.data, array.indices, array.indptr]
        elif array is not None:
            parts.append(array)
    return [part.tobytes() for part in parts]


@contextmanager
def patience():
    """Turn a hang into an exception, where the platform has alarms.

    Time of the processor counts: the machine may have other things to do.
    """

    def give_up(signum, frame):
        raise TimeoutError(f"no end after {PATIENCE} s")

    if not hasattr(signal, "SIGVTALRM"):
        yield
        return
    previous = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def where(error):
    """What was raised, and the innermost line of the package it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if "skcara" in frame.filename] or frames
    name = inner[-1].filename.rpartition("skcara/")[2]
    text = " ".join(str(error).split())[:200]
    return f"{text} ({name}:{inner[-1].lineno})"
