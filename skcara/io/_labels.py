"""Labels of any type: found in the survey, encoded where the rows are."""

from dataclasses import dataclass

import numpy as np

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
        if target.dtype.kind == "f" and (target % 1 != 0).any():
            raise ValueError(
                "Unknown label type: continuous. The target of a classification must "
                "be labels, not real numbers or missing values."
            )
        labels, codes = sorted_labels(target)
        if len(labels) > _MAX_CLASSES:
            raise ValueError(f"More than {_MAX_CLASSES} distinct labels.")
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
    if target.dtype.kind == "O" and any(_is_missing(label) for label in target):
        raise ValueError("Some labels are missing.")
    try:
        return np.unique(target, return_inverse=True)
    except TypeError as error:
        raise TypeError("Labels must all be of one type that can be sorted.") from error


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
        codes = np.searchsorted(self.classes, target)
        codes[codes == len(self.classes)] = 0
        is_unknown = self.classes[codes] != target
        if is_unknown.any():
            label = target[np.flatnonzero(is_unknown)[0]]
            raise ValueError(
                f"Label {label!r} was not there in the first read: the data changed."
            )
        codes = codes.astype(np.int8 if len(self.classes) <= 127 else np.int32)
        if self.factors is None:
            return codes, weights
        factors = self.factors.take(codes)
        return codes, factors if weights is None else factors * weights
