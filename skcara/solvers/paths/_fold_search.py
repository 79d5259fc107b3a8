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
from typing import Any

import numpy as np

from skcara.data import Coordinates, Facts, FoldSets
from skcara.objective import KKTViolation, Loss, Problem, SeparablePenalty
from skcara.passes import Draw, DrawInfluential, EvaluateFolds, FoldHessians, Take
from skcara.solvers._driver import answer_all
from skcara.solvers._sample_size import (
    can_grow,
    grown,
    max_sampled_rows,
    measure_rows,
)
from skcara.solvers.paths._fold_column import Column, Quality, TestSet
from skcara.solvers.paths._fold_newton import (
    FoldPoints,
    Tilt,
    minimize_folds,
    penalised_model,
)
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
# Disappointing steps after which a Hessian of all rows is worth its price.
_PATIENCE = 2
# By which a violation is expected to fall from one read to the next.
_EXPECTED_CONTRACTION = 0.05
# Single precision is for tolerances far above its noise, for well-conditioned problems
# whose conditioning is cheap to check, and for the first reads: a search that needs
# more has difficulties enough.
_MIN_SINGLE_TOL, _MIN_SINGLE_EIGENVALUE = 1e-6, 1e-4
_MAX_SINGLE_COORDS, _MAX_SINGLE_READS = 400, 5
# Share of the memory of X that all models may take before they are made anew in each
# round, and the Hessians of one read.
_MODEL_SHARE, _FREE_MODEL_BYTES = 0.05, 2**23


@dataclass(frozen=True, eq=False)
class FoldProblems:
    """What a search minimises.

    Attributes
    ----------
    facts : Facts
    loss : Loss
    coordinates : Coordinates
        Those of the solver.
    sets : FoldSets
    penalties : list of list of SeparablePenalty
        In the user's coordinates, for each fold and penalty.
    chains : list of list of int
        Numbers of penalties from strong to weak, each chain beginning anew.
    train_weights, test_weights : ndarray of shape (n_folds,)
        Total weights of the sets.
    has_test : bool
        Whether scores are asked for.
    test_factors : ndarray of shape (n_classes,), optional
        By which the weight of a row is multiplied in scores, for each class.
    """

    facts: Facts
    loss: Loss
    coordinates: Coordinates
    sets: FoldSets
    penalties: list[list[SeparablePenalty]]
    chains: list[list[int]]
    train_weights: np.ndarray
    test_weights: np.ndarray
    has_test: bool = True
    test_factors: np.ndarray | None = None

    def problem(self, fold: int, number: int) -> Problem:
        """The problem of one fold and penalty."""
        facts = replace(self.facts, total_weight=float(self.train_weights[fold]))
        penalty = self.penalties[fold][number]
        return Problem(facts, self.loss, penalty, KKTViolation(), self.coordinates)

    @property
    def all_rows(self) -> Problem:
        """A problem on all rows, of the first penalty."""
        penalty = self.penalties[0][0]
        return Problem(self.facts, self.loss, penalty, KKTViolation(), self.coordinates)


@dataclass(frozen=True)
class SearchRound:
    """State of a search after a read.

    Attributes
    ----------
    columns : list of Column
        Ordered by fold, then by penalty.
    n_reads, n_done : int
        Reads, and columns that are done.
    """

    columns: list[Column]
    n_reads: int
    n_done: int

    @property
    def optimality(self) -> float:
        """Largest violation of the optimality conditions of any column."""
        return max(column.anchor.optimality for column in self.columns)


def search_folds(
    problems: FoldProblems, *, tol: float, max_iter: int, rng
) -> Generator[Any, Any, None]:
    """Solve all columns; yields requests, and a round after each read for all.

    Parameters
    ----------
    problems : FoldProblems
    tol : float
        Largest violation of the optimality conditions of a column that is done.
    max_iter : int
        Rounds after the starting points.
    rng : numpy.random.RandomState
    """
    search = _FoldSearch(problems, tol, rng)
    yield from search.start()
    for n_round in range(max_iter + 1):
        yield from search.read(n_round)
        n_done = len(search.columns) - len(search.active)
        yield SearchRound(search.columns, search.n_reads, n_done)
        if not search.active or n_round == max_iter:
            return
        yield from search.advance()


def answer_search(search, source, on_round):
    """Answer the requests of a search until it ends or somebody asks to stop.

    Parameters
    ----------
    search : generator
        Of :func:`search_folds`.
    source : Source
    on_round : callable
        Called with each :class:`SearchRound`; a true return value stops the search.

    Returns
    -------
    last : SearchRound
    is_stopped : bool
    """
    item, last = next(search), None
    while True:
        if isinstance(item, SearchRound):
            last, answer = item, None
            if on_round(item):
                search.close()
                return last, True
        else:
            [answer] = answer_all(source, [item])
        try:
            item = search.send(answer)
        except StopIteration:
            return last, False


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
        self.active = list(self.columns)
        self.n_reads = 0
        facts, n_params = self._full.facts, self._full.n_params
        n_entries = facts.n_rows * n_params
        if facts.is_sparse:
            n_entries = facts.n_entries + facts.n_rows
        self._has_all_rows = n_entries <= _SMALL_ENTRIES
        self._max_size = max_sampled_rows(self._full)
        self._size = min(measure_rows(self._full), self._max_size)
        self._sample: FoldSample | None = None
        self._influence = None
        self._is_single = False

    # ---- the sample ------------------------------------------------------------

    def _draw(self):
        self._sample = None  # never two samples at once
        full, weights = self._full, None
        if self._has_all_rows:
            indices = np.arange(full.n_rows)
        elif self._influence is None:
            indices, weights = yield Draw(self._size, self._rng)
        else:
            seed = self._rng.randint(np.iinfo(np.int32).max)
            self.n_reads += 1
            indices, weights = yield DrawInfluential(
                full, *self._influence, self._size, seed
            )
        rows, target, shares = yield Take(full, indices)
        atom = self._problems.sets.labels[indices]
        weights = shares if weights is None else weights
        if not weights.all():
            # Nobody knows what stands in rows of weight zero.
            used = weights > 0
            rows, target, atom = rows[used], target[used], atom[used]
            weights = weights[used]
        self._sample = FoldSample(
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
            self._is_single and n_round < _MAX_SINGLE_READS,
        )
        self.n_reads += 1
        self._make_models()
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
        self.active = [
            column
            for column in self.active
            if not column.is_done(self._tol, with_score=problems.has_test)
        ]
        for column in self.columns:
            if not self._keeps_models or column not in self.active:
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
        for number in {column.number for column in self.active}:
            self._step(self._columns_of(number))

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
        return is_sampled and column.predicted > _NEAR

    @property
    def _accuracy(self):
        return _FULL_ACCURACY if self._has_all_rows else _ACCURACY

    # ---- models ----------------------------------------------------------------

    @property
    def _keeps_models(self):
        return len(self.columns) * self._model_bytes <= self._affordable_bytes

    @property
    def _model_bytes(self):
        return 8 * self._full.n_coords**2

    @property
    def _affordable_bytes(self):
        return max(_MODEL_SHARE * 8 * self._full.facts.n_entries, _FREE_MODEL_BYTES)

    def _make_models(self, *, anew=False):
        """Hessians of the sample at the mean point of the columns of each penalty."""
        for number in {column.number for column in self.active}:
            columns = self._columns_of(number)
            if not anew and all(column.model is not None for column in columns):
                continue
            params = [
                column.params if column.anchor is None else column.anchor.params
                for column in columns
            ]
            hessians = self._sample.hessians(np.mean(params, axis=0))
            for column in columns:
                self._use_hessian(column, hessians[column.fold])

    def _use_hessian(self, column, hessian, quality=Quality.SAMPLE):
        penalty = column.problem.penalty
        model = penalised_model(hessian, penalty, self._full.n_outputs)
        column.use_model(model, quality)

    def _improve_models(self):
        """Better Hessians for columns that make no progress: more rows, then all.

        First at one point for all folds of a penalty, then each at its own.
        """
        if self._has_all_rows:
            for column in self.active:
                hessian = self._sample.hessian(column.anchor.params, column.fold)
                self._use_hessian(column, hessian, Quality.OWN_POINT)
            return
        poor = [one for one in self.active if one.n_poor]
        sampled = [one for one in poor if one.quality is Quality.SAMPLE]
        if sampled and can_grow(self._size, self._max_size):
            self._size = min(grown(self._size), self._max_size)
            yield from self._draw()
            self._make_models(anew=True)
            return
        # Secant updates may do for less what a Hessian of all rows would.
        poor = [one for one in poor if one.n_poor >= _PATIENCE]
        sampled = [one for one in poor if one.quality is Quality.SAMPLE]
        numbers = sorted({column.number for column in sampled})
        groups = [self._columns_of(number) for number in numbers]
        shared = [(group, Quality.SHARED_POINT) for group in groups]
        own = [
            ([column], Quality.OWN_POINT)
            for column in poor
            if column.quality is not Quality.SAMPLE
        ]
        yield from self._read_hessians(shared + own)

    def _read_hessians(self, groups):
        """Hessians of all rows for groups of columns, as many as fit into memory."""
        problems, budget = self._problems, self._affordable_bytes
        chosen = []
        for group, quality in groups:
            budget -= self._model_bytes * len(group)
            if not chosen or budget > 0:
                chosen.append((group, quality))
        if not chosen:
            return
        params = [
            np.mean([column.anchor.params for column in group], axis=0)
            for group, _ in chosen
        ]
        folds = [np.array([column.fold for column in group]) for group, _ in chosen]
        answers = yield FoldHessians(
            problems.coordinates, problems.loss, problems.sets, np.array(params), folds
        )
        self.n_reads += 1
        for (group, quality), hessians in zip(chosen, answers, strict=True):
            for column, hessian in zip(group, hessians, strict=True):
                weight = problems.train_weights[column.fold]
                self._use_hessian(column, hessian / weight, quality)

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
