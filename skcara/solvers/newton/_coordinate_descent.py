r"""Elastic net on a few columns: scikit-learn's compiled coordinate descent.

With weights :math:`\mu` of the rows and the intercept eliminated by centring, the
problem on a working set is

.. math::

    \tfrac1{2N} \|b - A w\|^2 + l1 \|w\|_1 + \tfrac12 l2 \|w\|_2^2 ,

.. math::

    A_i = \sqrt{N \mu_i}\, (x_i - \bar x) , \qquad
    b_i = \sqrt{N \mu_i}\, (y_i - \bar y) ,

which is what :func:`sklearn.linear_model.enet_path` solves. Its answer needs no trust:
the pass over all columns that follows judges it.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path

from skcara.data import Coordinates
from skcara.passes import Take

# scikit-learn's own default; where it is not enough, the next round goes on.
_MAX_EPOCHS = 1000
# Rows per column from which a Gram matrix, at the price of a few epochs, makes those
# that follow cheap enough.
_MIN_GRAM_RATIO = 4


def can_descend(problem) -> bool:
    """Whether a problem is an elastic net, the same for all of its dense columns."""
    penalty, n_features = problem.user_penalty, problem.n_features
    return (
        problem.loss.is_quadratic
        and not problem.facts.is_sparse
        and all(
            np.ptp(strengths[:n_features]) == 0
            for strengths in (penalty.l1, penalty.l2, penalty.positive.view(np.int8))
        )
    )


def descend(problem, features, params, tol):
    """Minimise over some columns by coordinate descent; a generator of requests.

    Parameters
    ----------
    problem : Problem
        On all columns, whose means it knows; see :func:`can_descend`.
    features : ndarray of int
    params : ndarray of shape (n_params, 1)
        Starting point, on all columns.
    tol : float
        Duality gap to reach, relative to the variance of the target.

    Returns
    -------
    params : ndarray of shape (n_params, 1) or None
        None if coordinate descent did not reach the tolerance.
    """
    fit_intercept, penalty = problem.coordinates.fit_intercept, problem.user_penalty
    means, level = np.zeros(problem.n_features), 0.0
    if fit_intercept:
        means, level = problem.column_moments.mean, problem.target_moments.mean
    centred = Coordinates(means, np.ones_like(means), False).restrict(features)
    indices = np.arange(problem.n_rows)
    taken = yield Take(
        problem.with_coordinates(centred), indices, order="F", features=features
    )
    columns, target = taken.rows, taken.target - level
    if problem.facts.has_weights:
        roots = np.sqrt(len(indices) * taken.shares)
        columns *= roots[:, None]
        target *= roots
    l1, l2 = float(penalty.l1[0, 0]), float(penalty.l2[0, 0])
    coef, _ = problem.coordinates.to_user(params)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            _, path, _ = enet_path(
                columns,
                target,
                l1_ratio=l1 / (l1 + l2),
                alphas=[l1 + l2],
                coef_init=coef[features, 0],
                precompute=len(indices) > _MIN_GRAM_RATIO * len(features),
                positive=bool(penalty.positive[0, 0]),
                tol=tol,
                max_iter=_MAX_EPOCHS,
                copy_X=False,
                check_input=False,
            )
        except ConvergenceWarning:
            return None
    coef = np.zeros_like(coef)
    coef[features] = path
    return problem.coordinates.from_user(coef, level - means @ coef)
