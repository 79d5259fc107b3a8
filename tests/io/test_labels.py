"""Labels are found and numbered as NumPy would sort them, however they are stored."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skcara.io._labels import LabelCodes, LabelMasses, sorted_labels

rng = np.random.default_rng(0)
TARGETS = {
    "bool": rng.uniform(size=500) > 0.5,
    "one bool": np.ones(5, dtype=bool),
    "int8": rng.integers(-128, 128, 500).astype(np.int8),
    "uint8": rng.integers(250, 256, 500).astype(np.uint8),
    "far": rng.integers(2**62, 2**62 + 5, 500),
    "wide": rng.integers(-(2**62), 2**62, 50),
    "uint64": rng.integers(2**63, 2**63 + 3, 500, dtype=np.uint64),
    "float": rng.choice([-3.0, 2.0, 7.0], 500),
    "float32": rng.choice([-3.0, 2.0, 7.0], 500).astype(np.float32),
    "large floats": rng.choice([0.0, 1e300], 500),
    "strings": rng.choice(["b", "a", "abc"], 500),
    "objects": rng.choice(["b", "a"], 500).astype(object),
    "nothing": np.zeros(0, dtype=int),
}


@pytest.mark.parametrize("name", TARGETS)
def test_labels_and_codes(name):
    target = TARGETS[name]
    labels, codes = sorted_labels(target)
    expected, numbers = np.unique(target, return_inverse=True)
    assert labels.dtype == target.dtype
    assert_array_equal(labels, expected)
    assert_array_equal(codes, numbers)
    weights = rng.uniform(size=len(target))
    masses = LabelMasses.of(target, weights)
    assert_array_equal(masses.masses, np.bincount(numbers, weights, len(expected)))
    if len(labels) > 1:
        found, _ = LabelCodes(labels).encode(target, None)
        assert_array_equal(found, numbers)
        unknown = target[target != labels[0]]
        with pytest.raises(ValueError, match="was not there in the first read"):
            LabelCodes(np.append(labels[:1], labels[:1])).encode(unknown, None)


@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf, -np.inf])
def test_numbers_that_are_no_labels(bad):
    with pytest.raises(ValueError, match="continuous"):
        LabelMasses.of(np.array([0.0, bad, 1.0]), None)
