"""Public functions: recombine, merge, recombine_groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from skcara.recombination._methods import check_method
from skcara.recombination._reduce import reduce_measure
from skcara.recombination._result import Recombination
from skcara.recombination._validation import (
    RandomSource,
    check_array,
    check_offsets,
    check_points,
    check_target_size,
    check_weights,
)


def recombine(
    points: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    method: str = "auto",
    target_size: int | None = None,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Recombination:
    r"""Reduce a discrete measure to few atoms with the same mass and the same mean.

    Finds rows :math:`I` and masses :math:`v_i > 0` with

    .. math:: \sum_{i \in I} v_i = \sum_i w_i, \qquad
              \sum_{i \in I} v_i p_i = \sum_i w_i p_i, \qquad |I| \le r + 1,

    where :math:`r` is the affine dimension of the points. By Carathéodory's
    theorem such rows exist. If the columns are functions evaluated at the
    atoms, the reduced measure integrates all of them exactly.

    Parameters
    ----------
    points : array-like of shape (n_points, n_columns)
        One atom per row. Any real dtype and memory layout; never copied whole by the
        default method, never modified.
    weights : array-like of shape (n_points,), default=None
        Non-negative masses of any total. None stands for ``1 / n_points`` each.
    method : str, default="auto"
        This library's own methods are ``"calibration"``, a random sample of the rows
        whose masses are changed as little as possible, which needs a `target_size`
        of at least three rows per moment, and ``"pivoting"``, exchanges in a simplex of
        rows or groups of rows, the fastest way to the smallest support. The published
        ones are ``"combined"``, ``"log"``, ``"cone"``, ``"tree"``,
        ``"litterer-lyons"``, ``"maalouf"`` and ``"davis"``. ``"auto"`` is calibration
        where `target_size` has room for it, else pivoting. Every method answers on
        every valid input: where it cannot, others take over (pivoting for calibration,
        then elimination), and the result says which one answered.
    target_size : int, default=None
        Stop early with at most this many atoms. Values up to :math:`r + 1`, and
        None, ask for the smallest support.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the randomised methods.

    Returns
    -------
    Recombination
        With ``indices`` (ascending), ``weights``, ``residual`` and ``method``; unpacks
        as ``indices, weights``.

    Raises
    ------
    RecombinationError
        If no method met the accuracy contract.

    Examples
    --------
    >>> import numpy as np
    >>> from skcara import recombine
    >>> points = np.random.default_rng(0).normal(size=(1000, 2))
    >>> indices, weights = recombine(points)
    >>> len(indices)
    3
    >>> np.allclose(weights @ points[indices], points.mean(axis=0))
    True
    """
    points = check_points(points)
    n_points = points.shape[0]
    if weights is not None:
        weights = check_weights(weights, n_points)
    method = check_method(method)
    target = check_target_size(target_size)
    reduced = reduce_measure(
        points, weights, method, target, RandomSource(random_state)
    )
    if weights is None:
        np.divide(reduced.weights, n_points, out=reduced.weights)
    return reduced


def merge(
    points: ArrayLike,
    measures: Sequence[Recombination | tuple[ArrayLike, ArrayLike]],
    *,
    method: str = "auto",
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Recombination:
    """Combine reductions of parts into one reduction of their sum.

    Reductions compose: the merged measure has the mass and the mean of all parts
    together and at most ``r + 1`` atoms. That is how partitions, streams and machines
    add up.

    Parameters
    ----------
    points : array-like of shape (n_points, n_columns)
        Only the rows that the measures refer to are read.
    measures : sequence of Recombination or of pairs (indices, weights)
        Indices are rows of `points` and may repeat, within and across measures.
    method, random_state
        As in `recombine`.

    Returns
    -------
    Recombination
        Its indices are rows of `points`.
    """
    points = check_points(points)
    method = check_method(method)
    random = RandomSource(random_state)
    pairs = [check_measure(part, len(points)) for part in check_parts(measures)]
    indices = np.concatenate([pair[0] for pair in pairs])
    weights = np.concatenate([pair[1] for pair in pairs])
    rows, position = np.unique(indices, return_inverse=True)
    weights = np.bincount(position, weights=weights, minlength=len(rows))
    check_weights(weights, len(rows), "measures")
    names = ("points", "measures")
    reduced = reduce_measure(points[rows], weights, method, None, random, names)
    return Recombination(
        rows[reduced.indices], reduced.weights, reduced.residual, reduced.method
    )


def check_parts(measures) -> list:
    """Return the parts as a list of at least one."""
    # A result unpacks as a pair, so a single one would pass for a sequence.
    if isinstance(measures, Recombination) or not isinstance(measures, Iterable):
        raise TypeError(
            "measures must be a sequence of results of recombine or of pairs "
            f"(indices, weights); got {type(measures).__name__}."
        )
    parts = list(measures)
    if not parts:
        raise ValueError("measures must not be empty.")
    return parts


def check_measure(measure, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers and masses of one part."""
    try:
        indices, weights = measure
    except (TypeError, ValueError) as error:
        raise TypeError(
            "measures must hold results of recombine or pairs (indices, weights); got "
            f"{type(measure).__name__}."
        ) from error
    indices = check_array(indices, "measures", 1)
    if indices.size == 0:
        indices = indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        raise TypeError(
            f"measures must have integer indices; got dtype {indices.dtype}."
        )
    if indices.size and not (0 <= indices.min() and indices.max() < n_points):
        raise ValueError(
            f"measures must have indices between 0 and {n_points - 1}, rows of points."
        )
    weights = check_weights(weights, len(indices), "measures", allow_zero_mass=True)
    return indices.astype(np.int64, copy=False), weights


def recombine_groups(
    sums: ArrayLike,
    masses: ArrayLike,
    offsets: ArrayLike,
    row_weights: ArrayLike | None = None,
    *,
    method: str = "auto",
    target_size: int | None = None,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Recombination:
    """Recombine contiguous groups of rows, given only their sums and masses.

    A surviving group keeps all its rows, with masses multiplied by its new mass over
    its old one. The rows themselves are not needed.

    Parameters
    ----------
    sums : array-like of shape (n_groups, n_columns)
        Sum of mass times point over each group.
    masses : array-like of shape (n_groups,)
        Total mass of each group; groups without mass are dropped.
    offsets : array-like of int of shape (n_groups + 1,)
        Group ``k`` has the rows ``offsets[k]`` to ``offsets[k + 1] - 1``.
    row_weights : array-like of shape (offsets[-1],), default=None
        Mass of each row. None spreads the mass of a group evenly over its rows.
    method, random_state
        As in `recombine`.
    target_size : int, default=None
        Stop early with at most this many groups.

    Returns
    -------
    Recombination
        A measure on the rows; `residual` is that of the groups.
    """
    sums = check_points(sums, "sums")
    n_groups = sums.shape[0]
    masses = check_weights(masses, n_groups, "masses")
    offsets = check_offsets(offsets, n_groups)
    if row_weights is not None:
        row_weights = check_weights(row_weights, offsets[-1], "row_weights")
    method = check_method(method)
    target = check_target_size(target_size)
    random = RandomSource(random_state)

    occupied = np.flatnonzero((masses > 0.0) & (offsets[1:] > offsets[:-1]))
    if len(occupied) < np.count_nonzero(masses):
        raise ValueError("masses must be zero for groups without rows.")
    old_masses = masses[occupied]
    # Sums that do not fit their masses overflow here and are reported as not finite.
    with np.errstate(over="ignore"):
        barycentres = sums[occupied] / old_masses[:, None]
    groups = reduce_measure(
        barycentres, old_masses, method, target, random, ("sums", "masses")
    )
    factors = groups.weights / old_masses[groups.indices]
    kept = occupied[groups.indices]
    starts, lengths = offsets[kept], offsets[kept + 1] - offsets[kept]
    rows = ranges(starts, lengths)
    if row_weights is None:
        weights = np.repeat(groups.weights / lengths, lengths)
    else:
        weights = row_weights[rows] * np.repeat(factors, lengths)
        has_mass = weights > 0.0
        rows, weights = rows[has_mass], weights[has_mass]
    return Recombination(rows, weights, groups.residual, groups.method)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the integers of consecutive ranges, one range after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
