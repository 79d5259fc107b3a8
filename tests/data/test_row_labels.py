"""Labels of rows are the same however they are stored, sliced, indexed or sent."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skcara.data import (
    ContiguousLabels,
    FoldBatch,
    StackedLabels,
    atom_counts,
    labels_between,
    row_labels,
    rows_of_test_set,
)

LENGTHS = [3, 0, 5, 1, 11]
ARRAY = np.repeat(np.arange(5), LENGTHS)
STACKED = np.column_stack([ARRAY, ARRAY[::-1]])
CASES = {
    "array": (ARRAY, ARRAY),
    "contiguous": (ContiguousLabels(LENGTHS), ARRAY),
    "stacked": (StackedLabels([ContiguousLabels(LENGTHS), ARRAY[::-1]]), STACKED),
}


@pytest.mark.parametrize(("labels", "expected"), CASES.values(), ids=CASES)
def test_labels_are_taken_as_from_an_array(labels, expected):
    for rows in (
        *(slice(None), slice(2, 9), slice(8, 8), slice(17, 40), slice(1, 20, 4)),
        *(np.array([0, 3, 4, 19]), np.array([7, 2, 2]), np.array([], dtype=int)),
    ):
        assert_array_equal(labels[rows], expected[rows])


@pytest.mark.parametrize(("labels", "expected"), CASES.values(), ids=CASES)
def test_labels_of_a_part_count_from_its_first_row(labels, expected):
    for start, stop in ((0, 20), (2, 9), (4, 4), (19, 20)):
        part = labels_between(labels, start, stop)
        assert_array_equal(part[0 : stop - start], expected[start:stop])
        assert_array_equal(labels_between(part, 0, 1)[:1], expected[start:stop][:1])


def test_contiguous_labels_take_no_memory():
    labels = ContiguousLabels([10**12] * 5)
    assert len(labels) == 5 * 10**12
    assert_array_equal(labels[10**12 - 1 : 10**12 + 1], [0, 1])
    assert len(pickle.dumps(labels.between(10**11, 3 * 10**12))) < 1000


def test_rows_of_sets():
    batch = FoldBatch(
        ContiguousLabels(LENGTHS),
        train=np.array([[1, 1, 0, 0, 1]]),
        test=np.array([[0, 0, 2, 1, 0]]),
    )
    other = FoldBatch.of_partition(ARRAY, 5)
    (counts, more) = atom_counts([batch, other], 20)
    assert_array_equal(counts, LENGTHS)
    assert_array_equal(more, LENGTHS)
    rows = rows_of_test_set([batch, other], 0, 20)
    assert_array_equal(rows, [3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8])
    assert_array_equal(rows_of_test_set([batch, other], 3, 20), np.arange(3, 8))
    assert row_labels([batch]) is batch.labels
    assert row_labels([batch, other])[:].shape == (20, 2)
    assert batch.sets.labels is None
