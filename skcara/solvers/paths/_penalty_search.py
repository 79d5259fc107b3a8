r"""Search for a penalty of the squared loss, and the path on all rows, from one read.

One read sums the second moments by atom. They carry the path of every training set, its
errors on the held-out rows, the grid of penalties and the fit on all rows. Where the
bound on the rounding error of any of these is too large, columns are nearly dependent
or far from their centre, and a second read sums the moments in better coordinates
(:mod:`skcara.solvers.paths._basis`). Errors on held-out rows that are still in doubt,
because the target is nearly a linear function of the features, are computed from the
residuals in one more read (:mod:`skcara.solvers.paths._residuals`).

A search is a generator, as all solvers are: it yields what it wants to be read and is
sent the sums, and it reports its state after each step.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from skcara.data import FoldBatch
from skcara.passes import Glance
from skcara.solvers._rounds import Report
from skcara.solvers.paths._atom_sums import AtomSums, choose_shift
from skcara.solvers.paths._basis import refining_task
from skcara.solvers.paths._grid import alpha_grid
from skcara.solvers.paths._optimality import dual_gaps, violations
from skcara.solvers.paths._path import solve_path
from skcara.solvers.paths._residuals import DoubtfulPoints, HeldOutSquares
from skcara.solvers.paths._search import (
    SearchSettings,
    TrainingProblem,
    iterate_folds,
)

# About so many rows tell the shift; a deviation more or less does not matter.
_SHIFT_ROWS = 256
# Bound on the relative error of a score above which the rows are read once more.
_MAX_SCORE_ERROR = 1e-7
# A second read of moments cannot be improved upon by a third.
_MAX_READS = 2


@dataclass(frozen=True)
class PenaltyGrid:
    """What is asked of a path or of a search.

    Attributes
    ----------
    l1_ratios : tuple of float
    alphas : int or ndarray of shape (n_alphas,)
        Length of the grids, or one descending grid for all ratios.
    eps : float
        Ratio of the smallest to the largest penalty of a grid that is made here.
    fit_intercept, positive, standardize : bool
    tol : float
        Largest duality gap, relative to the mean square of the (centred) target.
    max_reads : int
    """

    l1_ratios: tuple[float, ...] = (1.0,)
    alphas: int | np.ndarray = 100
    eps: float = 1e-3
    fit_intercept: bool = True
    positive: bool = False
    standardize: bool = False
    tol: float = 1e-4
    max_reads: int = _MAX_READS + 1

    def grids(self, problem: TrainingProblem) -> list[tuple[float, np.ndarray]]:
        """Pairs of a ratio and its penalties in descending order."""
        if not isinstance(self.alphas, int):
            return [(ratio, self.alphas) for ratio in self.l1_ratios]
        loss = problem.loss
        return [
            (ratio, alpha_grid(loss, ratio, self.eps, self.alphas, self.positive))
            for ratio in self.l1_ratios
        ]


@dataclass(frozen=True)
class FullPath:
    """Fits on all rows, and how good they are.

    ``objectives``, ``optimalities`` and ``gaps`` belong to the features in the units
    that the penalty acts on. What rounding may have done to the last two is added.

    Attributes
    ----------
    coefs : ndarray of shape (n_features, n_alphas)
        In the units of the user.
    intercepts, objectives, optimalities, gaps : ndarray of shape (n_alphas,)
    target_square : float
        Mean square of the (centred) target.
    """

    coefs: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    optimalities: np.ndarray
    gaps: np.ndarray
    target_square: float

    @property
    def relative_gaps(self):
        """Gaps as compared with ``tol``, shape (n_alphas,)."""
        return self.gaps / self.target_square if self.target_square > 0 else self.gaps


def fit_full_path(problem: TrainingProblem, alphas, l1_ratio, settings) -> FullPath:
    """Minimise on all rows, for penalties in descending order."""
    loss, positive = problem.loss, settings.positive
    scaled = solve_path(loss, alphas, l1_ratio, positive)
    l1, l2 = alphas * l1_ratio, alphas * (1.0 - l1_ratio)
    coefs = scaled / problem.scale[:, None]
    intercepts, offsets = problem.intercepts(coefs, settings)
    # An intercept that is wrong by so much costs half the square of it, and where it is
    # not at its best, its product with the mean of the residuals.
    costs = 0.5 * offsets**2
    if not settings.fit_intercept:
        squares = loss.squares(scaled) + loss.square_errors(scaled)
        costs += offsets * np.sqrt(squares)
    distances = violations(loss.slopes(scaled), scaled, l1, l2, positive)
    distances += loss.slope_errors(scaled)
    penalties = l1 * np.abs(scaled).sum(axis=0) + 0.5 * l2 * (scaled**2).sum(axis=0)
    return FullPath(
        coefs,
        intercepts,
        0.5 * loss.squares(scaled) + penalties,
        np.maximum(distances.max(axis=0, initial=0.0), offsets),
        dual_gaps(loss, scaled, l1, l2, positive) + costs,
        loss.square,
    )


@dataclass
class SearchState:
    """How far a search is.

    Attributes
    ----------
    n_reads : int
    problem : TrainingProblem
        Of all rows.
    settings : SearchSettings
    grids : list of pairs (l1_ratio, alphas)
    errors, bounds, gaps : list of ndarray of shape (n_ratios, n_alphas)
        For each fold that is done, see :class:`FoldPaths`.
    doubts : list
        Folds with scores that may be wrong, because they are small differences of
        large moments.
    is_stopped : bool
        Whether somebody asked to stop.
    """

    n_reads: int
    problem: TrainingProblem
    settings: SearchSettings
    grids: list
    errors: list = field(default_factory=list)
    bounds: list = field(default_factory=list)
    gaps: list = field(default_factory=list)
    doubts: list = field(default_factory=list)
    is_stopped: bool = False

    def best(self) -> tuple[int, int]:
        """Ratio and penalty of the least mean error so far, the first of equal ones.

        Before the first fold that is the strongest penalty.
        """
        if not self.errors:
            return 0, 0
        means = np.mean(self.errors, axis=0)
        ratio, place = np.unravel_index(np.argmin(means), means.shape)
        return int(ratio), int(place)

    def choose(self) -> "Choice":
        """Take the best ratio and penalty so far and fit all rows with them."""
        ratio, place = self.best()
        l1_ratio, alphas = self.grids[ratio]
        alpha = alphas[place : place + 1]
        fit = fit_full_path(self.problem, alpha, l1_ratio, self.settings)
        return Choice(l1_ratio, float(alpha[0]), fit)

    def resolve_doubts(self, answers):
        """Take errors and bounds from a read of the residuals."""
        self.n_reads += 1
        for doubt, (errors, bounds) in zip(self.doubts, answers, strict=True):
            self.errors[doubt.fold][doubt.places] = errors
            self.bounds[doubt.fold][doubt.places] = bounds


class Choice(NamedTuple):
    """A ratio and a penalty, and the fit on all rows with them."""

    l1_ratio: float
    alpha: float
    fit: FullPath


def _first_task(n_atoms: tuple[int, ...]) -> Generator[Any, Any, AtomSums]:
    """What the first read sums, for batches of folds with so many atoms."""
    seen = yield Glance()
    few = slice(None, None, max(seen.n_rows // _SHIFT_ROWS, 1))
    return AtomSums(n_atoms, choose_shift(seen.rows[few], seen.target[few]))


def settings_of(grid: PenaltyGrid, task: AtomSums) -> SearchSettings:
    """How the moments that a read sums are understood."""
    return SearchSettings(
        len(task.shift) - 1,
        task.shift,
        fit_intercept=grid.fit_intercept,
        positive=grid.positive,
        standardize=grid.standardize,
        basis=task.basis,
    )


def search_penalties(
    grid: PenaltyGrid, batches: list[FoldBatch]
) -> Generator[Any, Any, tuple[SearchState, Choice]]:
    """Paths of all folds, from as few reads as they need.

    Yields
    ------
    item : request or Report
        A report of the :class:`SearchState` after a read or a fold. Folds that another
        read will solve again are not told of.

    Returns
    -------
    state : SearchState
    choice : Choice
    """
    task = yield from _first_task(tuple(batch.n_atoms for batch in batches))
    atoms = yield task
    state = _state_after(atoms, task, grid)
    choice = yield from _search(grid, batches, atoms, state)
    if choice is None:
        task = refining_task(task, atoms, state.settings.n_features)
        atoms = yield task
        state = replace(_state_after(atoms, task, grid, state.grids), n_reads=2)
        choice = yield from _search(grid, batches, atoms, state)
    if state.doubts and state.n_reads < grid.max_reads and not state.is_stopped:
        folds = tuple(doubt.points for doubt in state.doubts)
        state.resolve_doubts((yield HeldOutSquares(folds, task.shift)))
        yield Report(state)
        choice = state.choose()
    return state, choice


def _search(grid, batches, atoms, state):
    """Go through all folds and choose; None if that needs better moments."""
    state.is_stopped = yield Report(state)
    if state.is_stopped:
        return state.choose()
    settings, n_doubtful = state.settings, 0
    n_folds = sum(len(batch.train) for batch in batches)
    # A read of residuals costs as much as one of the moments at about so many points.
    max_doubtful = settings.n_features * n_folds
    may_refine = state.n_reads < min(grid.max_reads, _MAX_READS)
    for number, (fold, paths) in enumerate(
        iterate_folds(batches, atoms, state.grids, settings)
    ):
        is_doubtful = ~(paths.bounds <= _MAX_SCORE_ERROR * paths.errors)
        n_doubtful += int(np.count_nonzero(is_doubtful))
        if may_refine and (n_doubtful > max_doubtful or (paths.gaps > grid.tol).any()):
            return None
        state.errors.append(paths.errors)
        state.bounds.append(paths.bounds)
        state.gaps.append(paths.gaps)
        if is_doubtful.any():
            state.doubts.append(_doubt(number, fold, paths, is_doubtful, settings))
        state.is_stopped = yield Report(state)
        if state.is_stopped:
            return state.choose()
    choice = state.choose()
    return None if may_refine and choice.fit.relative_gaps[0] > grid.tol else choice


def _doubt(number, fold, paths, is_doubtful, settings):
    places = np.nonzero(is_doubtful)
    coefs = paths.coefs[places[0], :, places[1]].T
    offsets = fold.problem.offsets(coefs, settings)
    points = DoubtfulPoints(fold.batch, fold.counts, coefs, *offsets)
    return _Doubt(number, places, points)


class _Doubt(NamedTuple):
    """Scores of a fold that may be wrong: which they are, and how to do better."""

    fold: int
    places: tuple
    points: DoubtfulPoints


def _state_after(atoms, task, grid, grids=None):
    total = atoms[0].total()
    if not np.isfinite(total.scatter).all():
        raise FloatingPointError(
            "The second moments are not finite: X or y contain values that are too "
            "large. Scale them."
        )
    settings = settings_of(grid, task)
    problem = TrainingProblem.of(total, settings)
    return SearchState(1, problem, settings, grids or grid.grids(problem))


def solve_full_path(
    grid: PenaltyGrid,
) -> Generator[Any, Any, tuple[np.ndarray, FullPath]]:
    """The path on all rows for the first ratio.

    Yields
    ------
    request

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
    path : FullPath
    """
    task = yield from _first_task((1,))
    atoms = yield task
    state = _state_after(atoms, task, grid)
    ((l1_ratio, alphas),) = state.grids
    path = fit_full_path(state.problem, alphas, l1_ratio, state.settings)
    if min(grid.max_reads, _MAX_READS) > 1 and (path.relative_gaps > grid.tol).any():
        task = refining_task(task, atoms, state.settings.n_features)
        atoms = yield task
        state = _state_after(atoms, task, grid, state.grids)
        path = fit_full_path(state.problem, alphas, l1_ratio, state.settings)
    return alphas, path
