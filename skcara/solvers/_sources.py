r"""Where reduced measures come from.

A *source* turns an evaluation of the full data into a reduced problem whose gradient at
the evaluated point equals the full one. Three of them share one interface:

* :class:`AllRows`: few enough rows are their own reduced measure;
* :class:`CalibratedSample`: a stratified sample, kept over the rounds, whose weights
  are calibrated to every new gradient;
* :class:`RecombinedGroups`: groups of rows chosen by a recombination method, fresh in
  every round.

``accuracy`` says how well its reduced problems are worth solving. ``reduce`` returns
``None`` if the recombination failed; the solver then takes steps on all rows.
"""

from dataclasses import dataclass

import numpy as np

from skcara.objective import Evaluation, Problem
from skcara.recombination import RecombinationError, recombine_groups
from skcara.solvers._calibration import TILES_PER_MOMENT, calibrate
from skcara.solvers._influence import (
    RowDensity,
    hessian_diagonal,
    is_concentrated,
    row_influence,
)
from skcara.solvers._pilot import Start, minimize_part, prior, run_pilot
from skcara.solvers._reduced import ReducedProblem
from skcara.solvers._rounds import Measure
from skcara.solvers._sampling import draw_rows

# A sample of m rows leaves an error of about n_coords / m and costs m / n_rows passes
# for each gradient and m n_coords / n_rows for each Hessian on it: this share of the
# rows, divided by n_coords where these are many, and within these bounds.
_ROWS_SHARE = 1 / 32
_MIN_ROWS, _MIN_ROWS_PER_COORD, _MAX_ROWS_PER_COORD = 8_000, 64, 4000
# A measure has at most this share of the rows, and the copy of a sample must stay small
# against the data, unless it is smaller than a chunk of a pass.
_MAX_SHARE = 1 / 8
_MAX_COPIED_SHARE, _FREE_BYTES = 1 / 24, 2**21
_GROWTH = 3
# How well a reduced problem is solved, relative to the distance from its optimum: the
# steps converge fast, and the measure itself is not better than the square of this.
_ACCURACY = 1e-2
# Rows of a group that is recombined as a whole.
_GROUP_ROWS = 32
_GROUPS_PER_MOMENT = 4


@dataclass(frozen=True)
class Reduction:
    """A reduced problem, and the measure behind it (None if all rows are in it)."""

    problem: ReducedProblem
    measure: Measure | None


class AllRows:
    """All rows as a reduced problem of their own, copied once."""

    group_rows = None
    # Further steps cost less than the next round, but few ask for more than this.
    accuracy = 1e-5

    def __init__(self, problem: Problem):
        self._full = problem
        self._problem = ReducedProblem(
            problem.design.take(np.arange(problem.n_rows), keep_sparse=True),
            problem.target,
            np.ascontiguousarray(problem.weights),
            problem.loss,
            problem.penalty,
        )

    def start(self, params) -> Start:
        """Minimise on every sixth row, from zeros; the rounds use all of them."""
        if params.any():
            return Start(params, 0.0)
        return run_pilot(self._problem, self._full, params, finest=1)

    def reduce(self, evaluation: Evaluation) -> Reduction:
        """Return the problem itself."""
        return Reduction(self._problem, None)

    def enlarge(self) -> bool:
        """There is nothing to enlarge, and no need."""
        return False


def _max_sampled_rows(design):
    free_rows = _FREE_BYTES / design.taken_row_bytes
    rows = max(_MAX_COPIED_SHARE * design.n_rows, free_rows)
    return int(min(rows, _MAX_SHARE * design.n_rows))


class CalibratedSample:
    """A stratified sample of rows, reweighted to carry each full gradient exactly."""

    group_rows = None
    accuracy = _ACCURACY

    def __init__(self, problem: Problem, rng):
        self._full = problem
        self._rng = rng
        n_coords = problem.n_coords
        size = np.clip(
            int(min(_ROWS_SHARE, 1 / n_coords) * problem.n_rows),
            _MIN_ROWS + _MIN_ROWS_PER_COORD * n_coords,
            _MAX_ROWS_PER_COORD * n_coords,
        )
        self._density = None
        self._max_size = _max_sampled_rows(problem.design)
        self._draw(min(size, self._max_size))

    def _draw(self, size):
        full = self._full
        self._size, self._sample = size, None  # never two samples at once
        self._indices, weights = draw_rows(
            size, full.n_rows, self._rng, self._density, full.sample_weight
        )
        weights /= weights.sum()
        if not self._can_grow:
            self._density = None
        self._sample = ReducedProblem(
            full.design.take(self._indices, keep_sparse=True),
            full.target[self._indices],
            weights,
            full.loss,
            full.penalty,
        )

    @property
    def _is_calibration_cheap(self):
        """Whether calibration costs less than a pass."""
        design = self._full.design
        entries = design.X.nnz if design.is_sparse else design.X.size
        n_moments = self._full.n_coords + 1
        n_tiles = min(TILES_PER_MOMENT * n_moments, self._sample.n_rows)
        # Products of matrices do this many times more work in the time of a pass.
        return n_tiles * n_moments**2 <= 16 * entries * self._full.n_outputs

    def start(self, params) -> Start:
        """Minimise on ever larger parts of the sample, from zeros."""
        start = Start(params, 0.0)
        if not params.any():
            start = run_pilot(self._sample, self._full, params)
        if not is_concentrated(self._sample, start.params):
            return start
        params, passes = start.params, start.passes
        del start  # a matrix that the next sample does not need
        diagonal = hessian_diagonal(self._sample, params)
        self._density = RowDensity(
            self._full, row_influence(self._full, params, diagonal)
        )
        # Uneven rows need more of them, as long as a Hessian stays below a pass.
        affordable = int(self._full.n_rows / self._sample.hessian_cost)
        size = max(self._size, min(affordable, _GROWTH * self._size))
        self._draw(min(size, self._max_size))
        last = minimize_part(self._sample, self._full, params)
        return Start(last.params, passes + 1.0 + last.passes, last.model)

    def reduce(self, evaluation: Evaluation) -> Reduction:
        """Calibrate the weights, or add a linear term where that is impossible."""
        sample = self._sample
        slopes = sample.slopes(evaluation.params)
        gradient, weights = evaluation.gradient, None
        if self._is_calibration_cheap:
            weights = calibrate(sample.rows, slopes, sample.weights, gradient.ravel())
        if weights is not None:
            measure = Measure(self._indices, weights)
            return Reduction(sample.reweighted(weights), measure)
        slope = gradient - sample.rows.T @ slopes
        damping = prior(self._full.design, self._full.n_rows)
        return Reduction(sample.tilted(evaluation.params, slope, damping), None)

    def enlarge(self) -> bool:
        """Draw more rows; false if there are not many more to draw."""
        if not self._can_grow:
            return False
        self._draw(min(_GROWTH * self._size, self._max_size))
        return True

    @property
    def _can_grow(self):
        return 2 * self._size <= self._max_size


class RecombinedGroups:
    """Groups of consecutive rows, recombined so that their gradient sums match."""

    group_rows = _GROUP_ROWS
    accuracy = _ACCURACY

    def __init__(self, problem: Problem, method: str, rng):
        self._full = problem
        self._method = method
        self._rng = rng
        self._size = _GROUPS_PER_MOMENT * (problem.n_coords + 1)
        self._starter = CalibratedSample(problem, rng)

    def start(self, params) -> Start:
        """Minimise on ever larger parts of a sample, from zeros."""
        start = self._starter.start(params)
        return Start(start.params, start.passes)

    def reduce(self, evaluation: Evaluation) -> Reduction | None:
        """Recombine the groups of the evaluation."""
        full, groups = self._full, evaluation.groups
        try:
            indices, weights = recombine_groups(
                groups.sums,
                groups.masses,
                groups.offsets,
                full.weights,
                method=self._method,
                target_size=self._size,
                random_state=self._rng,
            )
        except RecombinationError:
            return None
        rows = full.design.take(indices, keep_sparse=True)
        target = full.target[indices]
        problem = ReducedProblem(rows, target, weights, full.loss, full.penalty)
        return Reduction(problem, Measure(indices, weights))

    def enlarge(self) -> bool:
        """Keep more groups; false if that would keep most of the rows."""
        if _GROWTH * self._size * _GROUP_ROWS > _MAX_SHARE * self._full.n_rows:
            return False
        self._size *= _GROWTH
        return True
