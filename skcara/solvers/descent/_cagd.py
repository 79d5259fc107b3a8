r"""CaGD: gradient descent whose steps are mostly taken on a reduced measure.

Algorithm 1 of the article, corrected. At an anchor the data are recombined into at most
``n_coords + 1`` rows with the full gradient; steps on these rows go on while a control
statistic of the full objective decreases (:mod:`skcara.solvers.descent._control`); the
next pass is the next anchor. In this package it is block descent with all the
coordinates in one block. The recombination is cubic in their number: for more than a
few dozen coordinates use CaBCD. With very many of them and few rows it would cost more
than the passes that it saves; then all steps are taken on the full data.

References
----------
.. [1] F. Cosentino, H. Oberhauser and A. Abate, "Carathéodory Sampling for Stochastic
   Gradient Descent", arXiv:2006.01819.
"""

from dataclasses import dataclass

import numpy as np

from skcara.data import random_generator
from skcara.solvers.descent._block_descent import (
    BlockDescent,
    iterate_block_descent,
)
from skcara.solvers.descent._control import resolve_control
from skcara.solvers.descent._curvature import BoundedCurvature
from skcara.solvers.descent._policy import DescentPolicy
from skcara.solvers.descent._reduction import balanced_group_rows

# Steps of a measure: the article's cap, and what an automatic step can make use of.
_MOST_INNER_STEPS = 10_000
_AUTO_INNER_STEPS = 1000
# A step costs about as much as reading so many entries of X. More of them than a pass
# is worth are no gain.
_STEPS_PER_ENTRY = 0.1
# From this many coordinates on, recombination pays only if the rows are as many as its
# square: it costs about n_coords**3, a pass n_rows * n_coords.
_MANY_COORDS = 100


@dataclass(frozen=True)
class CagdOptions:
    """Parameters of CaGD, as users give them.

    Attributes
    ----------
    recombination : str or None
        Method, or None for plain gradient descent.
    step_size : "auto" or float
        Step of gradient descent; auto takes the inverse curvature of each coordinate.
    momentum : float
        Heavy-ball factor.
    control : str
        Control statistic or ``"auto"``.
    max_inner_iter : "auto" or int
        Most steps on one measure.
    """

    recombination: str | None = "auto"
    step_size: str | float = "auto"
    momentum: float = 0.0
    control: str = "auto"
    max_inner_iter: str | int = "auto"


def iterate_cagd(problem, params, options, seed, *, n_jobs=None):
    """Yield rounds of CaGD.

    Parameters
    ----------
    problem : Problem
        The full data.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    options : CagdOptions
        Parameters of the solver.
    seed : int or numpy.random.RandomState
        Of the randomised recombination methods.
    n_jobs : int, optional
        Threads.

    Yields
    ------
    Request or Round
    """
    policy = DescentPolicy(
        direction="auto" if options.step_size == "auto" else "gradient",
        step_size=options.step_size,
        control=resolve_control(options.control, problem.loss),
        momentum=options.momentum,
        max_inner_iter=resolve_inner_iter(options, problem.facts),
    )
    method, group_rows = options.recombination, None
    is_cheap = problem.n_coords <= max(_MANY_COORDS, np.sqrt(problem.n_rows))
    if method is not None and is_cheap and policy.gains_from_reduction:
        group_rows = balanced_group_rows(problem, problem.n_coords)
    yield from iterate_block_descent(
        BlockDescent(problem, policy, method, BoundedCurvature, group_rows, n_jobs),
        params,
        _select_everything,
        random_generator(seed),
    )


def _select_everything(descent, evaluation):
    """One block of all coordinates; a generator of requests, as all selections are."""
    yield from ()
    everything = np.arange(descent.problem.n_coords)
    return [] if evaluation.optimality == 0 else [everything]


def resolve_inner_iter(options, facts):
    """Most steps on one measure.

    The article takes ``min(10 / step_size, 10000)``; where a pass over all rows costs
    less than that, it is better to look at them sooner.
    """
    if options.max_inner_iter != "auto":
        return options.max_inner_iter
    if options.step_size == "auto":
        return _AUTO_INNER_STEPS
    worthwhile = max(_AUTO_INNER_STEPS, int(_STEPS_PER_ENTRY * facts.n_entries))
    return max(1, min(int(10 / options.step_size), _MOST_INNER_STEPS, worthwhile))
