"""Blocks of any lengths give the same chunks; bad ones are refused by name."""

import numpy as np
import pytest
from scipy import sparse

from skcara.io._blocks import Block, Layout, aligned, cut_chunks, make_block


def cut(X, y, edges, weights=None):
    for a, b in zip([0, *edges], [*edges, len(y)], strict=True):
        part = None if weights is None else weights[a:b]
        yield Block(X[a:b], y[a:b], part)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("edges", [[], [1], [8, 16], [3, 3, 3, 21], range(1, 37)])
def test_chunks_do_not_depend_on_blocks(as_rows, edges):
    X, y = np.arange(37.0 * 2).reshape(37, 2), np.arange(37)
    chunks = list(cut_chunks(cut(as_rows(X), y, edges, y), 8, start=100))
    assert [chunk.start for chunk in chunks] == [100, 108, 116, 124, 132]
    assert [chunk.n_rows for chunk in chunks] == [8, 8, 8, 8, 5]
    rows = [c.rows.toarray() if sparse.issparse(c.rows) else c.rows for c in chunks]
    np.testing.assert_array_equal(np.concatenate(rows), X)
    np.testing.assert_array_equal(np.concatenate([c.target for c in chunks]), y)
    np.testing.assert_array_equal(np.concatenate([c.weights for c in chunks]), y)


def test_whole_chunks_share_the_memory_of_their_block():
    X = np.zeros((64, 2))
    for chunk in cut_chunks([Block(X, X[:, 0])], 16):
        assert np.shares_memory(chunk.rows, X)


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        (np.zeros(3), np.zeros(3), None, "X must have two dimensions, got 1"),
        (np.zeros((3, 1)), np.zeros(2), None, "split differently: 3 rows of X, 2 of y"),
        (np.zeros((3, 1)), np.zeros(3), np.zeros(4), "4 of sample_weight"),
        (np.zeros((3, 1)), 1.0, None, "y must have one entry for each row"),
        (np.full((3, 1), "a"), np.zeros(3), None, "real numbers, got dtype <U1"),
        (np.zeros((3, 1), complex), np.zeros(3), None, "real numbers, got dtype comp"),
        (np.zeros((3, 1)), np.zeros(3), np.full(3, "a"), "sample_weight must be numb"),
        (np.zeros((3, 1)), np.zeros(3), np.zeros((3, 2)), "one number for each row"),
    ],
)
def test_bad_blocks_are_refused(X, y, weights, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make_block(X, y, weights)


@pytest.mark.parametrize("shape", [(0,), (0, 1)])
def test_blocks_may_be_empty(shape):
    block = make_block(np.zeros((0, 2)), np.zeros(shape), np.zeros(shape))
    assert block.target.shape == block.weights.shape == (0,)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_extended_precision_is_read_as_double_precision(as_rows):
    X = np.eye(3, dtype=np.longdouble)
    block = make_block(as_rows(X), np.zeros(3))
    assert block.rows.dtype == np.float64
    assert X.dtype == np.longdouble


def test_columns_of_frames_must_be_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0], "b": ["x"], "c": pandas.Categorical(["u"])})
    with pytest.raises(TypeError, match=r"Columns 'b', 'c' are not numbers.*Encode"):
        make_block(frame, [1.0])


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_columns_of_frames_must_have_names_of_their_own(library):
    module = pytest.importorskip(library)
    if library == "pandas":
        frame = module.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "b"])
    else:
        frame = module.table([[1.0], [2.0], [3.0]], names=["a", "b", "b"])
    with pytest.raises(ValueError, match=r"Column 'b' is there more than once\. Give"):
        make_block(frame, [1.0])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_read_with_their_names(library):
    module = pytest.importorskip(library)
    columns = {"a": [1, 2], "b": [0.5, np.nan], "c": [True, False]}
    make = module.table if library == "pyarrow" else module.DataFrame
    block = make_block(make(columns), [1.0, 2.0])
    assert block.names == ("a", "b", "c")
    assert block.rows.dtype == np.float64
    assert block.rows.flags.c_contiguous
    np.testing.assert_array_equal(block.rows, [[1, 0.5, 1], [2, np.nan, 0]])


def test_missing_integers_of_pandas_become_nan():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64")})
    np.testing.assert_array_equal(make_block(frame, [0, 1]).rows, [[1.0], [np.nan]])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Block(np.zeros((1, 3)), np.zeros(1)), "columns: the first has 2, this one 3"),
        (Block(np.zeros((1, 2), np.float32), np.zeros(1)), "dtype: .*float64.*float32"),
        (Block(np.zeros((1, 2)), np.zeros(1), np.ones(1)), "presence of weights"),
        (Block(np.zeros((1, 2)), np.zeros((1, 2))), "number of targets"),
        (Block(np.zeros((1, 2)), np.zeros(1), None, ("a", "b")), "column names"),
        (Block(sparse.csr_array((1, 2)), np.zeros(1)), "sparse format"),
    ],
)
def test_blocks_must_agree(other, message):
    layout = Layout.of(Block(np.zeros((4, 2)), np.zeros(4)))
    with pytest.raises(ValueError, match=message):
        layout.check(other)


def test_unaligned_arrays_are_copied_and_aligned_ones_are_not():
    memory = np.zeros(8 * 6 + 1, dtype=np.uint8)[1:]
    rows = memory.view(np.float64).reshape(3, 2)
    assert not rows.flags.aligned
    block = aligned(Block(rows, rows[:, 0]))
    assert block.rows.flags.aligned
    assert block.target.flags.aligned
    assert aligned(block).rows is block.rows
