"""During a pass, and only then, the heap of a worker keeps what is free."""

import json
import os
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest

from skcara.io import _heap
from skcara.io._heap import kept_heap
from skcara.io._shelves import _pass_settings

THRESHOLD = "MALLOC_TRIM_THRESHOLD_"

is_linux = pytest.mark.skipif(
    sys.platform != "linux" or _heap._glibc() is None, reason="needs glibc"
)

PROBE = """
import json, resource
from contextlib import nullcontext
import numpy as np
from skcara.io._heap import kept_heap

def n_faults(context):
    with context:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(200):
            np.ones(2**14) + np.ones(2**14)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

contexts = (nullcontext(), kept_heap(), nullcontext())
print(json.dumps([n_faults(context) for context in contexts]))
"""


@is_linux
def test_vectors_of_a_chunk_are_not_new_memory_every_time():
    environment = os.environ | {THRESHOLD: "65536"}
    command = [sys.executable, "-c", PROBE]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    before, inside, after = json.loads(output)
    # Two hundred times at least one vector of 32 pages, or the first time only.
    assert before > 200 * 32
    assert inside < before / 10
    # The setting is what it was.
    assert after > 200 * 32


@pytest.fixture
def changes(monkeypatch):
    """Thresholds that were set, instead of setting them."""
    found = []
    monkeypatch.setattr(_heap, "_glibc", lambda: "glibc")
    monkeypatch.setattr(_heap, "_set_thresholds", lambda *both: found.append(both))
    return found


def test_thresholds_are_those_of_the_environment_again(monkeypatch, changes):
    monkeypatch.setenv(THRESHOLD, "65536")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "300000")
    with pytest.raises(KeyError), kept_heap():
        raise KeyError
    assert changes == [(2**26, 2**25), (65536, 300_000)]


@pytest.mark.parametrize("value", [None, "", "many", str(2**30)])
def test_nothing_is_changed_where_the_heap_is_not_kept_small(
    value, monkeypatch, changes
):
    monkeypatch.delenv(THRESHOLD, raising=False)
    if value is not None:
        monkeypatch.setenv(THRESHOLD, value)
    assert isinstance(kept_heap(), nullcontext)


def test_nothing_is_changed_where_the_allocator_is_another(monkeypatch):
    monkeypatch.setenv(THRESHOLD, "65536")
    monkeypatch.setattr(_heap, "_glibc", lambda: None)
    assert isinstance(kept_heap(), nullcontext)


def test_the_last_thread_takes_the_settings_back(monkeypatch, changes):
    monkeypatch.setenv(THRESHOLD, "65536")
    is_inside, may_leave = threading.Event(), threading.Event()

    def work():
        with _pass_settings():
            is_inside.set()
            may_leave.wait(10)

    thread = threading.Thread(target=work)
    with _pass_settings():
        thread.start()
        assert is_inside.wait(10)
    assert len(changes) == 1
    may_leave.set()
    thread.join()
    assert len(changes) == 2
