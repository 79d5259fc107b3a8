r"""What a search reads: which columns, and in which precision.

Columns of a fold whose penalties hardly matter have nearly the same solution. Far from
it, where only the sample is in the way, one of them is read for all: with the Hessian
:math:`H` of its model the gradients of the others are

.. math:: \nabla f(p) \approx \nabla f(q) + H (p - q) ,

wrong by what the model is wrong about so short a way. No score is made from that.

Gradients may be summed in single precision. How wrong they are then is measured on the
sample; entries wrong by at most :math:`e` make a score with the slope :math:`V` wrong
by at most :math:`e\, \|H^{-1} V\|_1`, which is counted.
"""

from collections.abc import Generator
from typing import Any

import numpy as np

from skcara.passes import EvaluateFolds
from skcara.solvers.paths._fold_column import Column, TestSet
from skcara.solvers.paths._fold_problems import FoldProblems
from skcara.solvers.paths._fold_sample import FoldSample

# Single precision is for tolerances far above its noise, for well-conditioned problems
# whose conditioning is cheap to check, and for the first reads: a search that needs
# more has difficulties enough.
_MIN_SINGLE_TOL, _MIN_SINGLE_EIGENVALUE = 1e-6, 1e-4
_MAX_SINGLE_COORDS, _MAX_SINGLE_READS = 400, 5
# Errors of gradients on all rows are averages of more terms than those on a sample, in
# other sums; and what share of the tolerance they may have in a read that decides.
_NOISE_FACTOR, _MAX_NOISE_SHARE = 2.0, 0.01
# By which a violation is expected to fall from one read to the next.
_EXPECTED_CONTRACTION = 0.05
# Decrease expected of a step after which scores are expected to be accurate, and the
# share of columns that are read for others from which on it is waited for.
_NEAR, _FEW_LEADERS = 1e-6, 0.7
# Root mean square of the changes of predictions between columns one of which is read
# for both: what a sample gets wrong is some hundredths, and its share of this nothing.
_SHARED_REACH = 1e-3


class FoldReads:
    """Reads for all columns that are not done.

    Parameters
    ----------
    problems : FoldProblems
    tol : float
    """

    def __init__(self, problems: FoldProblems, tol: float):
        self._problems, self._full, self._tol = problems, problems.all_rows, tol
        # Largest error of an entry of a gradient in single precision.
        self._noise = np.inf

    def measure_noise(self, sample: FoldSample, weakest: list[Column]) -> None:
        """Measure the noise of single precision, if it may be used.

        It is multiplied by the inverse Hessian; directions without curvature belong to
        constants added to all classes, where nothing depends on it.

        Parameters
        ----------
        sample : FoldSample
        weakest : list of Column
            Those with the least penalties.
        """
        full = self._full
        if full.facts.is_sparse or full.n_coords > _MAX_SINGLE_COORDS:
            return
        if self._tol < _MIN_SINGLE_TOL:
            return
        n_flat = full.n_params if full.n_outputs > 1 else 0
        noises = []
        for column in weakest:
            predictions = sample.rows @ column.params
            hessian = sample.hessian(predictions, sample.weights[column.fold])
            if np.linalg.eigvalsh(hessian)[n_flat] < _MIN_SINGLE_EIGENVALUE:
                return
            noises.append(sample.single_noise(column.params, column.fold))
        self._noise = _NOISE_FACTOR * max(noises)

    def read(
        self, active: list[Column], n_round: int, *, has_all_rows: bool, beside: list
    ) -> Generator[Any, Any, list]:
        """Tell the columns their gradients, and what their test sets say in time.

        Returns
        -------
        answers : list
            To the requests that are read ``beside``.
        """
        problems = self._problems
        is_single = n_round < _MAX_SINGLE_READS and np.isfinite(self._noise)
        # Where columns are nearly dependent models are worth less, and gradients that
        # follow from them lead them astray.
        leaders = _leaders(active) if is_single else active
        decides = has_all_rows or not problems.has_test
        decides = decides or self._expects_scores(active, leaders)
        if decides:
            is_single &= self._is_decisive and not any(one.is_noisy for one in active)
            leaders = active
        with_test = decides and problems.has_test
        folds = np.array([column.fold for column in leaders])
        task = EvaluateFolds(
            problems.coordinates,
            problems.loss,
            problems.sets,
            np.array([column.params for column in leaders]),
            folds,
            with_test,
            problems.test_factors,
            is_single,
        )
        sums, *answers = yield [task, *beside]
        gradients = sums.gradients / problems.train_weights[folds][:, None, None]
        noise = self._noise if is_single else 0.0
        if not with_test:
            for column, gradient in _followers(active, leaders, gradients):
                column.learn(gradient, None, noise)
            return answers
        weights = problems.test_weights[folds]
        for position, column in enumerate(active):
            weight = weights[position]
            loss = float(sums.test_losses[position] / weight)
            test = TestSet(loss, sums.test_gradients[position] / weight)
            column.learn(gradients[position], test, noise)
        return answers

    def _expects_scores(self, active, leaders):
        """Whether some column may be done after the next read."""
        near = [
            column
            for column in active
            if column.anchor is not None
            and column.anchor.stop_value <= self._tol / _EXPECTED_CONTRACTION
        ]
        if len(leaders) <= _FEW_LEADERS * len(active):
            # Another read of the leaders costs less than one of all for a few.
            near = [column for column in near if column.predicted <= _NEAR]
        return bool(near)

    @property
    def _is_decisive(self):
        """Whether violations in single precision can be compared with the tolerance."""
        coordinates = self._full.coordinates
        largest = np.max(coordinates.scale + np.abs(coordinates.shift), initial=1.0)
        return self._noise * largest <= _MAX_NOISE_SHARE * self._tol


def _leaders(active):
    """Columns from which all others of their fold are not far, weak penalties first."""
    leaders: dict[int, list[Column]] = {}
    for column in reversed(active):
        own = leaders.setdefault(column.fold, [])
        if not any(_distance(column, other) <= _SHARED_REACH for other in own):
            own.append(column)
    return [column for own in leaders.values() for column in own]


def _followers(active, leaders, gradients):
    """Yield all columns with their gradients, or those that follow from a leader's."""
    for column in active:
        own = [(_distance(column, one), i) for i, one in enumerate(leaders)]
        _, position = min(pair for pair in own if np.isfinite(pair[0]))
        leader, gradient = leaders[position], gradients[position]
        way = (column.params - leader.params).ravel()
        if way.any():
            change = leader.model.matrix @ way
            _, l2, _ = leader.problem.penalty.flat(leader.problem.n_outputs)
            gradient = gradient + (change - l2 * way).reshape(gradient.shape)
        yield column, gradient


def _distance(column, leader):
    """Root mean square of the change of predictions, up to a factor of at most two."""
    if column.fold != leader.fold:
        return np.inf
    way = (column.params - leader.params).ravel()
    return np.sqrt(max(way @ leader.model.matrix @ way, 0.0))
