"""Labels of any type: found in the survey, encoded where the rows are."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Types of labels that are looked up instead of sorted: objects and strings.
_HASHED_KINDS = "OSU"
# More distinct labels than this are not classes but a target for a regression.
_MAX_CLASSES = 2**16


@dataclass(frozen=True, eq=False)
class LabelMasses:
    """Distinct labels and the total weight of their rows.

    Attributes
    ----------
    labels : ndarray of shape (n_labels,), ascending
    masses : ndarray of shape (n_labels,)
    """

    labels: np.ndarray
    masses: np.ndarray

    @classmethod
    def of(cls, target, weights) -> "LabelMasses":
        """Labels of some rows; those whose rows all have weight zero are counted."""
        if target.ndim != 1:
            raise ValueError("Labels must be given in one column.")
        if target.dtype.kind == "f" and not _are_whole(target):
            raise ValueError(
                "Unknown label type: continuous. The target of a classification must "
                "be labels, not real numbers or missing values."
            )
        labels, codes = _two_labels(target) or sorted_labels(target)
        if len(labels) > _MAX_CLASSES:
            raise ValueError(f"More than {_MAX_CLASSES} distinct labels.")
        if weights is None and codes.dtype == bool:
            n_second = np.count_nonzero(codes)
            masses = np.array([len(codes) - n_second, n_second], dtype=np.float64)
            return cls(labels, masses)
        return cls(labels, np.bincount(codes, weights, len(labels)).astype(np.float64))

    def joined(self, other: "LabelMasses") -> "LabelMasses":
        """Labels of both, with the sums of their weights."""
        if np.array_equal(self.labels, other.labels):
            return LabelMasses(self.labels, self.masses + other.masses)
        labels, codes = sorted_labels(np.concatenate([self.labels, other.labels]))
        if len(labels) > _MAX_CLASSES:
            raise ValueError(f"More than {_MAX_CLASSES} distinct labels.")
        masses = np.zeros(len(labels))
        masses[codes[: len(self.labels)]] += self.masses
        masses[codes[len(self.labels) :]] += other.masses
        return LabelMasses(labels, masses)


def sorted_labels(target):
    """Distinct labels, and the number of each entry's label among them."""
    if target.dtype.kind not in _HASHED_KINDS:
        counted = _counted_labels(target)
        return np.unique(target, return_inverse=True) if counted is None else counted
    # Looking up is ten times as fast as sorting objects or strings.
    values = target.tolist()
    try:
        found = set(values)
        if any(_is_missing(label) for label in found):
            raise ValueError("Some labels are missing.")
        ordered = sorted(found)
    except TypeError as error:
        raise TypeError("Labels must all be of one type that can be sorted.") from error
    labels = np.empty(len(ordered), dtype=target.dtype)
    labels[:] = ordered
    return labels, _looked_up(values, _numbered(ordered))


def _two_labels(target):
    """The same for numbers of two values, by comparisons; None for others."""
    if target.dtype.kind in _HASHED_KINDS or not target.size:
        return None
    pair = np.array([target.min(), target.max()])
    is_second = target == pair[1]
    is_known = is_second | (target == pair[0])
    if pair[0] == pair[1] or not is_known.all():
        return None
    # Zero may have had a sign.
    return pair + 0 if pair.dtype.kind == "f" else pair, is_second


def _are_whole(numbers) -> bool:
    """Whether all are integers; NaN and infinity are not."""
    with np.errstate(invalid="ignore"):
        return not (numbers - np.floor(numbers)).any()


def _counted_labels(target):
    """The same for numbers of a small range: counting is faster than sorting."""
    if not target.size:
        return None
    lowest, highest = target.min(), target.max()
    if not float(highest) - float(lowest) < _MAX_CLASSES:
        return None
    if target.dtype.kind == "f":
        offsets = (target - lowest).astype(np.intp)
    else:
        # Differences that overflow are right without a sign; so are sums that do.
        unsigned = np.dtype(f"u{target.dtype.itemsize}")
        offsets = target.view(unsigned) - lowest.view(unsigned)
        offsets = offsets.astype(np.intp)
    is_present = np.bincount(offsets) > 0
    numbers = np.cumsum(is_present) - 1
    labels = np.flatnonzero(is_present).astype(target.dtype)
    return labels + lowest, numbers[offsets]


def _numbered(labels: list) -> dict:
    """Number of each label."""
    return {label: number for number, label in enumerate(labels)}


def _looked_up(values: list, numbers: dict):
    """Numbers of labels; -1 for those that have none."""
    found = (numbers.get(value, -1) for value in values)
    return np.fromiter(found, dtype=np.intp, count=len(values))


def _is_missing(label) -> bool:
    # NaN, and pandas' NA whose comparison has no truth value.
    return label is None or type(label).__name__ == "NAType" or label != label


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """Turns labels into numbers of classes, and weighs the classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,), ascending
    factors : ndarray of shape (n_classes,) or None
        Weight of each class.
    """

    classes: np.ndarray
    factors: np.ndarray | None = None

    def encode(self, target, weights):
        """Codes and weights of some rows.

        Raises
        ------
        ValueError
            If a label is none of the classes.
        """
        codes = self._find(target)
        if codes.size and codes.min() < 0:
            label = target[np.flatnonzero(codes < 0)[0]]
            raise ValueError(
                f"Label {label!r} was not there in the first read: the data changed."
            )
        wanted = np.int8 if len(self.classes) <= 127 else np.int32
        codes = codes.astype(wanted, copy=False)
        if self.factors is None:
            return codes, weights
        factors = self.factors.take(codes)
        return codes, factors if weights is None else factors * weights

    def _find(self, target):
        """Numbers of the classes of labels; -1 for those of none."""
        if target.dtype.kind in _HASHED_KINDS:
            return _looked_up(target.tolist(), self._numbers)
        if len(self.classes) == 2:
            # The most common case; two comparisons take a tenth of the time.
            is_second = target == self.classes[1]
            is_known = is_second | (target == self.classes[0])
            codes = is_second.view(np.int8)
            return codes if is_known.all() else np.where(is_known, codes, -1)
        codes = np.searchsorted(self.classes, target)
        codes[codes == len(self.classes)] = 0
        codes[self.classes[codes] != target] = -1
        return codes

    @cached_property
    def _numbers(self):
        return _numbered(self.classes.tolist())
