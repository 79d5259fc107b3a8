"""Fits of files that are several times larger than the memory that they may use."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.utils.fixes import parse_version

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

N_FEATURES = 20
GROUP_ROWS, N_GROUPS = 10_000, 125
MEGABYTE = 2**20

# The limit counts what the process may write to. What the imports take is not what is
# measured, and BLAS must have its buffers before: it would wait for them for ever.
SCRIPT = """
import re, resource, sys
import numpy as np
import pyarrow.parquet
import skcara.io._pool
from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.io import from_parquet

path, room = sys.argv[1], int(sys.argv[2])
skcara.io._pool._POOL_BYTES = room // 16
warm = np.ones((2000, 20))
CaLasso().fit(warm * np.arange(2000.0)[:, None], np.arange(2000.0))
np.linalg.eigh(warm.T @ warm)

status = open("/proc/self/status").read()
used = 1024 * int(re.search(r"VmData:\\s+(\\d+)", status)[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + room, used + room))
try:
    np.ones(room // 4)
    sys.exit("there is no limit")
except MemoryError:
    pass

columns = [f"x{j}" for j in range(20)]
for model, target in (
    (CaLeastSquares(), "y"),
    (CaLasso(alpha=0.01), "y"),
    (CaLogisticRegression(), "label"),
):
    source = from_parquet(path, target=target, columns=columns)
    model.fit(source)
    n_rows = sum(len(part) for part in model.predict(source))
    print(type(model).__name__, n_rows, *model.coef_.ravel())
"""


@pytest.fixture
def large_file(tmp_path):
    """File with normal columns, a target and labels; removed at once after the test."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, writer = tmp_path / "large.parquet", None
    rng = np.random.default_rng(0)
    for _ in range(N_GROUPS):
        X = rng.standard_normal((GROUP_ROWS, N_FEATURES))
        score = X.sum(axis=1)
        columns = {f"x{j}": column for j, column in enumerate(X.T)}
        columns["y"] = score + rng.standard_normal(GROUP_ROWS)
        columns["label"] = np.where(score + rng.logistic(size=GROUP_ROWS) > 0, "b", "a")
        table = pyarrow.table(columns)
        if writer is None:
            writer = parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    writer.close()
    yield path
    path.unlink()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_parquet_in_a_quarter_of_its_size(large_file):
    if parse_version(pytest.importorskip("pyarrow").__version__) < parse_version("17"):
        pytest.skip("pyarrow 16 itself keeps more than this while it reads")
    room = 48 * MEGABYTE
    assert large_file.stat().st_size > 4 * room
    # The allocator of the system reserves nothing that it does not use.
    environment = os.environ | {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",  # each thread of pyarrow has a stack
        "MALLOC_ARENA_MAX": "2",
    }
    command = [sys.executable, "-c", SCRIPT, str(large_file), str(room)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    assert [line[0] for line in lines] == [
        "CaLeastSquares",
        "CaLasso",
        "CaLogisticRegression",
    ]
    for _, n_rows, *coef in lines:
        assert int(n_rows) == GROUP_ROWS * N_GROUPS
        np.testing.assert_allclose(np.array(coef, dtype=float), 1, atol=0.03)


@pytest.fixture
def memory_map(tmp_path):
    """Rows in a plain file, mapped, and a target; the file goes after the test."""
    path, shape = tmp_path / "rows.npy", (1_000_000, N_FEATURES)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    rng = np.random.default_rng(0)
    for part in np.array_split(X, 20):
        part[:] = rng.standard_normal(part.shape)
    y = X.sum(axis=1) + rng.logistic(size=len(X))
    yield np.load(path, mmap_mode="r"), y
    path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [CaLeastSquares(), CaLasso(alpha=0.01), CaLogisticRegression()],
    ids=lambda model: type(model).__name__,
)
def test_memory_maps_are_read_in_place(model, memory_map):
    X, y = memory_map
    if isinstance(model, CaLogisticRegression):
        y = y > 0
    model.fit(X[:2000], y[:2000])
    tracemalloc.start()
    try:
        model.fit(X, y)
        model.predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * X.nbytes
