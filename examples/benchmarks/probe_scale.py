"""Memory of a fit of rows that are in a file, asked in a fresh process.

Called by ``bench_scale.py``; prints one JSON list on its last line: the peaks that a
fit and a prediction add to the anonymous memory of the process, in megabytes, and the
processor seconds of the fit.
"""

import json
import os
import re
import resource
import sys
import threading
import time
from pathlib import Path

import measure  # noqa: F401 - before NumPy: it fixes the number of threads
import numpy as np

N_COLUMNS = 20
# Predictions of all rows are an array of their own: long rows keep it small.
N_MAP_COLUMNS = 100
GROUP_ROWS = 50_000


def make_rows(rng, n_columns):
    """Some rows, a target and labels."""
    X = rng.standard_normal((GROUP_ROWS, n_columns))
    score = X[:, :5].sum(axis=1) + rng.logistic(size=GROUP_ROWS)
    return X, score


def n_groups(megabytes, n_columns):
    """Groups of rows that take at least so many megabytes."""
    return -(-megabytes * 10**6 // (8 * n_columns * GROUP_ROWS))


def write_parquet(path, megabytes):
    """Write a file of at least so many megabytes."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, writer = np.random.default_rng(0), None
    for _ in range(n_groups(megabytes, N_COLUMNS)):
        X, score = make_rows(rng, N_COLUMNS)
        columns = {f"x{j}": column for j, column in enumerate(X.T)}
        table = pa.table({**columns, "y": score, "label": score > 0})
        if writer is None:
            # Random numbers do not shrink.
            writer = parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    writer.close()


def write_rows(path, megabytes):
    """Write a plain file of rows."""
    rng = np.random.default_rng(0)
    with Path(path).open("wb") as stream:
        for _ in range(n_groups(megabytes, N_MAP_COLUMNS)):
            stream.write(make_rows(rng, N_MAP_COLUMNS)[0])


class PeakMemory:
    """Megabytes that were added to the anonymous memory since the beginning."""

    def __enter__(self):
        self._is_over = threading.Event()
        self._before = self._highest = anonymous_megabytes()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self):
        while not self._is_over.wait(0.005):
            self._highest = max(self._highest, anonymous_megabytes())

    def __exit__(self, *exception):
        self._is_over.set()
        self._thread.join()
        self.added = max(self._highest, anonymous_megabytes()) - self._before


def status(field):
    """Field of the status of this process, in megabytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text)[1]) / 1e3


def anonymous_megabytes():
    """Memory in use that is not a page of a file."""
    return status("RssAnon")


def load(kind, path, name):
    """Data of a fit as its arguments, and those of a prediction."""
    from skcara.io import from_parquet

    if kind == "parquet":
        columns = [f"x{j}" for j in range(N_COLUMNS)]
        target = "label" if name == "logistic" else "y"
        source = from_parquet(path, target=target, columns=columns)
        return (source,), source
    X = np.memmap(path, dtype=np.float64, mode="r").reshape(-1, N_MAP_COLUMNS)
    y = np.zeros(len(X))
    rng = np.random.default_rng(1)
    for start in range(0, len(X), GROUP_ROWS):
        part = slice(start, start + GROUP_ROWS)
        score = X[part, :5].sum(axis=1)
        y[part] = score + rng.logistic(size=len(score))
    return (X, y > 0 if name == "logistic" else y), X


def main(kind, path, name, room):
    """Fit and predict, within the room if there is a limit."""
    from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

    model = {
        "least squares": CaLeastSquares(),
        "lasso": CaLasso(alpha=0.01),
        "logistic": CaLogisticRegression(),
    }[name]
    # Imports and the buffers of BLAS belong to the library, not to the fit.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, N_COLUMNS))
    model.fit(X, X[:, 0] + rng.standard_normal(3000) > 0)
    if int(room):
        # Before pyarrow allocates anything: as for a process that was started with it.
        limit = 10**6 * int(room)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    arguments, rows = load(kind, path, name)
    started = time.process_time()
    with PeakMemory() as fitted:
        model.fit(*arguments)
    seconds = time.process_time() - started
    with PeakMemory() as predicted:
        found = model.predict(rows)
        n_rows = len(found) if kind == "map" else sum(map(len, found))
    assert n_rows, os.fspath(path)
    print(json.dumps([fitted.added, predicted.added, seconds]))


if __name__ == "__main__":
    main(*sys.argv[1:])
