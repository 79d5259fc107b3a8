"""Parquet files: same bits as in memory, a copy that never stays, clear errors."""

import os
import resource
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
from io_tasks import Moments, assert_same_bits, make_rows

from skcara.data import ArraySource
from skcara.io import from_parquet
from skcara.io._spill import Spill

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N_ROWS = 40_001


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Directory of temporary files, which must be empty after each test."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert not list(directory.iterdir())


def write(path, X, y, weights=None, *, group_rows=7000, **columns):
    table = {f"x{j}": column for j, column in enumerate(X.T)}
    table |= {"y": y} | ({} if weights is None else {"w": weights}) | columns
    parquet.write_table(pyarrow.table(table), path, row_group_size=group_rows)


@pytest.fixture
def files(tmp_path):
    """Three files of one data set, and its arrays."""
    X, y, weights = make_rows(0, n_rows=N_ROWS)
    for number, part in enumerate(np.array_split(np.arange(N_ROWS), 3)):
        write(tmp_path / f"part{number}.parquet", X[part], y[part], weights[part])
    return tmp_path, X, y, weights


def run(source, n_passes=1):
    for _ in range(n_passes):
        (result,) = source.run([Moments()])
    return result


@pytest.mark.parametrize("cache", ["auto", True, False])
def test_same_bits_as_in_memory(files, cache):
    directory, X, y, weights = files
    source = from_parquet(directory / "*.parquet", "y", "w", cache=cache)
    assert source.feature_names == tuple(f"x{j}" for j in range(X.shape[1]))
    with source.reading(5):
        found = run(source.for_regression(), n_passes=3)
    assert_same_bits(found, run(ArraySource(X, y, weights)))


def test_paths(files):
    directory, *_ = files
    names = [directory / f"part{k}.parquet" for k in range(3)]
    for paths in (directory, str(directory / "part?.parquet"), names):
        facts = from_parquet(paths, "y", "w").for_regression().facts
        assert facts.n_rows == N_ROWS
    assert "40001 rows of 3 parquet files" in repr(from_parquet(directory, "y"))


def test_columns_in_the_order_that_was_asked_for(files):
    directory, X, y, _ = files
    source = from_parquet(directory, "y", columns=["x3", "x1"])
    assert_same_bits(
        run(source.for_regression()),
        run(ArraySource(np.ascontiguousarray(X[:, [3, 1]]), y)),
    )


def test_single_precision_and_integers(tmp_path):
    X, y, _ = make_rows(0, n_rows=3000)
    write(tmp_path / "a.parquet", X.astype(np.float32), y)
    assert from_parquet(tmp_path / "a.parquet", "y")._reader.layout().dtype == "f4"
    write(tmp_path / "b.parquet", X.astype(np.float32), y, k=np.arange(3000) % 2 == 0)
    source = from_parquet(tmp_path / "b.parquet", "y")
    assert source._reader.layout().dtype == "f8"
    chunk = next(iter(source.for_regression().take(np.array([0, 1]))))
    np.testing.assert_array_equal(chunk.rows[:, -1], [1.0, 0.0])


@pytest.mark.parametrize("cache", [True, False])
def test_rows_by_number(files, cache):
    directory, X, _, weights = files
    weights_read = from_parquet(directory, "y", "w", cache=cache)
    with weights_read.reading(9):
        source = weights_read.for_regression()
        indices = np.flatnonzero(weights)[[0, 5, 13_000, 20_000, -1]]
        chunks = list(source._reader.take(indices))
        rows = np.concatenate([chunk.rows for chunk in chunks])
        np.testing.assert_array_equal(rows, X[indices])
        found = np.concatenate([chunk.weights for chunk in chunks])
        np.testing.assert_array_equal(found, weights[indices])


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("kind", ["string", "dictionary", "bool", "int"])
def test_labels(tmp_path, kind, cache):
    X, y, _ = make_rows(0, n_rows=5000)
    labels = {
        "string": np.where(y > 0, "yes", "no"),
        "dictionary": pyarrow.array(np.where(y > 0, "yes", "no")).dictionary_encode(),
        "bool": y > 0,
        "int": np.where(y > 0, 7, -7),
    }[kind]
    write(tmp_path / "a.parquet", X, labels)
    source = from_parquet(tmp_path / "a.parquet", "y", cache=cache)
    with source.reading(5):
        classes, coded = source.for_classification()
        found = run(coded, n_passes=2)
    expected = {"bool": [False, True], "int": [-7, 7]}.get(kind, ["no", "yes"])
    assert classes.tolist() == expected
    assert_same_bits(found, run(ArraySource(X, (y > 0).astype(np.int8))))


# ---- the copy on disk --------------------------------------------------------------


@pytest.mark.parametrize(("expected_reads", "copied"), [(2, False), (5, True)])
def test_a_copy_is_made_when_more_than_two_reads_are_ahead(
    files, scratch, expected_reads, copied
):
    source = from_parquet(files[0], "y")
    with source.reading(expected_reads):
        source.for_regression()
        assert bool(list(scratch.iterdir())) == copied
    assert not list(scratch.iterdir())


def test_a_copy_is_made_at_the_third_read_that_nobody_expected(files, scratch):
    source = from_parquet(files[0], "y")
    with source.reading(1):
        problem = source.for_regression()
        run(problem)
        assert not list(scratch.iterdir())
        run(problem)
        run(problem)
        assert list(scratch.iterdir())


def test_a_with_block_keeps_the_copy_between_fits(files, scratch):
    with from_parquet(files[0], "y") as source:
        for _ in range(2):
            with source.reading(5):
                run(source.for_regression())
            assert len(list(scratch.iterdir())) == 1


def test_no_copy_without_room(files, scratch, monkeypatch):
    monkeypatch.setattr(Spill, "has_room", staticmethod(lambda n_bytes: False))
    source = from_parquet(files[0], "y", cache=True)
    with pytest.raises(OSError, match=r"cache=True needs 0.0 GB"), source.reading(5):
        source.for_regression()
    source = from_parquet(files[0], "y")
    with source.reading(5):
        run(source.for_regression(), n_passes=3)
        assert not list(scratch.iterdir())


def test_the_copy_is_removed_after_an_error(files, scratch):
    class Failing(Moments):
        def visit(self, chunk):
            if chunk.start > 20_000:
                raise ZeroDivisionError
            return super().visit(chunk)

    source = from_parquet(files[0], "y", cache=True)
    with pytest.raises(ZeroDivisionError), source.reading(5):
        source._reader.fold(Failing())
    assert not list(scratch.iterdir())
    with source.reading(5):
        run(source.for_regression())


def test_the_copy_is_removed_with_its_owner(files, scratch):
    source = from_parquet(files[0], "y", cache=True)
    source._reader.open(5)
    source.for_regression()
    assert list(scratch.iterdir())
    del source


def test_a_full_disk(files, scratch):
    source = from_parquet(files[0], "y", cache=True)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with (
            pytest.raises(OSError, match=r"temporary copy of the data in .*Set TMPDIR"),
            source.reading(5),
        ):
            source.for_regression()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(scratch.iterdir())


# ---- bad input ---------------------------------------------------------------------


@pytest.mark.parametrize("cache", [True, False])
def test_a_file_that_changes_between_reads(files, cache):
    directory, X, y, weights = files
    source = from_parquet(directory, "y", cache=cache)
    with source.reading(5):
        problem = source.for_regression()
        write(directory / "part1.parquet", X[:100], y[:100], weights[:100])
        with pytest.raises(RuntimeError, match=r"part1.parquet changed while"):
            run(problem)
        os.remove(directory / "part1.parquet")
        with pytest.raises(RuntimeError, match=r"part1.parquet changed while"):
            run(problem)


def test_what_is_not_a_path():
    dataset = pytest.importorskip("pyarrow.dataset")
    table = dataset.dataset(pyarrow.table({"y": [1.0]}))
    with pytest.raises(TypeError, match=r"paths must be .* got .*Dataset.*\.files"):
        from_parquet(table, "y")
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"got LazyFrame.*from_chunks"):
        from_parquet(polars.LazyFrame({"y": [1.0]}), "y")


def test_a_file_that_is_no_parquet_file(tmp_path):
    (tmp_path / "a.parquet").write_text("nothing")
    with pytest.raises(ValueError, match=r"File .*a\.parquet: "):
        from_parquet(tmp_path, "y")


def test_missing_files(tmp_path):
    for paths in ("nothing/*.parquet", tmp_path, Path("nothing.parquet"), []):
        with pytest.raises(FileNotFoundError, match=r"no parquet file|No parquet file"):
            from_parquet(paths, "y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "z"}, "File .*: There is no column 'z'. The columns are: 'x0'"),
        ({"target": "y", "weight": "v"}, "There is no column 'v'"),
        ({"target": "y", "columns": ["x0", "q"]}, "There is no column 'q'"),
        ({"target": "y", "columns": ["x0", "y"]}, "columns contains the target"),
        ({"target": "y", "columns": []}, "no column beside the target"),
        ({"target": "y", "columns": ["x0", "x0"]}, "'x0' is there more than once"),
        ({"target": "y", "cache": "always"}, "cache must be"),
    ],
)
def test_bad_arguments(files, options, message):
    with pytest.raises(ValueError, match=message):
        from_parquet(files[0], **options)


def test_columns_that_are_not_numbers(tmp_path):
    X, y, _ = make_rows(0, n_rows=100)
    city = pyarrow.array(["a"] * 100)
    write(tmp_path / "a.parquet", X, y, city=city, kind=city.dictionary_encode())
    with pytest.raises(
        TypeError, match=r"Columns 'city', 'kind' are not numbers. Enco"
    ):
        from_parquet(tmp_path, "y")
    assert from_parquet(tmp_path, "y", columns=["x0"]).n_features == 1


def test_files_that_disagree(tmp_path):
    X, y, _ = make_rows(0, n_rows=100)
    write(tmp_path / "a.parquet", X, y)
    write(tmp_path / "b.parquet", X.astype(np.float32), y)
    with pytest.raises(ValueError, match=r"b.parquet: Column 'x0' has type float, in "):
        from_parquet(tmp_path, "y")
    write(tmp_path / "b.parquet", X[:, :3], y)
    with pytest.raises(ValueError, match=r"b.parquet: Columns \['x3', 'x4', 'x5'\]"):
        from_parquet(tmp_path, "y")


def test_missing_values(tmp_path):
    X, y, _ = make_rows(0, n_rows=100)
    write(tmp_path / "a.parquet", X, y, k=pyarrow.array([None] + [1] * 99))
    with pytest.raises(ValueError, match="NaN or infinity in column 'k', row 0"):
        from_parquet(tmp_path, "y").for_regression()
