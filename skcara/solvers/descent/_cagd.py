r"""CaGD: gradient descent whose steps are mostly taken on a reduced measure.

Algorithm 1 of the article, corrected. At an anchor the data are recombined into at most
``n_coords + 1`` rows with the full gradient; steps on these rows go on while a control
statistic of the full objective decreases (:mod:`skcara.solvers.descent._control`); the
next pass is the next anchor. In this package it is block descent with all the
coordinates in one block. The recombination is cubic in their number: for more than a
few dozen coordinates use CaBCD.

References
----------
.. [1] F. Cosentino, H. Oberhauser and A. Abate, "Carathéodory Sampling for Stochastic
   Gradient Descent", arXiv:2006.01819.
"""

from dataclasses import dataclass

import numpy as np

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


def iterate_cagd(problem, params, options, rng, *, n_jobs=None):
    """Yield rounds of CaGD.

    Parameters
    ----------
    problem : Problem
        The full data.
    params : ndarray of shape (n_params, n_outputs)
        Starting point.
    options : CagdOptions
        Parameters of the solver.
    rng : numpy.random.RandomState
        Seeds the randomised recombination methods.
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
        max_inner_iter=resolve_inner_iter(options),
    )
    method, group_rows = options.recombination, None
    if method is not None and policy.gains_from_reduction:
        group_rows = balanced_group_rows(problem, problem.n_coords)
    yield from iterate_block_descent(
        BlockDescent(problem, policy, method, BoundedCurvature, group_rows, n_jobs),
        params,
        _select_everything,
        rng,
    )


def _select_everything(descent, evaluation):
    """One block of all coordinates; a generator of requests, as all selections are."""
    yield from ()
    everything = np.arange(descent.problem.n_coords)
    return [everything] if evaluation.violation.any() else []


def resolve_inner_iter(options):
    """Most steps on one measure; the article's ``min(10 / step_size, 10000)``."""
    if options.max_inner_iter != "auto":
        return options.max_inner_iter
    if options.step_size == "auto":
        return _AUTO_INNER_STEPS
    return max(1, min(int(10 / options.step_size), _MOST_INNER_STEPS))
