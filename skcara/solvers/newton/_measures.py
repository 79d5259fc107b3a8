r"""Where reduced measures come from.

A *supply* turns an evaluation of the full data into a reduced problem whose gradient at
the evaluated point equals the full one. Three of them share one interface:

* :class:`AllRows`: few enough rows are their own reduced measure;
* :class:`CalibratedSample`: a stratified sample, kept over the rounds, whose weights
  are calibrated to every new gradient;
* :class:`RecombinedGroups`: groups of rows chosen by a recombination method, fresh in
  every round.

Their methods are generators that yield requests, as solvers do. ``accuracy`` says how
well the reduced problems are worth solving. ``reduce`` returns ``None`` if the
recombination failed; the solver then takes steps on all rows.
"""

from dataclasses import dataclass

import numpy as np

from skcara.objective import Evaluation, Problem
from skcara.passes import Draw, DrawInfluential, Take, TakenRows
from skcara.recombination import RecombinationError
from skcara.solvers._groups import affordable_group_rows, keep_groups
from skcara.solvers._rounds import Measure
from skcara.solvers._sample_size import (
    can_grow,
    grown,
    max_sampled_rows,
    measure_rows,
    uneven_rows,
)
from skcara.solvers.newton._calibration import TILES_PER_MOMENT, calibrate_rows
from skcara.solvers.newton._concentration import hessian_diagonal, is_concentrated
from skcara.solvers.newton._pilot import Start, minimize_part, prior, run_pilot
from skcara.solvers.newton._reduced import ReducedProblem

# Up to this many entries of a dense array sparse rows become one, because calls for
# sparse ones take longer than the arithmetic: 500 rows of 30 columns, a tenth of them
# entries, take 0.6 of the time, twice as many entries as here 0.8 to 1.2 of it.
_MAX_DENSE_ENTRIES = 2**17
# How well a reduced problem is solved, relative to the distance from its optimum: the
# steps converge fast, and the measure itself is not better than the square of this.
_ACCURACY = 1e-2
# How well the start on uneven rows is solved: a coordinate that hangs on few of them is
# far away when the others have arrived.
_UNEVEN_ACCURACY = 1e-3
# Rows of a group that is recombined as a whole.
_GROUP_ROWS = 32
_GROUPS_PER_MOMENT = 4


@dataclass(frozen=True)
class Reduction:
    """A reduced problem, and the measure behind it (None if all rows are in it)."""

    problem: ReducedProblem
    measure: Measure | None
    is_recombined: bool = False


def reduced_problem(problem: Problem, taken: TakenRows, weights) -> ReducedProblem:
    """The problem on some rows, with these weights."""
    return ReducedProblem(
        taken.rows, taken.target, weights, problem.loss, problem.penalty
    )


def _take_weighted(problem: Problem, indices, factors=1.0, *, keep_sparse=True):
    """Take the rows that have a weight.

    Parameters
    ----------
    problem : Problem
    indices : ndarray of int, ascending
    factors : float or ndarray
        What the weights of the rows are multiplied by.
    keep_sparse : bool
        Whether sparse rows stay so.

    Returns
    -------
    indices : ndarray of int
    reduced : ReducedProblem
    """
    taken = yield Take(problem, indices, keep_sparse=keep_sparse)
    weights = factors * taken.shares
    if not weights.all():
        # Nobody knows what stands in rows of weight zero.
        used = np.flatnonzero(weights)
        indices, weights = indices[used], weights[used]
        taken = TakenRows(*(values[used] for values in taken))
    return indices, reduced_problem(problem, taken, weights)


class AllRows:
    """All rows as a reduced problem of their own, copied once."""

    group_rows = None
    # Further steps cost less than the next round, but few ask for more than this.
    accuracy = 1e-5

    def __init__(self, problem: Problem):
        self._full = problem

    def start(self, params):
        """Minimise on every sixth row, from zeros; the rounds use all of them."""
        full = self._full
        _, self._problem = yield from _take_weighted(
            full,
            np.arange(full.n_rows),
            keep_sparse=full.n_rows * full.n_params > _MAX_DENSE_ENTRIES,
        )
        if params.any():
            return Start(params)
        return run_pilot(self._problem, self._full, params, finest=1)

    def reduce(self, evaluation: Evaluation):
        """Return the problem itself."""
        yield from ()
        return Reduction(self._problem, None)

    def enlarge(self):
        """There is nothing to enlarge, and no need."""
        yield from ()
        return False


class CalibratedSample:
    """A stratified sample of rows, reweighted to carry each full gradient exactly."""

    group_rows = None
    accuracy = _ACCURACY

    def __init__(self, problem: Problem, rng):
        self._full = problem
        self._rng = rng
        self._max_size = max_sampled_rows(problem)
        self._size = min(measure_rows(problem), self._max_size)
        # Where and with which diagonal of the Hessian rows are judged influential.
        self._influence: tuple[np.ndarray, np.ndarray] | None = None
        # Where no positive weights were found once, the next gradient has none either:
        # it is up to the rows that were drawn.
        self._can_calibrate = True
        self._drawn: ReducedProblem | None = None

    @property
    def _sample(self) -> ReducedProblem:
        assert self._drawn is not None, "drawn at the start"
        return self._drawn

    def _draw(self, size):
        full = self._full
        self._size, self._drawn = size, None  # never two samples at once
        self._can_calibrate = True
        request: Draw | DrawInfluential
        if self._influence is None:
            request = Draw(size, self._rng)
        else:
            seed = self._rng.randint(np.iinfo(np.int32).max)
            request = DrawInfluential(full, *self._influence, size, seed)
        self._indices, weights = yield request
        weights = weights / weights.sum()
        taken = yield Take(full, self._indices)
        self._drawn = reduced_problem(full, taken, weights)

    @property
    def _is_calibration_cheap(self):
        """Whether calibration costs less than a pass."""
        n_moments = self._full.n_params * self._full.loss.n_free_outputs + 1
        n_tiles = min(TILES_PER_MOMENT * n_moments, self._sample.n_rows)
        # Products of matrices do this many times more work in the time of a pass.
        work = 16 * self._full.facts.n_entries * self._full.n_outputs
        return n_tiles * n_moments**2 <= work

    def start(self, params):
        """Minimise on ever larger parts of the sample, from zeros."""
        yield from self._draw(self._size)
        start = Start(params)
        if not params.any():
            start = run_pilot(self._sample, self._full, params, finest=1)
        # A part tells at once what the whole sample misses; where it sees nothing of
        # the kind, the whole sample looks again.
        if not is_concentrated(self._sample, start.params):
            if not params.any():
                last = minimize_part(self._sample, self._full, start.params)
                reduced_rows = start.reduced_rows + last.reduced_rows
                start = Start(last.params, reduced_rows, last.model)
            if not is_concentrated(self._sample, start.params):
                return start
        is_warm, params, reduced_rows = params.any(), start.params, start.reduced_rows
        del start  # a matrix that the next sample does not need
        self._influence = params, hessian_diagonal(self._sample, params)
        hessian_cost = self._sample.hessian_cost
        yield from self._draw(uneven_rows(self._full, self._size, hessian_cost))
        if is_warm:
            # Somebody knows more about all rows than a sample does.
            return Start(params, reduced_rows)
        # These rows are new, and the part that was solved knew little of them: from
        # there it is a long way, and on few of them the steps cost little.
        last = run_pilot(self._sample, self._full, params, accuracy=_UNEVEN_ACCURACY)
        return Start(last.params, reduced_rows + last.reduced_rows, last.model)

    def reduce(self, evaluation: Evaluation):
        """Calibrate the weights, or add a linear term where that is impossible."""
        yield from ()
        sample = self._sample
        slopes = sample.slopes(evaluation.params)
        gradient, weights = evaluation.gradient, None
        if self._can_calibrate and self._is_calibration_cheap:
            # What adds up to zero over the outputs of every row, does so in total.
            free = slice(0, sample.loss.n_free_outputs)
            weights = calibrate_rows(
                sample.rows, slopes[:, free], sample.weights, gradient[:, free].ravel()
            )
            self._can_calibrate = weights is not None
        if weights is not None:
            measure = Measure(self._indices, weights)
            return Reduction(sample.reweighted(weights), measure)
        slope = gradient - sample.rows.T @ slopes
        damping = prior(self._full, self._full.n_rows)
        return Reduction(sample.tilted(evaluation.params, slope, damping), None)

    def enlarge(self):
        """Draw more rows; false if there are not many more to draw."""
        if not can_grow(self._size, self._max_size):
            return False
        yield from self._draw(min(grown(self._size), self._max_size))
        return True


class RecombinedGroups:
    """Groups of consecutive rows, recombined so that their gradient sums match."""

    accuracy = _ACCURACY

    def __init__(self, problem: Problem, method: str, rng):
        self.group_rows = affordable_group_rows(problem, _GROUP_ROWS)
        self._full = problem
        self._method = method
        self._rng = rng
        self._size = _GROUPS_PER_MOMENT * (problem.n_coords + 1)
        self._starter = CalibratedSample(problem, rng)

    def start(self, params):
        """Minimise on ever larger parts of a sample, from zeros."""
        start = yield from self._starter.start(params)
        del self._starter  # and its sample
        return Start(start.params, start.reduced_rows)

    def reduce(self, evaluation: Evaluation):
        """Recombine the groups of the evaluation."""
        groups = evaluation.groups
        assert groups is not None, "asked for with group_rows"
        try:
            kept = keep_groups(
                groups.sums,
                groups,
                method=self._method,
                target_size=self._size,
                random_state=self._rng,
            )
        except RecombinationError:
            return None
        indices, problem = yield from _take_weighted(
            self._full, kept.indices, kept.factors
        )
        measure = Measure(indices, problem.weights)
        return Reduction(problem, measure, is_recombined=True)

    def enlarge(self):
        """Keep more groups; false if that would keep most of the rows."""
        yield from ()
        most_rows = max_sampled_rows(self._full, copied=False)
        if grown(self._size) * self.group_rows > most_rows:
            return False
        self._size = grown(self._size)
        return True
