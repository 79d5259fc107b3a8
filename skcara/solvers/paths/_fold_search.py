r"""All folds and all penalties of a search, from a few reads of the data.

A *column* is one fold and one penalty. All of them share one sample of rows, whose
copies carry the labels of the folds:

1. Every column is minimised on the sampled rows that its fold trains on, from strong to
   weak penalties, all folds together (:mod:`skcara.solvers.paths._fold_newton`).
2. One read gives the exact gradients of all columns on their training sets.
3. Each column takes a step: where that changes predictions much it minimises the
   objective of the sample, with weights that make its gradient exact; where it does
   not, a step with the Hessian of the sample does the same. The exact gradients improve
   that Hessian by secant updates.
4. Read again, until all columns are done; those that are leave the stack.

The number of reads depends on how well the sample represents the training sets, not on
the number of folds or penalties. Where a few rows matter much, rows are drawn by their
leverage in the training sets; where steps stop shrinking the sample grows, and when it
cannot, the Hessians of all folds are summed in one read.
"""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skcara.passes import Draw, DrawByLeverage, Take
from skcara.solvers._rounds import Report
from skcara.solvers._sample_size import (
    can_grow,
    grown,
    max_sampled_rows,
    measure_rows,
)
from skcara.solvers.paths._fold_calibration import calibrate_folds
from skcara.solvers.paths._fold_column import Column, Quality
from skcara.solvers.paths._fold_models import FoldModels, by_penalty
from skcara.solvers.paths._fold_newton import (
    FoldPoints,
    Tilt,
    minimize_folds,
    next_change,
)
from skcara.solvers.paths._fold_problems import FoldProblems
from skcara.solvers.paths._fold_reads import FoldReads
from skcara.solvers.paths._fold_sample import FoldSample
from skcara.solvers.paths._full_fit import FullFits
from skcara.solvers.paths._near_hessians import MODEL_REACH, NearHessians

# Up to this many entries of X all rows are in the sample.
_SMALL_ENTRIES = 2**20
# Decrease of an objective, relative to it, that is not worth a step: scores are wrong
# by less than what is promised. For the usual tolerance, or a larger one.
_ENOUGH, _USUAL_TOL = 1e-12, 1e-4
# Rows per coordinate of the part of a sample on which columns make their first steps.
_COARSE_ROWS_PER_COORD, _MAX_STRIDE = 200, 16
# How well problems are solved, relative to the distance from their optimum: on a part
# of the sample, on the sample, and on all rows.
_COARSE_ACCURACY, _ACCURACY, _FULL_ACCURACY = 0.02, 1e-2, 1e-12


@dataclass(frozen=True)
class SearchRound:
    """State of a search after a read.

    Attributes
    ----------
    problems : FoldProblems
    columns : list of Column
        Ordered by fold, then by penalty.
    n_done : int
        Columns that are done.
    is_stopped : bool
        Whether somebody asked to stop.
    """

    problems: FoldProblems
    columns: list[Column]
    n_done: int
    is_stopped: bool = False

    @property
    def optimality(self) -> float:
        """Largest violation of the optimality conditions of any column."""
        read = (one.anchor for one in self.columns if one.anchor is not None)
        return max(anchor.optimality for anchor in read)


def search_folds(
    problems: FoldProblems,
    *,
    tol: float,
    max_iter: int,
    rng,
    full_fits: FullFits | None = None,
) -> Generator[Any, Any, SearchRound]:
    """Solve all columns.

    Parameters
    ----------
    problems : FoldProblems
    tol : float
        Largest violation of the optimality conditions of a column that is done.
    max_iter : int
        Rounds after the starting points.
    rng : numpy.random.RandomState
    full_fits : FullFits, optional
        Fits on all rows that are read for beside the columns, where rows are sampled.

    Yields
    ------
    item : request or Report
        A report of the :class:`SearchRound` after each read for all columns.

    Returns
    -------
    last : SearchRound
    """
    search = _FoldSearch(problems, tol, rng, full_fits)
    yield from search.start()
    for n_round in range(max_iter + 1):
        if n_round:
            yield from search.advance()
        yield from search.read(n_round)
        current = SearchRound(problems, search.columns, search.n_done)
        if (yield Report(current)):
            return replace(current, is_stopped=True)
        if not search.active:
            break
    return current


class _FoldSearch:
    def __init__(self, problems: FoldProblems, tol, rng, full_fits):
        self._problems, self._tol, self._rng = problems, tol, rng
        self._full = problems.all_rows
        n_folds, n_penalties = problems.sets.n_folds, len(problems.penalties[0])
        self.columns = [
            Column(fold, number, problems.problem(fold, number))
            for fold in range(n_folds)
            for number in range(n_penalties)
        ]
        self.active, self.n_done = list(self.columns), 0
        self._models = FoldModels(problems)
        self._reads = FoldReads(problems, tol)
        facts, n_params = self._full.facts, self._full.n_params
        n_entries = facts.n_rows * n_params
        if facts.is_sparse:
            n_entries = facts.n_entries + facts.n_rows
        self._has_all_rows = n_entries <= _SMALL_ENTRIES
        self._full_fits = None if self._has_all_rows else full_fits
        # The models of all columns are in memory; a sample may be as large as they are.
        model_bytes = 8 * self._full.n_coords**2 * len(self.columns)
        self._max_size = max_sampled_rows(self._full, free_bytes=model_bytes)
        self._size = min(measure_rows(self._full), self._max_size)
        self._drawn: FoldSample | None = None
        self._influence: tuple[np.ndarray, np.ndarray] | None = None

    # ---- the sample ------------------------------------------------------------

    @property
    def _sample(self) -> FoldSample:
        assert self._drawn is not None, "drawn at the start"
        return self._drawn

    def _draw(self):
        self._drawn = None  # never two samples at once
        full, weights = self._full, None
        if self._has_all_rows:
            indices = np.arange(full.n_rows)
        elif self._influence is None:
            indices, weights = yield Draw(self._size, self._rng)
        else:
            seed = self._rng.randint(np.iinfo(np.int32).max)
            indices, weights = yield DrawByLeverage(
                full, *self._influence, self._size, seed
            )
        rows, target, shares = yield Take(full, indices)
        atom = self._problems.labels[indices]
        weights = shares if weights is None else weights
        if not weights.all():
            # Nobody knows what stands in rows of weight zero.
            used = weights > 0
            rows, target, atom = rows[used], target[used], atom[used]
            weights = weights[used]
        self._drawn = FoldSample(
            rows,
            target,
            weights,
            atom,
            self._problems.sets,
            full.loss,
            is_everything=self._has_all_rows,
        )

    def start(self):
        """Minimise all columns on the sample, from strong to weak penalties."""
        yield from self._draw()
        if self._has_all_rows:
            self._minimise_chains(self._sample, _FULL_ACCURACY)
            return
        stride = self._sample.n_rows // (_COARSE_ROWS_PER_COORD * self._full.n_coords)
        stride = min(max(stride, 1), _MAX_STRIDE)
        coarse = self._sample.strided(stride) if stride > 1 else self._sample
        self._minimise_chains(coarse, _COARSE_ACCURACY)
        for column in self.columns:
            column.model = None
        yield from self._draw_influential()
        weakest = [self._columns_of(chain[-1])[0] for chain in self._problems.chains]
        self._reads.measure_noise(self._sample, weakest)

    def _draw_influential(self):
        """Draw again, if a few rows matter much."""
        weakest = self._columns_of(self._problems.chains[-1][-1])
        params = np.mean([one.params for one in weakest], axis=0)
        if not self._sample.is_concentrated(params):
            return
        directions = self._sample.leverage_directions(params, self._rng)
        self._influence = params, directions
        self._size = min(max(self._size, grown(self._size)), self._max_size)
        yield from self._draw()
        self._minimise_chains(self._sample, _ACCURACY)

    def _minimise_chains(self, sample, accuracy):
        """Minimise on a sample alone, from strong to weak penalties.

        What changes for one penalty will change for the next one too. Points that are
        minimised well tell where the path goes on; differences of others are noise.
        """
        hessians = NearHessians(sample)
        for chain in self._problems.chains:
            changes: deque[np.ndarray] = deque(maxlen=3 if sample.is_everything else 1)
            for number in chain:
                columns = self._columns_of(number)
                before = np.array([column.params for column in columns])
                starts = before + next_change(changes)
                for column, start in zip(columns, starts, strict=True):
                    column.params = start
                self._minimise(hessians, columns, accuracy)
                after = np.array([column.params for column in columns])
                changes.append(after - before)

    def _minimise(self, hessians, columns, accuracy):
        """Minimise on a sample alone, from the points where the columns are.

        A column that is rare in the sample may separate the classes there: a prior
        worth one row keeps its coefficient from running away. Where rows are drawn by
        their leverage, those of rare columns are in the sample.
        """
        sample, shape = hessians.sample, (len(columns), *columns[0].params.shape)
        is_rich = sample.is_everything or self._influence is not None
        damping = self._damping(np.inf if is_rich else sample.n_rows)
        tilt = Tilt(np.zeros(shape), damping)
        points = self._points(columns, [column.params for column in columns], sample)
        self._take_over(columns, hessians, points, tilt, accuracy)

    def _damping(self, n_rows):
        """Curvature worth one more among so many rows for every feature."""
        damping = np.zeros((self._full.n_params, 1))
        damping[: self._full.n_features] = 1.0 / n_rows
        return damping

    def _points(self, columns, params, sample, models=None):
        folds = np.array([column.fold for column in columns])
        return FoldPoints(folds, np.array(params), sample.weights[folds], models)

    def _take_over(self, columns, hessians, points, tilt, accuracy):
        penalties = [column.problem.penalty for column in columns]
        # More than that would not be seen in a score nor in a gradient.
        enough = _ENOUGH * min(1.0, self._tol / _USUAL_TOL) ** 2
        points = minimize_folds(
            hessians, penalties, points, tilt, accuracy=accuracy, enough=enough
        )
        # What held flat directions in place must not hide them from scores.
        is_held = tilt.damping.any()
        for column, params, model in zip(
            columns, points.params, points.models, strict=True
        ):
            column.params, column.model = params, None if is_held else model

    def _columns_of(self, number):
        return [one for one in self.active if one.number == number]

    # ---- reads -----------------------------------------------------------------

    def read(self, n_round):
        """Read for all active columns."""
        problems = self._problems
        self._make_models(at_anchors=False)
        full_fits = self._full_fits
        answers = yield from self._reads.read(
            self.active,
            n_round,
            has_all_rows=self._has_all_rows,
            beside=[] if full_fits is None else full_fits.requests,
        )
        if full_fits is not None:
            full_fits.learn(answers, self.columns)
        is_done = partial(Column.is_done, tol=self._tol, with_score=problems.has_test)
        left = [column for column in self.active if not is_done(column)]
        self.n_done += len(self.active) - len(left)
        self.active = [column for column in left if not column.is_stalled]
        for column in self.columns:
            if column not in self.active:
                column.model = None

    def advance(self):
        """Choose the next point of all active columns."""
        self._make_models()
        yield from self._improve_models()
        for columns in by_penalty(self.active):
            self._step(columns)

    def _step(self, columns):
        """Minimise on the sample where that is better than a step with the model."""
        far = self._far(columns)
        for column in columns:
            if column not in far:
                column.step()
        if far:
            self._minimise_tilted(far)
        if self._has_all_rows:
            return
        steps = [column.params - column.base for column in columns]
        for column, reach in zip(columns, self._reach(columns, steps), strict=True):
            column.shorten(reach)

    def _minimise_tilted(self, columns):
        """Minimise on the sample, with weights and a tilt that make gradients exact.

        Those of all rows are exact: the difference to a read would be rounding, and a
        tilt steeper than the penalty has no minimum.
        """
        anchors = [column.anchor.params for column in columns]
        models = [column.model for column in columns]
        points = self._points(columns, anchors, self._sample, models)
        slopes = np.zeros_like(points.params)
        if not self._has_all_rows:
            gradients = np.array([column.anchor.gradient for column in columns])
            weights = calibrate_folds(
                self._sample, points.params, points.weights, gradients
            )
            points = replace(points, weights=weights)
            _, found = self._sample.evaluate(points.params, points.weights)
            slopes = gradients - found
        tilt = Tilt(slopes, self._damping(np.inf))
        hessians = NearHessians(self._sample)
        self._take_over(columns, hessians, points, tilt, self._accuracy)

    def _far(self, columns):
        """Columns whose next step changes predictions too much for a model."""
        if self._has_all_rows:
            return [column for column in columns if not column.is_at_rounding]
        columns = [
            column
            for column in columns
            if column.quality is Quality.SAMPLE and not column.is_rejected
        ]
        if not columns:
            return []
        reach = self._reach(columns, [column.move for column in columns])
        is_far = reach > MODEL_REACH
        return [one for one, far in zip(columns, is_far, strict=True) if far]

    def _reach(self, columns, steps):
        """Largest changes of predictions of the sample by steps of some columns."""
        weights = self._sample.weights[[column.fold for column in columns]]
        return self._sample.reach(np.array(steps), weights, small=MODEL_REACH)

    @property
    def _accuracy(self):
        return _FULL_ACCURACY if self._has_all_rows else _ACCURACY

    # ---- models ----------------------------------------------------------------

    def _make_models(self, *, at_anchors=True):
        """Models of the sample, where they are missing."""
        missing = [
            column
            for group in by_penalty(self.active)
            if any(column.model is None for column in group)
            for column in group
        ]
        self._models.use_sample(self._sample, missing, at_anchors=at_anchors)

    def _improve_models(self):
        """Better Hessians for columns that make no progress: more rows, then all."""
        poor = [one for one in self.active if one.n_poor]
        if self._has_all_rows:
            self._models.use_all_rows(self._sample, poor)
            return
        is_sampled = any(one.quality is Quality.SAMPLE for one in poor)
        if is_sampled and can_grow(self._size, self._max_size):
            self._size = min(grown(self._size), self._max_size)
            yield from self._draw()
            self._models.use_sample(self._sample, self.active)
            return
        yield from self._models.improve(poor)
