r"""All folds and all penalties of a search, from a few reads of the data.

A *column* is one fold and one penalty. All of them share one sample of rows, whose
copies carry the labels of the folds:

1. Every column is minimised on the sampled rows that its fold trains on, from strong to
   weak penalties, all folds together (:mod:`skcara.solvers.paths._fold_newton`).
2. One read gives the exact gradients of all columns on their training sets.
3. Each column takes a step: far from its solution it minimises the objective of the
   sample, tilted so that its gradient is exact; near it, a step with the Hessian of the
   sample does the same. The exact gradients improve that Hessian by secant updates.
4. Read again, until all columns are done; those that are leave the stack.

The number of reads depends on how well the sample represents the training sets, not on
the number of folds or penalties. Where a few rows matter much, rows are drawn by their
influence; where steps stop shrinking the sample grows, and when it cannot, the Hessians
of all folds are summed in one read.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skcara.passes import Draw, DrawInfluential, EvaluateFolds, Take
from skcara.solvers._rounds import Report
from skcara.solvers._sample_size import (
    can_grow,
    grown,
    max_sampled_rows,
    measure_rows,
)
from skcara.solvers.paths._fold_column import Column, Quality, TestSet
from skcara.solvers.paths._fold_models import FoldModels, by_penalty
from skcara.solvers.paths._fold_newton import FoldPoints, Tilt, minimize_folds
from skcara.solvers.paths._fold_problems import FoldProblems
from skcara.solvers.paths._fold_sample import FoldSample

# Up to this many entries of X all rows are in the sample.
_SMALL_ENTRIES = 2**20
# Rows per coordinate of the part of a sample on which columns make their first steps.
_COARSE_ROWS_PER_COORD, _MAX_STRIDE = 200, 16
# How well problems are solved, relative to the distance from their optimum: on a part
# of the sample, on the sample, and on all rows.
_COARSE_ACCURACY, _ACCURACY, _FULL_ACCURACY = 0.02, 1e-2, 1e-12
# Predicted decrease of a mean loss from which on a quadratic model is as good as the
# loss on a sample.
_NEAR = 1e-5
# By which a violation is expected to fall from one read to the next.
_EXPECTED_CONTRACTION = 0.05
# Single precision is for tolerances far above its noise, for well-conditioned problems
# whose conditioning is cheap to check, and for the first reads: a search that needs
# more has difficulties enough.
_MIN_SINGLE_TOL, _MIN_SINGLE_EIGENVALUE = 1e-6, 1e-4
_MAX_SINGLE_COORDS, _MAX_SINGLE_READS = 400, 5


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
    problems: FoldProblems, *, tol: float, max_iter: int, rng
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

    Yields
    ------
    item : request or Report
        A report of the :class:`SearchRound` after each read for all columns.

    Returns
    -------
    last : SearchRound
    """
    search = _FoldSearch(problems, tol, rng)
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
    def __init__(self, problems: FoldProblems, tol, rng):
        self._problems, self._tol, self._rng = problems, tol, rng
        self._full = problems.all_rows
        n_folds, n_penalties = problems.sets.n_folds, len(problems.penalties[0])
        self.columns = [
            Column(fold, number, problems.problem(fold, number))
            for fold in range(n_folds)
            for number in range(n_penalties)
        ]
        self.active, self.n_done = list(self.columns), 0
        self._models = FoldModels(problems, len(self.columns))
        facts, n_params = self._full.facts, self._full.n_params
        n_entries = facts.n_rows * n_params
        if facts.is_sparse:
            n_entries = facts.n_entries + facts.n_rows
        self._has_all_rows = n_entries <= _SMALL_ENTRIES
        self._max_size = max_sampled_rows(self._full)
        self._size = min(measure_rows(self._full), self._max_size)
        self._drawn: FoldSample | None = None
        self._influence: tuple[np.ndarray, np.ndarray] | None = None
        self._is_single = False

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
            indices, weights = yield DrawInfluential(
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
            rows, target, weights, atom, self._problems.sets, full.loss
        )

    def start(self):
        """Minimise all columns on the sample, from strong to weak penalties."""
        yield from self._draw()
        self._minimise_chains()
        if not self._has_all_rows:
            yield from self._draw_influential()
        self._is_single = self._may_be_single()

    def _draw_influential(self):
        """Draw again, if a few rows matter much."""
        weakest = self._columns_of(self._problems.chains[-1][-1])
        params = np.mean([one.params for one in weakest], axis=0)
        if not self._sample.is_concentrated(params):
            return
        self._influence = params, self._sample.least_diagonal(params)
        self._size = min(max(self._size, grown(self._size)), self._max_size)
        yield from self._draw()
        for chain in self._problems.chains:
            for number in chain:
                self._minimise(self._sample, self._columns_of(number), _ACCURACY)

    def _minimise_chains(self):
        """Solve on all rows if they are few, else on as many as make a start.

        The first gradients correct what a part of the sample leaves open, as they
        correct the sample itself.
        """
        sample, accuracy = self._sample, self._accuracy
        if not self._has_all_rows:
            stride = sample.n_rows // (_COARSE_ROWS_PER_COORD * self._full.n_coords)
            stride = min(max(stride, 1), _MAX_STRIDE)
            sample = sample.strided(stride) if stride > 1 else sample
            accuracy = _COARSE_ACCURACY
        for chain in self._problems.chains:
            params = None
            for number in chain:
                columns = self._columns_of(number)
                if params is not None:
                    for column, start in zip(columns, params, strict=True):
                        column.params = start
                self._minimise(sample, columns, accuracy)
                params = [column.params for column in columns]
        if sample is not self._sample:
            for column in self.columns:
                column.model = None

    def _minimise(self, sample, columns, accuracy):
        """Minimise on a sample alone, from the points where the columns are.

        A column that is rare in the sample may separate the classes there: a prior
        worth one row keeps its coefficient from running away.
        """
        shape = len(columns), *columns[0].params.shape
        is_everything = self._has_all_rows and sample is self._sample
        damping = self._damping(np.inf if is_everything else sample.n_rows)
        tilt = Tilt(np.zeros(shape), np.zeros(shape), damping)
        points = self._points(columns, [column.params for column in columns])
        self._take_over(columns, sample, points, tilt, accuracy)

    def _damping(self, n_rows):
        """Curvature worth one more among so many rows for every feature."""
        damping = np.zeros((self._full.n_params, 1))
        damping[: self._full.n_features] = 1.0 / n_rows
        return damping

    def _points(self, columns, params, models=None):
        folds = np.array([column.fold for column in columns])
        return FoldPoints(folds, np.array(params), models)

    def _take_over(self, columns, sample, points, tilt, accuracy):
        penalties = [column.problem.penalty for column in columns]
        points = minimize_folds(sample, penalties, points, tilt, accuracy=accuracy)
        for column, params, model in zip(
            columns, points.params, points.models, strict=True
        ):
            column.params, column.model = params, model
        if tilt.damping.any():
            # What held flat directions in place must not hide them from scores.
            for column in columns:
                column.model = None

    def _columns_of(self, number):
        return [one for one in self.active if one.number == number]

    # ---- reads -----------------------------------------------------------------

    def read(self, n_round):
        """Read for all active columns."""
        problems = self._problems
        with_test = problems.has_test and self._expects_scores
        sums = yield EvaluateFolds(
            problems.coordinates,
            problems.loss,
            problems.sets,
            np.array([column.params for column in self.active]),
            np.array([column.fold for column in self.active]),
            with_test,
            problems.test_factors,
            # What may be accepted as a score is of full precision.
            self._is_single and not with_test and n_round < _MAX_SINGLE_READS,
        )
        self._make_models(at_anchors=False)
        for position, column in enumerate(self.active):
            test = None
            if with_test:
                weight = problems.test_weights[column.fold]
                test = TestSet(
                    float(sums.test_losses[position] / weight),
                    sums.test_gradients[position] / weight,
                )
            weight = problems.train_weights[column.fold]
            column.learn(sums.gradients[position] / weight, test)
        is_done = partial(Column.is_done, tol=self._tol, with_score=problems.has_test)
        left = [column for column in self.active if not is_done(column)]
        self.n_done += len(self.active) - len(left)
        self.active = [column for column in left if not column.is_stalled]
        for column in self.columns:
            if not self._models.are_kept or column not in self.active:
                column.model = None

    @property
    def _expects_scores(self):
        """Whether some column may be done after the next read."""
        if self._has_all_rows:
            return True
        return any(
            column.anchor is not None
            and column.anchor.stop_value <= self._tol / _EXPECTED_CONTRACTION
            for column in self.active
        )

    def advance(self):
        """Choose the next point of all active columns."""
        self._make_models()
        yield from self._improve_models()
        for columns in by_penalty(self.active):
            self._step(columns)

    def _step(self, columns):
        """Minimise on the sample where that is better than a step with the model."""
        far = [column for column in columns if self._is_far(column)]
        for column in columns:
            if column not in far:
                column.step()
        if not far:
            return
        anchors = [column.anchor.params for column in far]
        points = self._points(far, anchors, [column.model for column in far])
        _, gradients = self._sample.evaluate(points.params, points.folds)
        slopes = np.array([column.anchor.gradient for column in far]) - gradients
        n_rows = np.inf if self._has_all_rows else self._full.n_rows
        tilt = Tilt(points.params, slopes, self._damping(n_rows))
        self._take_over(far, self._sample, points, tilt, self._accuracy)

    def _is_far(self, column):
        if self._has_all_rows:
            return True
        is_sampled = column.quality is Quality.SAMPLE and not column.is_rejected
        # Where a sample has disappointed, its damping may be what holds a column back.
        return is_sampled and column.predicted > _NEAR and not column.n_poor

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
        if self._has_all_rows:
            self._models.use_all_rows(self._sample, self.active)
            return
        poor = [one for one in self.active if one.n_poor]
        is_sampled = any(one.quality is Quality.SAMPLE for one in poor)
        if is_sampled and can_grow(self._size, self._max_size):
            self._size = min(grown(self._size), self._max_size)
            yield from self._draw()
            self._models.use_sample(self._sample, self.active)
            return
        yield from self._models.improve(poor)

    def _may_be_single(self):
        """Whether gradients in single precision are accurate enough.

        Their noise is multiplied by the inverse Hessian; directions without curvature
        belong to constants added to all classes, where nothing depends on it.
        """
        full = self._full
        if self._has_all_rows or full.facts.is_sparse:
            return False
        if self._tol < _MIN_SINGLE_TOL or full.n_coords > _MAX_SINGLE_COORDS:
            return False
        n_flat = full.n_params if full.n_outputs > 1 else 0
        for chain in self._problems.chains:
            weakest = self._columns_of(chain[-1])[0]
            hessian = self._sample.hessian(weakest.params, weakest.fold)
            if np.linalg.eigvalsh(hessian)[n_flat] < _MIN_SINGLE_EIGENVALUE:
                return False
        return True
