"""
A file that is larger than the memory
=====================================

This script writes a parquet file, forbids itself to use as much memory as the file has
bytes, and fits a Lasso and a logistic regression to it. Set
``SKCARA_EXAMPLE_MEGABYTES`` to try a larger file: the memory stays the same.
"""

import os
import re
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from skcara import CaLasso, CaLogisticRegression
from skcara.io import from_parquet

# The default allocator of pyarrow reserves a gigabyte at once, used or not.
pa.set_memory_pool(pa.system_memory_pool())

MEGABYTES = int(os.environ.get("SKCARA_EXAMPLE_MEGABYTES", 400))
LIMIT = 300
N_FEATURES, GROUP_ROWS = 20, 25_000

# %%
# The file
# --------
# Rows are made and written a group at a time; they are never together in memory.


def make_table(rng):
    """Some rows with a target and a label."""
    X = rng.standard_normal((GROUP_ROWS, N_FEATURES))
    score = X[:, :3].sum(axis=1) + rng.logistic(size=GROUP_ROWS)
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    return pa.table({**columns, "score": score, "label": np.where(score > 0, "b", "a")})


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.parquet"
rng = np.random.default_rng(0)
first = make_table(rng)
n_groups = -(-MEGABYTES * 10**6 // first.nbytes)
with parquet.ParquetWriter(path, first.schema, compression="none") as writer:
    writer.write_table(first)
    for _ in range(n_groups - 1):
        writer.write_table(make_table(rng))
# A first look: pyarrow starts its threads, whose stacks are not what is measured.
parquet.ParquetFile(path).read_row_group(0)
megabytes = path.stat().st_size / 1e6
print(f"{n_groups * GROUP_ROWS} rows, {megabytes:.0f} MB")

# %%
# The limit
# ---------
# On Linux a process can be told how much memory it may ask for. A thread writes down
# how much is in use that is not a page of a file.


def in_use(field="RssAnon"):
    """Memory of this process in megabytes, zero where the system does not say."""
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    found = re.search(rf"{field}:\s+(\d+)", text)
    return int(found[1]) / 1e3 if found else 0.0


@contextmanager
def limited(megabytes):
    """Allow so many megabytes more than are in use."""
    try:
        import resource
    except ImportError:  # no such limits on Windows
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int((in_use("VmData") + megabytes) * 1e6)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def recorded():
    """Pairs of seconds and megabytes, from a thread that looks all the time."""
    records, is_over, started = [], threading.Event(), time.perf_counter()

    def look():
        while not is_over.wait(0.01):
            records.append((time.perf_counter() - started, in_use() - at_start))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield records
    finally:
        is_over.set()
        thread.join()


# %%
# The fits
# --------
# The Lasso reads the file twice. Logistic regression reads it about four times, so that
# it writes a temporary copy that is faster to read; pages of this copy are no memory
# that anybody has to have. Both are certified on all rows.

columns = [f"x{j}" for j in range(N_FEATURES)]
models = {"score": CaLasso(alpha=0.01), "label": CaLogisticRegression()}
curves, at_start = {}, in_use()
for target, model in models.items():
    source = from_parquet(path, target=target, columns=columns)
    with recorded() as records, limited(LIMIT):
        model.fit(source)
    name = type(model).__name__
    curves[name] = np.array(records)
    print(f"{name}: {model.n_passes_:.1f} passes, optimality {model.optimality_:.1e}")

# %%

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, curve in curves.items():
    axes.plot(*curve.T, label=name)
axes.axhline(megabytes, color="black", label="the file")
axes.axhline(LIMIT, color="black", linestyle=":", label="the limit")
axes.set(xlabel="seconds", ylabel="memory added, MB", ylim=(0, None))
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
folder.cleanup()
plt.show()
