r"""Rounds of block descent: the loop that CaGD and CaBCD share.

A round at the anchor :math:`a`, where the last pass gave the full gradient:

1. choose blocks of coordinates (CaGD: one block of all coordinates);
2. for every block, independently and from the same anchor: recombine the data for the
   block, then step on the few atoms while the control statistic decreases;
3. put the blocks' moves together and evaluate the full data there; shorten the joint
   move if the objective rose.

Without a recombination method, step 2 is the one step that the full gradient pays for
and the same loop is plain (block coordinate) gradient descent. A recombination that
fails has the same effect on its block.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from skcara.data import Threads
from skcara.objective import Evaluation
from skcara.passes import evaluate_first
from skcara.recombination import RecombinationError
from skcara.solvers._rounds import Measure, Round
from skcara.solvers.descent._block_steps import make_steps
from skcara.solvers.descent._control import (
    Secant,
    control_matrix,
    secant_curvature,
)
from skcara.solvers.descent._curvature import BoundedCurvature
from skcara.solvers.descent._inner import BlockModel, InnerResult, run_inner_loop
from skcara.solvers.descent._reduction import BlockReducer
from skcara.solvers.descent._safeguard import Move, Synchroniser


@dataclass(frozen=True)
class _Anchor:
    """What all blocks of a round start from."""

    evaluation: Evaluation
    secant: Secant | None
    curvature: float | None


@dataclass(frozen=True)
class _BlockOutcome:
    """What one block did in a round."""

    result: InnerResult
    measure: Measure | None
    predicted: float
    metric: np.ndarray


class BlockDescent:
    """Moves of blocks from a common anchor.

    Parameters
    ----------
    problem : Problem
        The full data.
    policy : DescentPolicy
        How blocks move.
    method : str or None
        Recombination method.
    make_curvature : callable
        ``make_curvature(problem)``: bounds of the second derivatives.
    group_rows : int or None
        Rows of a group of the recombination's first level; None for plain descent.
    n_jobs : int or None
        Threads that work on blocks.

    Attributes
    ----------
    curvature : BoundedCurvature
    reducer : BlockReducer or None
        Builds reduced measures; None for plain descent.
    velocity : ndarray of shape (n_coords,)
        Last move, for the momentum.
    """

    def __init__(
        self, problem, policy, method, make_curvature: Callable, group_rows, n_jobs
    ):
        self.problem = problem
        self.policy = policy
        self.group_rows = group_rows
        self._method, self._make_curvature = method, make_curvature
        self._threads = Threads(n_jobs)
        self.curvature: BoundedCurvature  # made at the start
        self.reducer: BlockReducer | None = None
        self.velocity = np.zeros(problem.n_coords)
        # Of the coordinates that moved; the others do not enter a secant.
        self._metric = np.ones(problem.n_coords)
        self._l1, self._l2, self._positive = problem.penalty.flat(problem.n_outputs)
        self._is_shift_invariant = problem.n_outputs > 1 and problem.penalty.is_smooth

    def start(self, params):
        """Evaluate the starting point; a generator of requests."""
        self.problem, evaluation = yield from evaluate_first(
            self.problem, params, self.group_rows
        )
        self.curvature = self._make_curvature(self.problem)
        if self.group_rows is not None:
            self.reducer = BlockReducer(self.problem, self._method, self.curvature)
        return evaluation

    def move_blocks(self, evaluation, blocks, *, secant, seeds, reduce):
        """Let every block move on its own; a generator of requests.

        Parameters
        ----------
        evaluation : Evaluation
            At the anchor, with group sums if measures are to be reduced.
        blocks : list of ndarray
            Disjoint sets of flat coordinates.
        secant : Secant or None
            Differences between the last two anchors.
        seeds : sequence of int
            One for each block, so that the number of threads changes nothing.
        reduce : bool
            Whether to use reduced measures.

        Returns
        -------
        outcomes : list of _BlockOutcome
            One for each block.
        """
        hessians = [None] * len(blocks)
        if self.policy.needs_hessian:
            yield from self.curvature.load_moving(blocks)
            hessians = self.curvature.moving_hessians(blocks)
        curvature = None
        if secant is not None:
            curvature = secant_curvature(secant, self._metric)
            secant = None if curvature is None else secant
        anchor = _Anchor(evaluation, secant, curvature)
        reductions = [(None, None)] * len(blocks)
        # Without a control only one step can be taken, and that is the full one.
        can_reduce = self.policy.needs_hessian or secant is not None
        if reduce and can_reduce and self.reducer is not None:
            reductions = yield from self._reduce(
                self.reducer, evaluation, blocks, seeds
            )
        outcomes = self._map(
            self._move_block,
            [
                (anchor, block, hessian, *reduction)
                for block, hessian, reduction in zip(
                    blocks, hessians, reductions, strict=True
                )
            ],
            in_threads=reduce,
        )
        for block, outcome in zip(blocks, outcomes, strict=True):
            self._metric[block] = outcome.metric
        return outcomes

    def _reduce(self, reducer: BlockReducer, evaluation, blocks, seeds):
        """Measure and reduced gradient of each block, None where there is none."""
        pairs = list(zip(blocks, seeds, strict=True))
        survivors = self._map(
            _choose_groups, [(reducer, evaluation, *pair) for pair in pairs]
        )
        found = [number for number, one in enumerate(survivors) if one is not None]
        taken = yield [
            reducer.request(survivors[number], evaluation, blocks[number])
            for number in found
        ]
        measures = self._map(
            _choose_atoms,
            [
                (reducer, survivors[number], rows, *pairs[number])
                for number, rows in zip(found, taken, strict=True)
            ],
        )
        reductions = [(None, None)] * len(blocks)
        for number, measure in zip(found, measures, strict=True):
            reductions[number] = measure
        return reductions

    def _map(self, function, arguments, *, in_threads=True):
        """Apply a function to all arguments, in threads where that may pay."""
        if not in_threads:
            return [function(*own) for own in arguments]
        mapped = self._threads.map(
            lambda own: function(*own), arguments, min_items=1, kind=function
        )
        return list(mapped)

    def joint_move(self, evaluation, blocks, outcomes):
        """Put the moves of all blocks together.

        Parameters
        ----------
        evaluation : Evaluation
            At the anchor.
        blocks : list of ndarray
            Disjoint sets of flat coordinates.
        outcomes : list of _BlockOutcome
            What the blocks did.

        Returns
        -------
        move : Move
            Of all blocks, and of the most promising one alone.
        """
        anchor = evaluation.params.ravel()
        displacement, best = np.zeros_like(anchor), np.zeros_like(anchor)
        most_promising = int(np.argmin([outcome.predicted for outcome in outcomes]))
        for number, (block, outcome) in enumerate(zip(blocks, outcomes, strict=True)):
            displacement[block] = outcome.result.params - anchor[block]
            if number == most_promising:
                best[block] = displacement[block]
        shape = evaluation.params.shape
        displacement = displacement.reshape(shape)
        if self._is_shift_invariant:
            # Adding a number to all outputs of a row changes the ridge only, which is
            # smallest for mean zero. Blocks of single outputs would creep there.
            moved = evaluation.params + displacement
            has_ridge = self.problem.penalty.l2 > 0
            displacement -= np.where(has_ridge, moved.mean(axis=1, keepdims=True), 0.0)
        return Move(displacement, best.reshape(shape))

    def _move_block(self, anchor, block, hessian, measure, reduced):
        policy, evaluation, secant = self.policy, anchor.evaluation, anchor.secant
        l1, positive = self._l1[block], self._positive[block]
        steps = make_steps(policy, hessian, l1, positive)
        control = control_matrix(
            policy.control,
            metric=steps.metric,
            hessian=hessian,
            bound=steps.lipschitz,
            secant=None if secant is None else secant.restrict(block),
            curvature=anchor.curvature,
        )
        model = BlockModel(
            anchor=evaluation.params.ravel()[block],
            gradient=evaluation.smooth_gradient.ravel()[block],
            control=control,
            l1=l1,
            l2=self._l2[block],
        )
        result = run_inner_loop(
            model,
            (steps.first, self._later_step(steps, reduced, model.l2)),
            reduced=reduced,
            max_iter=policy.max_inner_iter,
            momentum=policy.momentum,
            velocity=self.velocity[block],
        )
        if result.accepted == 0 and policy.max_inner_iter > 0:
            # The statistic refuses even the full step, which is paid for: take it
            # and let the full objective judge.
            plain = replace(model, control=None)
            full = run_inner_loop(plain, (steps.first, steps.first))
            result = replace(full, accepted=0, attempted=result.attempted)
        predicted = float(model.gradient @ (result.params - model.anchor))
        return _BlockOutcome(result, measure, predicted, steps.metric)

    def _later_step(self, steps, reduced, l2):
        if reduced is None:
            return steps.first
        if steps.later_factor is not None:
            return steps.first.scaled(steps.later_factor)
        bound = reduced.hessian_bound(self.curvature.output_bound)
        return steps.safe(bound + np.diag(l2))


def _choose_groups(reducer, evaluation, block, seed):
    try:
        return reducer.choose_groups(evaluation, block, seed)
    except RecombinationError:
        return None


def _choose_atoms(reducer, survivors, taken, block, seed):
    try:
        return reducer.choose_atoms(survivors, taken, block, seed)
    except RecombinationError:
        return None, None


def iterate_block_descent(descent, params, select, rng):
    """Yield rounds of block descent.

    Parameters
    ----------
    descent : BlockDescent
        How blocks move.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    select : callable
        ``select(descent, evaluation)``, a generator of requests that returns the
        blocks of a round.
    rng : numpy.random.RandomState
        Source of the blocks' seeds.

    Yields
    ------
    Request or Round
        Rounds after the evaluation of each new anchor.
    """
    evaluation, secant = (yield from descent.start(params)), None
    synchroniser = Synchroniser(descent.problem, descent.group_rows)
    yield Round(evaluation)
    while blocks := (yield from select(descent, evaluation)):
        seeds = rng.randint(np.iinfo(np.int32).max, size=len(blocks))
        tally = _Tally()
        # If all moves fail, plain steps without momentum are tried before giving up.
        for reduce in (descent.reducer is not None, False):
            outcomes = yield from descent.move_blocks(
                evaluation, blocks, secant=secant, seeds=seeds, reduce=reduce
            )
            tally.count(outcomes)
            move = descent.joint_move(evaluation, blocks, outcomes)
            following, was_shortened = yield from synchroniser.advance(evaluation, move)
            if following is not None:
                break
            descent.velocity[:] = 0.0
        else:
            return
        _update_velocity(descent.velocity, blocks, outcomes, was_shortened)
        if np.any(following.params != evaluation.params):
            secant = Secant.between(evaluation, following)
        evaluation = following
        yield Round(
            evaluation,
            reduced_rows=tally.reduced_rows,
            n_recombinations=tally.n_recombinations,
            inner_steps=tally.inner_steps,
            measure=tally.measure,
        )


class _Tally:
    """What the reduced measures of a round cost and gave.

    Attributes
    ----------
    reduced_rows : int
        Rows of measures read by attempted steps.
    n_recombinations, inner_steps : int
        Measures, and accepted steps on them.
    measure : Measure or None
        The last one.
    """

    def __init__(self):
        self.reduced_rows = self.n_recombinations = self.inner_steps = 0
        self.measure = None

    def count(self, outcomes):
        for outcome in outcomes:
            if outcome.measure is None:
                continue
            self.measure = outcome.measure
            self.n_recombinations += 1
            self.inner_steps += outcome.result.accepted
            self.reduced_rows += outcome.result.attempted * len(outcome.measure.indices)


def _update_velocity(velocity, blocks, outcomes, was_shortened):
    if was_shortened:
        # What the blocks remember did not happen.
        velocity[:] = 0.0
        return
    for block, outcome in zip(blocks, outcomes, strict=True):
        velocity[block] = outcome.result.velocity
