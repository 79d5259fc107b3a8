"""What one read before the passes finds out.

The survey knows the number of rows, the total weight, a first row to centre on, the
moments of the targets or the classes, and refuses what no pass could use: entries that
are not finite, weights that are negative. Its partial results are values, one for each
chunk, that merge in the order of the rows.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skcara.data import Chunk
from skcara.io._addresses import row_number
from skcara.io._labels import LabelMasses


class Moments(NamedTuple):
    """Moments of targets.

    Attributes
    ----------
    means, deviations : ndarray of shape (n_targets,)
        Weighted means, and weighted sums of squares around them.
    """

    means: np.ndarray
    deviations: np.ndarray

    def joined(self, other: "Moments", weights: tuple[float, float]) -> "Moments":
        """Moments of both sides, of these total weights."""
        if not all(weights):
            return self if weights[0] else other
        # No difference of large sums: the mean of one side plus a share of the step.
        share = weights[1] / sum(weights)
        step = other.means - self.means
        between = weights[0] * share * step**2
        return Moments(
            self.means + share * step, self.deviations + other.deviations + between
        )


@dataclass(frozen=True, eq=False)
class Survey:
    """Facts about some consecutive rows.

    Attributes
    ----------
    n_rows, n_entries : int
    total_weight : float
    moments : Moments or None
        Of the targets; None if they are labels.
    labels : LabelMasses or None
        Labels and the weights of their rows; None if the targets are numbers.
    reference_row : ndarray of shape (n_features,) or None
        First row of positive weight, None if there is none.
    reference_target : ndarray of shape () or (n_targets,)
        Its target.
    """

    n_rows: int
    n_entries: int
    total_weight: float
    moments: Moments | None
    labels: LabelMasses | None
    reference_row: np.ndarray | None
    reference_target: np.ndarray | None

    def followed_by(self, other: "Survey") -> "Survey":
        """Facts about these rows and those of ``other`` behind them."""
        merged = replace(
            self if self.reference_row is not None else other,
            n_rows=self.n_rows + other.n_rows,
            n_entries=self.n_entries + other.n_entries,
            total_weight=self.total_weight + other.total_weight,
        )
        if self.labels is not None and other.labels is not None:
            return replace(merged, labels=self.labels.joined(other.labels))
        if self.moments is not None and other.moments is not None:
            weights = self.total_weight, other.total_weight
            return replace(merged, moments=self.moments.joined(other.moments, weights))
        return merged


@dataclass(frozen=True)
class TakeSurvey:
    """The task of the survey.

    Attributes
    ----------
    has_labels : bool
        Whether targets are labels, or numbers.
    names : tuple of str, optional
        Names of the columns, for errors.
    """

    has_labels: bool
    names: tuple[str, ...] | None = None

    def visit(self, chunk: Chunk) -> Survey:
        """Survey one chunk."""
        chunk = self._checked(chunk)
        weights = chunk.weights
        total = float(chunk.n_rows if weights is None else weights.sum())
        first = 0 if weights is None else int(np.argmax(weights > 0))
        is_sparse = sparse.issparse(chunk.rows)
        moments = labels = None
        if self.has_labels:
            labels = LabelMasses.of(chunk.target, weights)
        else:
            moments = _moments(chunk.target, weights, total)
        return Survey(
            n_rows=chunk.n_rows,
            n_entries=chunk.rows.nnz if is_sparse else chunk.rows.size,
            total_weight=total,
            moments=moments,
            labels=labels,
            reference_row=None if not total else self._reference(chunk.rows, first),
            reference_target=chunk.target[first],
        )

    def merge(self, left: Survey, right: Survey) -> Survey:
        """Facts about both."""
        return left.followed_by(right)

    def finish(self, total: Survey) -> Survey:
        """Return the facts."""
        return total

    def _reference(self, rows, first):
        if sparse.issparse(rows):
            return np.zeros(rows.shape[1])
        return rows[first].astype(np.float64)

    def _checked(self, chunk: Chunk) -> Chunk:
        """Chunk without bad values in rows that count, or an error."""
        weights = chunk.weights
        if weights is not None:
            if not (np.isfinite(weights).all() and weights.min() >= 0):
                bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0]
                raise ValueError(
                    "sample_weight must be finite and non-negative, got "
                    f"{weights[bad]} in row {row_number(chunk.start + bad)}."
                )
        self._check_target(chunk)
        self._check_rows(chunk)
        return chunk

    def _check_target(self, chunk):
        target = chunk.target
        if self.has_labels:
            return
        if target.dtype.kind not in "biuf":
            raise TypeError(
                f"The target of a regression must be numbers, got {target.dtype}."
            )
        if not _sum_is_finite(target):
            bad = ~np.isfinite(target.reshape(chunk.n_rows, -1)).all(axis=1)
            self._raise_if_counted(chunk, bad, lambda row: "the target")

    def _check_rows(self, chunk):
        rows = chunk.rows
        values = rows.data if sparse.issparse(rows) else rows
        if values.dtype.kind != "f" or _sum_is_finite(values):
            return
        if sparse.issparse(rows):
            owner = np.repeat(np.arange(chunk.n_rows), np.diff(rows.indptr))
            columns = rows.indices
            is_bad = ~np.isfinite(values)
            bad = np.bincount(owner[is_bad], minlength=chunk.n_rows) > 0

            def column(row):
                return columns[np.flatnonzero(is_bad & (owner == row))[0]]
        else:
            is_bad = ~np.isfinite(rows)
            bad = is_bad.any(axis=1)

            def column(row):
                return np.flatnonzero(is_bad[row])[0]

        self._raise_if_counted(chunk, bad, lambda row: self._name(column(row)))

    def _name(self, column):
        return f"column {self.names[column]!r}" if self.names else f"column {column}"

    def _raise_if_counted(self, chunk, bad, place):
        if chunk.weights is not None:
            bad = bad & (chunk.weights > 0)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"NaN or infinity in {place(row)}, row "
                f"{row_number(chunk.start + row)}. Remove or impute such rows first."
            )


def _sum_is_finite(values) -> bool:
    # One sum sees them all: infinities of both signs give NaN.
    with np.errstate(invalid="ignore", over="ignore"):
        if values.ndim == 2 and values.dtype.kind == "f" and values.itemsize > 2:
            # A product reads rows three times as fast if there are gaps between them.
            values = _ones(len(values), values.dtype) @ values
        return bool(np.isfinite(values.sum(dtype=np.float64)))


@lru_cache(maxsize=4)
def _ones(n_rows, dtype):
    """Ones; nearly all chunks have the same length, and new memory has its price."""
    return np.ones(n_rows, dtype)


def _moments(target, weights, total) -> Moments:
    """Weighted mean of each target, and the sum of squares around it."""
    values = target.astype(np.float64, copy=False).reshape(len(target), -1)
    if weights is None:
        means = values.mean(axis=0)
        return Moments(means, np.square(values - means).sum(axis=0))
    if not total:
        return Moments(np.zeros(values.shape[1]), np.zeros(values.shape[1]))
    # What stands in rows of weight zero may be a code for missing.
    values, weights = values[weights > 0], weights[weights > 0]
    means = weights @ values / total
    return Moments(means, weights @ np.square(values - means))
