"""Tables and memory maps are read where they are: not copied, not in random order."""

import tracemalloc

import numpy as np
import pytest
from certificates import lasso_dual_gap, logistic_violation
from numpy.testing import assert_allclose, assert_array_equal
from twins import needs_recent_twin

from skcara import CaLasso, CaLassoCV, CaLogisticRegression
from skcara.io._column_table import ColumnTable, as_columns
from skcara.io._mapped import from_memory_map

LIBRARIES = ("pandas", "polars", "pyarrow")


def make_columns(n_rows, seed=0):
    """Columns of several types, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 8))
    columns = {f"d{j}": X[:, j].copy() for j in range(4)}
    columns |= {f"f{j}": X[:, j].astype(np.float32) for j in (4, 5)}
    columns["i"] = np.rint(3 * X[:, 6]).astype(np.int32)
    columns["b"] = X[:, 7] > 0
    matrix = np.column_stack([column.astype(float) for column in columns.values()])
    return columns, matrix, matrix.sum(axis=1) + rng.logistic(size=n_rows)


def make_table(library, columns):
    module = pytest.importorskip(library)
    return (module.table if library == "pyarrow" else module.DataFrame)(columns)


@pytest.fixture
def _always_by_columns(monkeypatch):
    monkeypatch.setattr("skcara.estimators._validation._MAX_CHECKED_ENTRIES", 0)


class TestColumnTable:
    @pytest.mark.parametrize("library", LIBRARIES)
    def test_looks_like_a_matrix(self, library):
        columns, matrix, _ = make_columns(1000)
        table = as_columns(make_table(library, columns))
        assert table.shape == matrix.shape
        assert (table.size, len(table), table.dtype) == (8000, 1000, np.float64)
        numbers = np.array([3, 17, 999])
        keys = (slice(10, 20), slice(None, None, 7), slice(990, 2000), numbers, 5)
        for key in (*keys, (slice(None), np.array([4, 1]))):
            assert_array_equal(table[key], matrix[key])

    @pytest.mark.parametrize("library", LIBRARIES)
    def test_missing_values_are_nan(self, library):
        values = {"a": [1, None, 3], "b": [0.5, 1.0, None], "c": [True, None, False]}
        if library == "pandas":
            pandas = pytest.importorskip("pandas")
            types = {"a": "Int64", "b": "Float64", "c": "boolean"}
            values = {k: pandas.array(v, dtype=types[k]) for k, v in values.items()}
        table = as_columns(make_table(library, values))
        expected = [[1, 0.5, 1], [np.nan, 1, np.nan], [3, np.nan, 0]]
        assert_array_equal(table[:], expected)
        assert_array_equal(table[np.array([0, 2])], np.array(expected)[[0, 2]])

    @pytest.mark.parametrize("dtype", [np.float32, np.int16])
    @pytest.mark.parametrize("library", LIBRARIES[1:])
    def test_one_type_is_kept(self, library, dtype):
        columns = {name: np.arange(5, dtype=dtype) for name in "ab"}
        assert as_columns(make_table(library, columns)).dtype == dtype

    def test_a_frame_that_is_a_matrix_stays_one(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(np.ones((5, 3)))
        assert as_columns(frame) is None
        # A column that is added is stored apart.
        frame[3] = 1.0
        assert isinstance(as_columns(frame), ColumnTable)

    def test_what_is_left_to_scikit_learn(self):
        pandas = pytest.importorskip("pandas")
        for column in (["a", "b"], pandas.Categorical(["u", "v"])):
            assert as_columns(pandas.DataFrame({"x": [0.0, 1.0], "y": column})) is None
        sparse = pandas.arrays.SparseArray([0.0, 1.0])
        assert as_columns(pandas.DataFrame({"x": [1, 2], "y": sparse})) is None
        assert as_columns(np.ones((3, 2))) is None
        assert as_columns(pandas.DataFrame({"x": []})) is None


@pytest.mark.usefixtures("_always_by_columns")
@pytest.mark.parametrize("library", LIBRARIES)
class TestTables:
    @needs_recent_twin
    def test_same_fit_and_predictions_as_the_matrix(self, library):
        columns, matrix, y = make_columns(30_000)
        table = make_table(library, columns)
        for model, target in ((CaLasso(0.01), y), (CaLogisticRegression(), y > 0)):
            near = model.fit(matrix, target).coef_
            model.fit(table, target)
            assert_allclose(model.coef_, near, rtol=1e-6)
            assert model.feature_names_in_.tolist() == list(columns)
            assert_allclose(model.predict(table), model.predict(table[:]))
        search = CaLassoCV(alphas=5, cv=3).fit(table, y)
        assert_allclose(search.coef_, CaLassoCV(alphas=5, cv=3).fit(matrix, y).coef_)

    @needs_recent_twin
    def test_columns_are_those_of_the_fit(self, library):
        columns, _, y = make_columns(1000)
        model = CaLasso(0.01).fit(make_table(library, columns), y)
        other = {name: columns[name] for name in reversed(columns)}
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(make_table(library, other))

    def test_bad_values_and_targets_are_refused(self, library):
        columns, _, y = make_columns(1000)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            CaLasso().fit(make_table(library, columns), y[1:])
        with pytest.raises(ValueError, match="requires y to be passed"):
            CaLasso().fit(make_table(library, columns), None)
        columns["d2"][77] = np.nan
        with pytest.raises(ValueError, match="Input X contains NaN"):
            CaLasso().fit(make_table(library, columns), y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_are_not_copied(library):
    columns, matrix, y = make_columns(400_000)
    table = make_table(library, columns)
    model = CaLasso(0.01).fit(make_table(library, make_columns(2000)[0]), y[:2000])
    tracemalloc.start()
    try:
        model.fit(table, y)
        model.predict(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.4 * matrix.nbytes


# ---- memory maps -------------------------------------------------------------------


class Watched(np.memmap):
    """A memory map that writes down which rows were asked for."""

    asked: list = []  # noqa: RUF012 - shared by all views

    def __getitem__(self, key):
        if self.ndim == 2 and not isinstance(key, tuple):
            Watched.asked.append(key)
        return super().__getitem__(key)


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    """A memory map that counts as larger than memory, and a target."""
    _, matrix, y = make_columns(60_000)
    path = tmp_path / "rows.npy"
    np.save(path, matrix)
    monkeypatch.setattr("skcara.io._mapped._SHARE_OF_MEMORY", 0.0)
    return np.load(path, mmap_mode="r"), y


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_large_maps_reach_the_same_optimum(mapped, weight):
    X, y = mapped
    model = CaLasso(0.01, tol=1e-8).fit(X, y)
    assert lasso_dual_gap(X, y, model.coef_, model.intercept_, 0.01) <= 1e-8 * y.var()
    label = np.where(y > 1, "yes", "no")
    model = CaLogisticRegression(tol=1e-7, class_weight=weight).fit(X, label)
    codes = (label == "yes").astype(int)
    factors = np.ones(2) if weight is None else len(y) / (2 * np.bincount(codes))
    violation = logistic_violation(
        X, codes, model.coef_, model.intercept_, 1.0, 0.0, sample_weight=factors[codes]
    )
    assert violation <= 1.01e-7
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("model", [CaLasso(0.01), CaLogisticRegression()])
def test_large_maps_are_read_from_beginning_to_end(mapped, model, monkeypatch):
    X, y = mapped
    monkeypatch.setattr("skcara.solvers._strategy._SMALL_ENTRIES", 0)
    monkeypatch.setattr(
        "skcara.estimators._inputs.from_memory_map",
        lambda X, *rest: from_memory_map(X.view(Watched), *rest),
    )
    Watched.asked.clear()
    y = y > 0 if isinstance(model, CaLogisticRegression) else y
    model.fit(X, y)
    starts = [key.start for key in Watched.asked]
    assert all(isinstance(key, slice) for key in Watched.asked)
    # A look at the first rows, the survey, and one run through the file for each pass.
    runs = np.split(starts, np.flatnonzero(np.array(starts) == 0))[2:]
    assert 2 <= len(runs) <= 1 + model.n_passes_
    for run in runs:
        assert_array_equal(run, np.arange(0, len(X), run[1]))


def test_maps_that_fit_in_memory_are_read_as_arrays(mapped, monkeypatch):
    X, y = mapped
    monkeypatch.setattr("skcara.io._mapped._SHARE_OF_MEMORY", 0.5)
    near = CaLogisticRegression().fit(np.array(X), y > 0)
    assert_array_equal(CaLogisticRegression().fit(X, y > 0).coef_, near.coef_)


# ---- what is refused ---------------------------------------------------------------


class ChunkedArray:
    """Like an array of zarr or a data set of HDF5."""

    shape, dtype, chunks = (100, 3), np.dtype(float), (10, 3)

    def __array__(self, *args, **kwargs):
        raise AssertionError("copied into memory")


class DaskBacked:
    """Like an array of xarray: a collection of Dask that only its owner can split."""

    def __dask_graph__(self):
        return {"key": None}


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (ChunkedArray, r"ChunkedArray, which CaLasso .*from_chunks reads it in slices"),
        (DaskBacked, r"Give the Dask array or DataFrame that it consists of"),
        (lambda: iter([1]), r"It can be read only once; give skcara\.io\.from_chunks"),
    ],
)
def test_what_is_not_in_memory_is_never_copied_silently(make, advice):
    with pytest.raises(TypeError, match=f"X is a .*{advice}"):
        CaLasso().fit(make(), np.zeros(100))
    model = CaLasso().fit(np.eye(3), np.arange(3.0))
    with pytest.raises(TypeError, match=advice):
        model.predict(make())


def test_lazy_frames_and_datasets_are_refused_with_advice(tmp_path):
    polars = pytest.importorskip("polars")
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = polars.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"polars LazyFrame.*collect\(\).*from_parquet"):
        CaLasso().fit(frame.lazy(), [0.0, 1.0])
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(TypeError, match=r"Dataset.*names of its files.*from_parquet"):
        CaLasso().fit(dataset.dataset(tmp_path), [0.0, 1.0])


def test_delayed_objects_are_no_rows():
    dask = pytest.importorskip("dask")
    with pytest.raises(TypeError, match=r"dask Delayed.*Give the Dask array"):
        CaLasso().fit(dask.delayed(np.ones)((10, 2)), np.ones(10))


def test_targets_of_dask_need_rows_of_dask():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"y is a dask Array"):
        CaLasso().fit(np.ones((10, 2)), da.ones(10))
