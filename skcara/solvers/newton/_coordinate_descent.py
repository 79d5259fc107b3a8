r"""Elastic net on copied columns: scikit-learn's compiled coordinate descent.

With weights :math:`\mu` of the rows and the intercept eliminated by centring, the
problem on some columns is

.. math::

    \tfrac1{2N} \|b - A w\|^2 + l1 \|w\|_1 + \tfrac12 l2 \|w\|_2^2 ,

.. math::

    A_i = \sqrt{N \mu_i}\, (x_i - \bar x) , \qquad
    b_i = \sqrt{N \mu_i}\, (y_i - \bar y) ,

which is what :func:`sklearn.linear_model.enet_path` solves. Sparse columns are neither
centred nor weighted, which would fill them; :class:`sklearn.linear_model.ElasticNet`
does both as it goes. The answers need no trust: the pass over all columns that follows
judges them.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, enet_path

from skcara.data import Coordinates
from skcara.passes import Evaluate, Take
from skcara.solvers._progress import StallDetector
from skcara.solvers._rounds import Round

# scikit-learn's own default; where it is not enough, the next round goes on.
_MAX_EPOCHS = 1000
# Rows per column from which a Gram matrix, at the price of a few epochs, makes those
# that follow cheap enough.
_MIN_GRAM_RATIO = 4
# Duality gap of the first round, relative to the variance of the target: half of the
# default tolerance, for the pass that follows finds the same gap on all columns. Then
# relative to what was reached.
_FIRST_TOL, _ACCURACY = 5e-5, 1e-2
# Columns whose Gram matrix takes the time of one epoch. The search for zeros in that
# matrix takes about as many epochs as it has entries for each row. After as many epochs
# as both are worth coordinate descent is given up, and half of the time is lost. An
# epoch of sparse columns costs less, the search as much: it is worth 6 to 10 times as
# many epochs from one row per column on, and 20 times as many with fewer.
_COLUMNS_PER_EPOCH, _MIN_EPOCHS = 10, 25
_DENSE_SEARCH_EPOCHS, _SPARSE_SEARCH_EPOCHS = 1, 8
# Mean of a column, relative to its size, that is rounding.
_ROUNDING = 64 * np.finfo(np.float64).eps


def iterate_descent(problem, params):
    """Yield rounds of coordinate descent on a copy of all columns.

    Parameters
    ----------
    problem : Problem
        An elastic net, the same for all columns.
    params : ndarray of shape (n_params, 1)
        Starting point.

    Yields
    ------
    Request or Round

    Returns
    -------
    params : ndarray of shape (n_params, 1)
        Where it ended; another way has to go on from there.
    """
    columns = yield from copy_columns(problem, np.arange(problem.n_features))
    max_epochs = columns.max_epochs
    tol, objective, stall = _FIRST_TOL, np.inf, StallDetector()
    while True:
        found = columns.minimize(params, tol, max_epochs=max_epochs, precompute=False)
        if found is None:
            return params
        params = found
        problem, evaluation = yield Evaluate(problem, params, with_moments=True)
        yield Round(evaluation, reduced_rows=float(problem.n_rows), inner_steps=1)
        if stall.is_stalled_after(objective, evaluation.objective):
            return params
        objective, tol = evaluation.objective, _ACCURACY * evaluation.stop_value


def copy_columns(problem, features):
    """Copy columns and centre them; a generator of requests.

    Parameters
    ----------
    problem : Problem
        On all columns.
    features : ndarray of int
    """
    is_sparse = problem.facts.is_sparse
    shift = np.zeros(problem.n_features)
    if problem.coordinates.fit_intercept and not is_sparse:
        shift = problem.facts.reference_row
    near = Coordinates(shift, np.ones_like(shift), False).restrict(features)
    is_all = len(features) == problem.n_features
    taken = yield Take(
        problem.with_coordinates(near),
        np.arange(problem.n_rows),
        order="F",
        features=None if is_all else features,
    )
    if is_sparse:
        return _SparseColumns(problem, features, taken)
    return _DenseColumns(problem, features, taken, shift[features])


class _CopiedColumns:
    """Some columns of a problem, as coordinate descent wants them.

    Parameters
    ----------
    problem : Problem
        On all columns.
    features : ndarray of int
    """

    def __init__(self, problem, features):
        self._problem, self._features = problem, features

    @property
    def max_epochs(self):
        """Epochs after which another way would have been faster."""
        n_columns, n_rows = len(self._features), self._problem.n_rows
        per_entry = _DENSE_SEARCH_EPOCHS
        if self._problem.facts.is_sparse:
            per_entry = _SPARSE_SEARCH_EPOCHS
        search = per_entry * n_columns**2 // n_rows
        return max(n_columns // _COLUMNS_PER_EPOCH + search, _MIN_EPOCHS)

    @property
    def _default_epochs(self):
        return _MAX_EPOCHS

    def minimize(self, params, tol, *, max_epochs=None, precompute=None):
        """Minimise over the columns, the others zero.

        Parameters
        ----------
        params : ndarray of shape (n_params, 1)
            Starting point, on all columns.
        tol : float
            Duality gap to reach, relative to the variance of the target.
        max_epochs : int, optional
        precompute : bool, optional
            Whether the Gram matrix of dense columns is summed; default where it pays.

        Returns
        -------
        params : ndarray of shape (n_params, 1) or None
            None if coordinate descent did not reach the tolerance.
        """
        problem, features = self._problem, self._features
        penalty = problem.user_penalty
        l1, l2 = float(penalty.l1[0, 0]), float(penalty.l2[0, 0])
        coef, _ = problem.coordinates.to_user(params)
        if max_epochs is None:
            max_epochs = self._default_epochs
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                found, intercept = self._descend(
                    coef[features, 0],
                    precompute,
                    alpha=l1 + l2,
                    l1_ratio=l1 / (l1 + l2),
                    positive=bool(penalty.positive[0, 0]),
                    tol=tol,
                    max_iter=max_epochs,
                )
            except ConvergenceWarning:
                return None
        coef = np.zeros_like(coef)
        coef[features, 0] = found
        return problem.coordinates.from_user(coef, intercept)

    def _descend(self, start, precompute, *, alpha, tol, **options):
        """Coefficients of the columns and the intercept."""
        raise NotImplementedError


class _DenseColumns(_CopiedColumns):
    """Columns that are centred and weighted themselves.

    Parameters
    ----------
    problem : Problem
    features : ndarray of int
    taken : TakenRows
        Overwritten.
    shift : ndarray of shape (len(features),)
        What was subtracted from the columns.
    """

    def __init__(self, problem, features, taken, shift):
        super().__init__(problem, features)
        self._columns, self._target = taken.rows, taken.target
        self._means, self._level = shift, 0.0
        if problem.coordinates.fit_intercept:
            self._level = float(taken.shares @ taken.target)
            self._target = self._target - self._level
            self._centre(taken.shares, problem.facts.reference_square[features])
        if problem.facts.has_weights:
            roots = np.sqrt(len(self._target) * taken.shares)
            self._columns *= roots[:, None]
            self._target = self._target * roots

    def _centre(self, shares, squares):
        """Subtract the means, unless they are zero but for rounding."""
        offsets = shares @ self._columns
        if (np.abs(offsets) > _ROUNDING * np.sqrt(squares)).any():
            # One column after the other, as they are in memory.
            self._columns.T[:] -= offsets[:, None]
            self._means = self._means + offsets

    def _descend(self, start, precompute, *, alpha, tol, **options):
        if precompute is None:
            precompute = len(self._target) > _MIN_GRAM_RATIO * len(start)
        _, path, _ = enet_path(
            self._columns,
            self._target,
            alphas=[alpha],
            coef_init=start,
            precompute=precompute,
            tol=tol,
            copy_X=False,
            check_input=False,
            **options,
        )
        return path[:, 0], self._level - self._means @ path


class _SparseColumns(_CopiedColumns):
    """Columns in CSC format, which scikit-learn centres and weighs as it goes.

    Parameters
    ----------
    problem : Problem
    features : ndarray of int
    taken : TakenRows
    """

    def __init__(self, problem, features, taken):
        super().__init__(problem, features)
        rows, self._target, shares = taken.counted()
        self._weights = shares if problem.facts.has_weights else None
        self._columns = rows.tocsc()

    @property
    def _default_epochs(self):
        # The search for zeros among many columns of few rows takes longer than these.
        return max(_MAX_EPOCHS, self.max_epochs)

    def _descend(self, start, precompute, *, alpha, tol, **options):
        model = ElasticNet(
            alpha=alpha,
            fit_intercept=self._problem.coordinates.fit_intercept,
            warm_start=True,
            # Another round costs more than the epochs that it saves.
            tol=min(tol, _FIRST_TOL),
            **options,
        )
        model.coef_ = start
        model.fit(self._columns, self._target, self._weights, check_input=False)
        return model.coef_, model.intercept_
