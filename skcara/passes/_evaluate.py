"""Objective, gradient and certificates at given points, in one pass for all of them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skcara.data import (
    SumTask,
    centred_strips,
    group_sums,
    predictions,
    scaled_rows,
    sparse_moments,
    weighted_sums,
)
from skcara.objective import ColumnMoments, Evaluation, Groups, Problem

# Distance of a column from zero, in standard deviations, up to which its squares are
# summed as they are: the variance then loses two digits at most.
_MAX_OFFSET = 4.0


class Evaluated(NamedTuple):
    """Answer to :class:`Evaluate`; the problem knows the moments that were asked for.

    Attributes
    ----------
    problem : Problem
    evaluation : Evaluation
    """

    problem: Problem
    evaluation: Evaluation


@dataclass(frozen=True, eq=False)
class Evaluate:
    """Evaluate a problem at a point; the answer is an :class:`Evaluation`.

    Requests of problems that share their coordinates are answered together: one product
    of a chunk with all coefficients and one with all derivatives.

    Attributes
    ----------
    problem : Problem
    params : ndarray of shape (n_params, n_outputs)
    group_rows : int, optional
        Also return the gradient sums of contiguous groups of this many rows, a power of
        two that is at most ``problem.facts.chunk_rows``.
    with_moments : bool
        Also collect mean and variance of the columns, where the problem does not know
        them yet. The answer is then an :class:`Evaluated`.
    """

    problem: Problem
    params: np.ndarray
    group_rows: int | None = None
    with_moments: bool = False

    cost = 1.0

    @property
    def stack_key(self):
        """What requests must share to be answered together."""
        coordinates = id(self.problem.coordinates)
        return Evaluate, coordinates, self.group_rows, self.collects_moments

    @property
    def collects_moments(self) -> bool:
        """Whether moments of the columns are asked for and not known yet."""
        return self.with_moments and self.problem.column_moments is None

    @staticmethod
    def stacked(requests):
        """One task for several requests of the same key."""
        return _EvaluateTask(tuple(requests))


def evaluate_first(problem: Problem, params, group_rows=None):
    """Ask for the first evaluation of a problem; a generator of requests.

    Parameters
    ----------
    problem, params, group_rows
        As for :class:`Evaluate`.

    Returns
    -------
    evaluated : Evaluated
        The evaluation, and the problem that knows the moments of its columns if its
        criterion needs them.
    """
    if problem.criterion.needs_moments:
        return (yield Evaluate(problem, params, group_rows, with_moments=True))
    return Evaluated(problem, (yield Evaluate(problem, params, group_rows)))


@dataclass(frozen=True, eq=False)
class _EvaluateTask(SumTask):
    requests: tuple[Evaluate, ...]

    @property
    def _coordinates(self):
        return self.requests[0].problem.coordinates

    @cached_property
    def _columns(self):
        """Slice of the stacked predictions that belongs to each request."""
        edges = np.cumsum([0] + [one.problem.n_outputs for one in self.requests])
        return [slice(*pair) for pair in pairwise(edges)]

    @cached_property
    def _effective_params(self):
        pairs = [
            self._coordinates.effective_params(one.params) for one in self.requests
        ]
        if len(pairs) == 1:
            return pairs[0]
        coefs, intercepts = zip(*pairs, strict=True)
        return np.hstack(coefs), np.concatenate(intercepts)

    def visit(self, chunk):
        """Sums of losses and derivatives, of derivatives times rows, and moments."""
        rows = self._coordinates.rows(chunk.rows)
        coef, intercept = self._effective_params
        is_cached = self.requests[0].problem.facts.are_cached
        prediction = predictions(rows, coef, is_cached=is_cached)
        prediction += intercept
        losses, n_wrong, squares, derivatives = [], [], [], []
        for request, own in zip(self.requests, self._columns, strict=True):
            problem = request.problem
            weights, own_prediction = chunk.weights, prediction[:, own]
            flat = own_prediction.T  # as it is in memory
            squares.append(float(np.vdot(flat, flat)))
            loss, derivative = problem.loss.weighted_sum(
                problem.target_of(chunk), own_prediction, weights
            )
            losses.append(loss)
            n_wrong.append(problem.count_wrong(derivative, weights))
            derivatives.append(derivative)
        derivative = derivatives[0] if len(derivatives) == 1 else np.hstack(derivatives)
        terms: list = [np.array(losses), np.array(n_wrong), np.array(squares)]
        terms.append(derivative.sum(axis=0))
        group_rows = self.requests[0].group_rows
        if group_rows is None:
            terms.append(weighted_sums(rows, derivative))
        else:
            sums = group_sums(rows, derivative, group_rows)
            edges = np.arange(0, len(derivative), group_rows)
            terms += [
                sums.sum(axis=0),
                [sums],
                [np.add.reduceat(derivative, edges)],
                [np.add.reduceat(self._shares(chunk), edges)],
                [chunk.start + edges],
            ]
        first = self.requests[0]
        if first.collects_moments:
            raw = rows if sparse.issparse(rows) else chunk.rows
            terms += _moment_terms(
                raw,
                chunk.weights,
                first.problem.facts.reference_row,
            )
        return terms

    def _shares(self, chunk):
        problem = self.requests[0].problem
        return np.ascontiguousarray(problem.shares_of(chunk))

    def finish(self, total):
        """Return one answer for each request."""
        losses, n_wrong, squares, mass, gradient, *rest = total
        first = self.requests[0]
        groups: list | None = None
        if first.group_rows is not None:
            groups, rest = rest[:4], rest[4:]
        moments = None
        if first.collects_moments:
            column_sums, column_squares = rest
            moments = ColumnMoments.from_sums(
                column_sums,
                column_squares,
                first.problem.facts.reference_row,
                first.problem.total_weight,
            )
        gradient = self._coordinates.correct_sums(gradient, mass)
        answers = []
        for number, (request, own) in enumerate(
            zip(self.requests, self._columns, strict=True)
        ):
            problem = request.problem.with_moments(moments)
            evaluation = problem.certify(
                request.params,
                float(losses[number]) / problem.total_weight,
                gradient[:, own] / problem.total_weight,
                groups=None if groups is None else self._groups(groups, own),
                is_separated=bool(problem.may_be_unbounded and n_wrong[number] == 0),
                has_overflowed=not np.isfinite(squares[number]),
            )
            answers.append(
                Evaluated(problem, evaluation) if request.with_moments else evaluation
            )
        return answers

    def _groups(self, collected, own):
        problem = self.requests[0].problem
        sums, derivative_masses, masses, starts = map(np.concatenate, collected)
        sums = problem.coordinates.correct_sums(
            sums[:, :, own], derivative_masses[:, own]
        )
        return Groups(
            sums.reshape(len(sums), -1) / problem.total_weight,
            masses,
            np.append(starts, problem.n_rows),
        )


def _moment_terms(rows, weights, reference):
    """Weighted sums of the columns and of their squares, around ``reference``."""
    if sparse.issparse(rows):
        weights = np.ones(rows.shape[0]) if weights is None else weights
        return sparse_moments(rows, weights, reference)
    # A product with ones is several times faster than a sum along the rows.
    ones = np.ones(len(rows))
    rows = rows.astype(np.float64, copy=False)
    weighted = rows if weights is None else scaled_rows(rows, weights)
    mass = float(len(rows) if weights is None else weights.sum())
    sums, squares = ones @ weighted, np.einsum("ij,ij->j", weighted, rows)
    # Sums of the rows as they are cost a third of those of differences, but lose the
    # digits of a column that is far from zero.
    is_far = sums**2 > _MAX_OFFSET**2 * (mass * squares - sums**2)
    squares += reference * (mass * reference - 2 * sums)
    sums -= mass * reference
    if is_far.any():
        far = np.flatnonzero(is_far)
        sums[far], squares[far] = _centred_sums(rows[:, far], weights, reference[far])
    return [sums, squares]


def _centred_sums(rows, weights, reference):
    """Weighted sums of ``rows - reference`` and of the squares."""
    weights = np.ones(len(rows)) if weights is None else weights
    sums, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for part, centred in centred_strips(rows, reference):
        sums += weights[part] @ centred
        squares += weights[part] @ np.square(centred, out=centred)
    return sums, squares
