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

from dataclasses import dataclass, replace

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from skcara.objective import Evaluation
from skcara.recombination import RecombinationError
from skcara.solvers._block_steps import make_steps
from skcara.solvers._control import (
    GUARANTEED,
    Secant,
    control_matrix,
    secant_curvature,
)
from skcara.solvers._inner import BlockModel, InnerResult, run_inner_loop
from skcara.solvers._rounds import Measure, Round
from skcara.solvers._safeguard import Move, Synchroniser


@dataclass(frozen=True)
class DescentPolicy:
    """How blocks move, with every ``"auto"`` resolved except that of the step.

    Attributes
    ----------
    direction : {"auto", "gradient", "Lb", "Hb"}
        See :mod:`skcara.solvers._steps`.
    step_size : "auto" or float
        See :func:`skcara.solvers._block_steps.make_steps`.
    control : str
        A name in ``CONTROLS``.
    momentum : float
        Heavy-ball factor.
    max_inner_iter : int
        Most steps on one measure.
    """

    direction: str
    step_size: str | float
    control: str
    momentum: float
    max_inner_iter: int

    @property
    def needs_hessian(self):
        """Whether a block's Hessian bound is used by the step or the control."""
        is_free = self.direction == "gradient" and self.step_size != "auto"
        return not is_free or self.control in GUARANTEED

    @property
    def gains_from_reduction(self):
        """Whether steps after the first one can be accepted.

        The first proximal Newton step minimises the block-hessian statistic, so that
        no later step can lower it.
        """
        is_minimal = self.direction == "Hb" and self.control == "block-hessian"
        return self.max_inner_iter > 1 and not is_minimal


@dataclass(frozen=True)
class _Anchor:
    """What all blocks of a round start from."""

    evaluation: Evaluation
    secant: Secant | None
    curvature: float | None
    reduce: bool


@dataclass(frozen=True)
class _BlockOutcome:
    """What one block did in a round."""

    result: InnerResult
    measure: Measure | None
    predicted: float


class BlockDescent:
    """Moves of blocks from a common anchor.

    Parameters
    ----------
    problem : Problem
        The full data.
    policy : DescentPolicy
        How blocks move.
    curvature : BoundedCurvature
        Bounds of the second derivatives.
    reducer : BlockReducer or None
        Source of reduced measures; None for plain descent.
    """

    def __init__(self, problem, policy, curvature, reducer):
        self.problem = problem
        self.policy = policy
        self.curvature = curvature
        self.reducer = reducer
        self.velocity = np.zeros(problem.n_coords)
        # Of the coordinates that moved; the others do not enter a secant.
        self._metric = np.ones(problem.n_coords)
        self._l1 = np.repeat(problem.penalty.l1[:, 0], problem.n_outputs)
        self._l2 = np.repeat(problem.penalty.l2[:, 0], problem.n_outputs)
        self._positive = np.repeat(problem.penalty.positive[:, 0], problem.n_outputs)
        self._is_shift_invariant = problem.n_outputs > 1 and problem.penalty.is_smooth

    def move_blocks(self, evaluation, blocks, *, secant, seeds, reduce):
        """Let every block move on its own.

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
            hessians = self.curvature.moving_hessians(blocks)
        curvature = None
        if secant is not None:
            curvature = secant_curvature(secant, self._metric)
        anchor = _Anchor(evaluation, secant, curvature, reduce)
        tasks = [
            (anchor, block, hessian, seed)
            for block, hessian, seed in zip(blocks, hessians, seeds, strict=True)
        ]
        n_jobs = self.problem.design.n_jobs
        if reduce and len(tasks) > 1 and effective_n_jobs(n_jobs) > 1:
            pool = Parallel(n_jobs=n_jobs, require="sharedmem")
            return pool(delayed(self._move_block)(*task) for task in tasks)
        return [self._move_block(*task) for task in tasks]

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

    def _move_block(self, anchor, block, hessian, seed):
        policy, evaluation, secant = self.policy, anchor.evaluation, anchor.secant
        l1, positive = self._l1[block], self._positive[block]
        steps = make_steps(policy, hessian, l1, positive)
        self._metric[block] = steps.metric
        control = control_matrix(
            policy.control,
            metric=steps.metric,
            hessian=hessian,
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
        measure, reduced = None, None
        if anchor.reduce and control is not None:
            measure, reduced = self._reduce(evaluation, block, seed)
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
        return _BlockOutcome(result, measure, predicted)

    def _reduce(self, evaluation, block, seed):
        try:
            return self.reducer.reduce(evaluation, block, seed)
        except RecombinationError:
            return None, None

    def _later_step(self, steps, reduced, l2):
        if reduced is None:
            return steps.first
        if steps.later_factor is not None:
            return steps.first.scaled(steps.later_factor)
        bound = reduced.hessian_bound(self.curvature.output_bound)
        return steps.safe(bound + np.diag(l2))


def iterate_block_descent(descent, params, select, group_rows, rng):
    """Rounds of block descent.

    Parameters
    ----------
    descent : BlockDescent
        How blocks move.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    select : callable
        ``select(evaluation)``: the blocks of a round.
    group_rows : int or None
        Rows of a group of the recombination's first level.
    rng : numpy.random.RandomState
        Source of the blocks' seeds.

    Yields
    ------
    round : Round
        After the evaluation of each new anchor.
    """
    problem, curvature = descent.problem, descent.curvature
    synchroniser = Synchroniser(
        lambda point: problem.evaluate(point, group_rows=group_rows)
    )
    evaluation, secant = synchroniser.start(params), None
    tally = _Tally(problem.n_rows)
    yield Round(evaluation, passes=synchroniser.passes + curvature.passes)
    while blocks := select(evaluation):
        seeds = rng.randint(np.iinfo(np.int32).max, size=len(blocks))
        tally.start_round()
        # If all moves fail, plain steps without momentum are tried before giving up.
        for reduce in (descent.reducer is not None, False):
            outcomes = descent.move_blocks(
                evaluation, blocks, secant=secant, seeds=seeds, reduce=reduce
            )
            tally.count(outcomes)
            move = descent.joint_move(evaluation, blocks, outcomes)
            following, was_shortened = synchroniser.advance(evaluation, move)
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
            passes=synchroniser.passes + curvature.passes + tally.passes,
            n_recombinations=tally.n_recombinations,
            inner_steps=tally.inner_steps,
            measure=tally.measure,
        )


class _Tally:
    """What reduced measures cost and gave.

    Attributes
    ----------
    passes : float
        Rows of measures read by attempted steps, as a share of the data.
    n_recombinations : int
        Measures since the start.
    inner_steps, measure : int, Measure or None
        Accepted steps and last measure of the round.
    """

    def __init__(self, n_rows):
        self._n_rows = n_rows
        self.passes, self.n_recombinations = 0.0, 0
        self.start_round()

    def start_round(self):
        self.inner_steps, self.measure = 0, None

    def count(self, outcomes):
        for outcome in outcomes:
            if outcome.measure is None:
                continue
            self.measure = outcome.measure
            self.n_recombinations += 1
            self.inner_steps += outcome.result.accepted
            n_atoms = len(outcome.measure.indices)
            self.passes += outcome.result.attempted * n_atoms / self._n_rows


def _update_velocity(velocity, blocks, outcomes, was_shortened):
    if was_shortened:
        # What the blocks remember did not happen.
        velocity[:] = 0.0
        return
    for block, outcome in zip(blocks, outcomes, strict=True):
        velocity[block] = outcome.result.velocity
