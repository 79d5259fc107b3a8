"""Packages that not everybody has are imported when they are used, and named if not."""

import subprocess
import sys

import pytest

from skcara.io import from_dask, from_parquet

OPTIONAL = ("dask", "distributed", "pandas", "polars", "pyarrow", "rich")


def test_nobody_pays_for_packages_that_are_not_used():
    script = "import sys, skcara; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    imported = {name.partition(".")[0] for name in output.split()}
    # scikit-learn and SciPy may import some of them on their own.
    script = "import sys, sklearn.linear_model, sklearn.model_selection, scipy.stats"
    command = [sys.executable, "-c", f"{script}; print(*sys.modules)"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    others = {name.partition(".")[0] for name in output.split()}
    assert not (imported - others) & set(OPTIONAL)


def test_missing_packages_are_named_with_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"from_parquet needs pyarrow.*skcara\[parq"):
        from_parquet(tmp_path, "y")
    monkeypatch.setitem(sys.modules, "dask.delayed", None)
    with pytest.raises(ImportError, match=r"from_dask needs dask.*skcara\[dask\]"):
        from_dask(None, None)
