"""Dask collections without a cluster: right rows, same bits, clear errors."""

import numpy as np
import pytest
from io_tasks import Moments, RowNumbers, assert_same_bits, make_rows
from scipy import sparse

from skcara.data import ArraySource
from skcara.io import from_dask

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")

N_ROWS = 20_011


@pytest.fixture
def data():
    return make_rows(0, n_rows=N_ROWS)


def moments(source):
    (result,) = source.run([Moments()])
    return result


def assert_same_rows(source, X, y, weights=None):
    expected = moments(ArraySource(X, y, weights))
    for one, other in zip(moments(source), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    assert source.facts.n_rows == len(y)
    assert source.facts.total_weight == pytest.approx(
        len(y) if weights is None else weights.sum()
    )


def frame(X, y, weights, n_parts=7):
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    return dd.from_pandas(
        pandas.DataFrame(columns | {"y": y, "w": weights}), npartitions=n_parts
    )


@pytest.mark.parametrize("chunks", [(3000, 6), (20_011, 6), (4000, 2)])
def test_arrays(data, chunks):
    X, y, weights = data
    X_dask = da.from_array(X, chunks=chunks)
    source = from_dask(X_dask, da.from_array(y, chunks=3000)).for_regression()
    assert_same_rows(source, X, y)
    weights_dask = da.from_array(weights, chunks=777)
    source = from_dask(X_dask, y, weights_dask).for_regression()
    assert_same_rows(source, X, y, weights)


def test_what_columns_share_is_computed_once(data):
    """A read computes every partition of the table behind X and y a single time."""
    table, computed = np.column_stack(data), []

    def load(block_id=None):
        computed.append(block_id[0])
        return table[5000 * block_id[0] :][:5000]

    lengths = (5000, 5000, 5000, 5000, 11)
    blocks = da.map_blocks(
        load, chunks=(lengths, (8,)), dtype=float, meta=np.empty((0, 0))
    )
    with dask.config.set(scheduler="synchronous"):
        source = from_dask(blocks[:, :6], blocks[:, 6], blocks[:, 7]).for_regression()
        computed.clear()
        assert_same_rows(source, table[:, :6], table[:, 6], table[:, 7])
    assert sorted(computed) == [0, 1, 2, 3, 4]


def test_frames(data):
    X, y, weights = data
    table = frame(X, y, weights)
    names = [name for name in table.columns if name.startswith("x")]
    source = from_dask(table[names], table["y"], table["w"])
    assert source.feature_names == tuple(names)
    assert_same_rows(source.for_regression(), X, y, weights)


def test_unknown_lengths(data):
    X, y, weights = data
    table = frame(X, y, weights)
    table = table[table["x0"] > 0]
    kept = X[:, 0] > 0
    X_dask = table[[f"x{j}" for j in range(6)]].to_dask_array()
    assert np.isnan(X_dask.shape[0])
    source = from_dask(X_dask, table["y"].to_dask_array(), table["w"].to_dask_array())
    source = source.for_regression()
    assert_same_rows(source, X[kept], y[kept], weights[kept])
    ((ranges,),) = source.run([RowNumbers()])
    assert [part.start for part in ranges] == [0, *(part.stop for part in ranges[:-1])]


def test_columns_of_one_file_stay_together(data, tmp_path):
    # Dask reads few columns in larger partitions than many columns of the same files.
    pytest.importorskip("pyarrow")
    X, y, weights = data
    for number, part in enumerate(frame(X, y, weights, n_parts=10).to_delayed()):
        part.compute().to_parquet(tmp_path / f"{number}.parquet")
    table = dd.read_parquet(tmp_path)
    for names in (["x0", "x1", "x2", "x3", "x4", "x5"], ["x0"]):
        columns = [int(name[1:]) for name in names]
        source = from_dask(table[names], table["y"], table["w"]).for_regression()
        expected = np.ascontiguousarray(X[:, columns])
        assert_same_rows(source, expected, y, weights)


def test_sparse_blocks():
    rng = np.random.default_rng(0)
    X = sparse.random_array((5000, 20), density=0.1, format="csr", random_state=rng)
    y = np.arange(5000.0)
    blocks = [
        da.from_delayed(
            dask.delayed(X[a : a + 1000]), (1000, 20), meta=sparse.csr_array((0, 20))
        )
        for a in range(0, 5000, 1000)
    ]
    source = from_dask(da.concatenate(blocks), y).for_regression()
    assert source.facts.is_sparse
    assert source.facts.n_entries == X.nnz
    assert_same_rows(source, X, y)


def test_empty_and_one_class_partitions(data):
    X, y, _ = data
    labels = np.where(y > 0, "b", "a")
    order = np.argsort(labels)
    X, labels = X[order], labels[order]
    lengths = (0, 5000, 0, 10_000, N_ROWS - 15_000, 0)
    source = from_dask(
        da.from_array(X, chunks=(lengths, 6)), da.from_array(labels, chunks=(lengths,))
    )
    classes, source = source.for_classification()
    assert classes.tolist() == ["a", "b"]
    assert_same_rows(source, X, (labels == "b").astype(np.int8))


def test_same_pool_and_bits_for_any_scheduler(data):
    X, y, weights = data
    results = []
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            X_dask = da.from_array(X, chunks=(1234, 6))
            source = from_dask(X_dask, y, weights).for_regression()
            results.append(moments(source))
    assert_same_bits(*results)


def test_rows_by_number(data):
    X, y, _ = data
    source = from_dask(da.from_array(X, chunks=(3000, 6)), y).for_regression()
    indices = np.array([0, 2999, 3000, 3001, 12_000, N_ROWS - 1])
    for take in (source.take, source._reader.take):
        chunks = list(take(indices))
        np.testing.assert_array_equal(
            np.concatenate([c.rows for c in chunks]), X[indices]
        )
        np.testing.assert_array_equal(
            np.concatenate([c.target for c in chunks]), y[indices]
        )


def test_rows_are_drawn_from_a_pool(data, monkeypatch, global_random_seed):
    X, y, weights = data
    monkeypatch.setattr("skcara.io._pool._POOL_BYTES", 100_000)
    X_dask = da.from_array(X, chunks=(3000, 6))
    source = from_dask(X_dask, y, weights).for_regression()
    indices, shares = source.draw(10**9, np.random.RandomState(global_random_seed))
    assert len(indices) < 2000
    (chunk,) = list(source._reader.take(indices[:1]))
    np.testing.assert_array_equal(chunk.rows, X[indices[:1]])
    taken = np.concatenate([chunk.rows for chunk in source.take(indices)])
    np.testing.assert_array_equal(taken, X[indices])
    assert shares.sum() == pytest.approx(1)
    mean = weights @ y / weights.sum()
    assert abs(shares @ y[indices] - mean) < 5 * y.std() / np.sqrt(500)


# ---- bad input ---------------------------------------------------------------------


def test_what_is_not_dask_is_refused(data):
    X, y, _ = data
    with pytest.raises(TypeError, match="must be a Dask array or DataFrame, got ndarr"):
        from_dask(X, y)


def test_arrays_that_are_split_differently(data):
    X, y, _ = data
    X_dask = da.from_array(X, chunks=(3000, 6))
    with pytest.raises(ValueError, match="X has 20011 rows and y 20010"):
        from_dask(X_dask, da.from_array(y[1:], chunks=100))
    X_dask = da.from_array(X[:6000], chunks=(3000, 6))
    unknown = da.from_array(y[:6000], chunks=((1000, 5000),))
    unknown._chunks = ((np.nan, np.nan),)
    with pytest.raises(ValueError, match="Partition 0: X and y are split differently"):
        from_dask(X_dask, unknown).for_regression()
    unknown._chunks = ((np.nan,) * 3,)
    with pytest.raises(ValueError, match=r"2 partitions and y 3.*compute_chunk_sizes"):
        from_dask(X_dask, unknown)
    X_dask._chunks = ((np.nan, np.nan), (6,))
    with pytest.raises(TypeError, match="y must be a Dask array in the partitions"):
        from_dask(X_dask, y[:6000])


def test_frames_that_are_split_differently(data):
    table = frame(*data)
    X, y = table[["x0", "x1"]], table["y"]
    with pytest.raises(ValueError, match="X has 7 partitions and y 1"):
        from_dask(X, y.repartition(npartitions=1))
    with pytest.raises(TypeError, match="y must be a Dask Series like X, got ndarray"):
        from_dask(X, data[1])
    moved = frame(*(values[5:] for values in data))["y"]
    with pytest.raises(ValueError, match="Partition 0: X and y are split differently"):
        from_dask(X, moved).for_regression()


def test_categories_are_refused_before_anything_is_read(data):
    table = frame(*data)
    table["city"] = table["x0"].map_partitions(
        lambda s: s.astype(str).astype("category")
    )
    with pytest.raises(TypeError, match=r"Columns 'city' are not numbers. Encode"):
        from_dask(table[["x0", "city"]], table["y"])


def test_bad_values_name_partition_and_column(data):
    X, y, weights = data
    X[9000, 3] = np.nan
    table = frame(X, y, weights, n_parts=4)
    names = [f"x{j}" for j in range(6)]
    message = "Partition 1: NaN or infinity in column 'x3', row 3997"
    with pytest.raises(ValueError, match=message):
        from_dask(table[names], table["y"]).for_regression()
    source = from_dask(da.from_array(X, chunks=(5000, 6)), y)
    with pytest.raises(ValueError, match=r"Partition 1: .* in column 3, row 4000"):
        source.for_regression()


@pytest.mark.parametrize(
    ("odd", "what"),
    [(np.ones((10, 3), np.float32), "dtype"), (np.ones((10, 2)), "columns")],
)
def test_partitions_that_disagree(odd, what):
    def block(number):
        return odd if number == 2 else np.ones((10, 3))

    X = da.concatenate(
        [da.from_delayed(dask.delayed(block)(k), (10, 3), float) for k in range(4)]
    )
    with pytest.raises(
        ValueError, match=f"Partition 2: All blocks must agree in their {what}"
    ):
        from_dask(X, np.zeros(40)).for_regression()


def test_rows_that_change_between_reads():
    length = 10

    def block():
        return np.ones((length, 3)), np.ones(length)

    parts = [dask.delayed(block, pure=False)() for _ in range(2)]
    X = da.concatenate([da.from_delayed(part[0], (np.nan, 3), float) for part in parts])
    y = da.concatenate([da.from_delayed(part[1], (np.nan,), float) for part in parts])
    with dask.config.set(scheduler="synchronous"):
        source = from_dask(X, y).for_regression()
        length = 9
        with pytest.raises(ValueError, match="had 10 rows in the first read and has 9"):
            moments(source)


def test_no_rows():
    X = da.zeros((0, 3), chunks=(1, 3))
    with pytest.raises(ValueError, match="there are no rows"):
        from_dask(X, da.zeros(0)).for_regression()
