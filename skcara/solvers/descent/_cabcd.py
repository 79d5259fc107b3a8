r"""CaBCD: block coordinate descent whose steps are mostly taken on reduced measures.

Algorithms 2 and 3 of the article, corrected, and all the block rules of its comparison.
The blocks of a round start from the same anchor; each recombines the data into at most
``block_size + 1`` rows with the full gradient of the block. For the squared loss the
second moments of small blocks are matched as well, which makes the reduced problem of a
block exact: its steps end at the block's minimum.

References
----------
.. [1] F. Cosentino, H. Oberhauser and A. Abate, "Carathéodory Sampling for Stochastic
   Gradient Descent", arXiv:2006.01819.
.. [2] J. Nutini, I. Laradji and M. Schmidt, "Let's Make Block Coordinate Descent
   Converge Faster", Journal of Machine Learning Research 23 (2022), arXiv:1712.08859.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from skcara.blocks import (
    PARTITIONS,
    SELECTIONS,
    check_rule,
    make_candidates,
    resolve_fraction,
)
from skcara.data import random_generator
from skcara.solvers.descent._block_descent import (
    BlockDescent,
    iterate_block_descent,
)
from skcara.solvers.descent._control import resolve_control
from skcara.solvers.descent._curvature import BoundedCurvature
from skcara.solvers.descent._group_moments import GroupedCurvature
from skcara.solvers.descent._policy import DescentPolicy
from skcara.solvers.descent._reduction import (
    balanced_group_rows,
    can_match_second_order,
    n_second_order,
)

# The article's cap of the steps on the measure of a block.
_AUTO_INNER_STEPS = 100


@dataclass(frozen=True)
class CabcdOptions:
    """Parameters of CaBCD, as users give them.

    Attributes
    ----------
    recombination : str or None
        Method, or None for plain block coordinate descent.
    block_size : int
        Coordinates per block.
    partition, selection : str
        Names of a valid rule of :mod:`skcara.blocks`.
    fraction : "auto", float or None
        Share that moves in a round; None for one block.
    direction : {"auto", "gradient", "Lb", "Hb"}
        Step of a block; auto follows the gradient if there is a step size, otherwise
        it scales the coordinates by their curvature.
    step_size : "auto" or float
        See :func:`skcara.solvers.descent._block_steps.make_steps`.
    momentum : float
        Heavy-ball factor.
    control : str
        Control statistic or ``"auto"``.
    max_inner_iter : "auto" or int
        Most steps on one measure.
    """

    recombination: str | None = "auto"
    block_size: int = 2
    partition: str = "VB"
    selection: str = "GS"
    fraction: str | float | None = "auto"
    direction: str = "auto"
    step_size: str | float = "auto"
    momentum: float = 0.0
    control: str = "auto"
    max_inner_iter: str | int = "auto"


def iterate_cabcd(problem, params, options, seed, *, n_jobs=None):
    """Yield rounds of CaBCD.

    Parameters
    ----------
    problem : Problem
        The full data.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    options : CabcdOptions
        Parameters of the solver.
    seed : int or numpy.random.RandomState
        Of random blocks and of the seeds of the recombination.
    n_jobs : int, optional
        Threads.

    Yields
    ------
    Request or Round
    """
    check_rule(options.partition, options.selection)
    policy, rng = make_policy(problem, options), random_generator(seed)
    method, group_rows = options.recombination, None
    make_curvature: Callable[..., BoundedCurvature] = BoundedCurvature
    block_size = min(options.block_size, problem.n_coords)
    if method is not None and policy.gains_from_reduction:
        n_statistics = block_size
        if problem.loss.is_quadratic and policy.needs_hessian:
            if can_match_second_order(block_size):
                n_statistics = n_second_order(block_size)
        group_rows = balanced_group_rows(problem, n_statistics)
        if n_statistics > block_size:
            make_curvature = partial(GroupedCurvature, group_rows=group_rows)
    yield from iterate_block_descent(
        BlockDescent(problem, policy, method, make_curvature, group_rows, n_jobs),
        params,
        _Selector(options, rng),
        rng,
    )


def make_policy(problem, options):
    """How blocks move, from the options that users give."""
    direction, max_inner_iter = options.direction, options.max_inner_iter
    if direction == "auto" and options.step_size != "auto":
        direction = "gradient"
    if max_inner_iter == "auto":
        max_inner_iter = _AUTO_INNER_STEPS
    return DescentPolicy(
        direction=direction,
        step_size=options.step_size,
        control=resolve_control(options.control, problem.loss),
        momentum=options.momentum,
        max_inner_iter=max_inner_iter,
    )


class _Selector:
    """The blocks of a round, chosen by the smallest subgradient.

    The rule is made at the first call: the partitions that sort need a pass, which is
    not worth its cost if the starting point is optimal.
    """

    def __init__(self, options, rng):
        self._options = options
        self._rng = rng
        self._rule = None

    def __call__(self, descent, evaluation):
        """Return the blocks of a round; a generator of requests."""
        subgradient = smallest_subgradient(descent.problem.penalty, evaluation)
        if not subgradient.any():
            return []
        if self._rule is None:
            self._rule = yield from self._make_rule(descent)
        return self._rule.select(subgradient.ravel(), descent.curvature, self._rng)

    def _make_rule(self, descent):
        """Make the rule, and load all the curvature that it will ever ask for."""
        options, curvature = self._options, descent.curvature
        if PARTITIONS[options.partition].needs_lipschitz:
            yield from curvature.load_lipschitz()
        candidates = make_candidates(
            options.partition, descent.problem.n_coords, options.block_size, curvature
        )
        fraction = resolve_fraction(
            options.fraction, options.partition, options.selection
        )
        rule = SELECTIONS[options.selection](candidates, fraction)
        if rule.needs_lipschitz:
            yield from curvature.load_lipschitz()
        yield from curvature.load_blocks(rule.needed_blocks())
        return rule


def smallest_subgradient(penalty, evaluation):
    """Element of the subdifferential that is closest to zero, coordinate by coordinate.

    Its size is the violation of the optimality conditions; minus its sign is the
    direction in which the coordinate would move.
    """
    params, slope = evaluation.params, evaluation.smooth_gradient
    away = slope + np.sign(params) * penalty.l1
    return np.copysign(penalty.violation(params, slope), away)
