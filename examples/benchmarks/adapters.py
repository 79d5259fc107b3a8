"""One adapter per rival: the same problem in each library's own parameters.

An adapter answers three questions: does the library solve this problem (``skip`` gives
the reason why not), with which settings from loose to tight should it be tried
(``settings``, the first one being the library's default), and what is its solution.
The problems are in mean form with strengths ``l1`` and ``l2`` (see ``problems.py``):

======================  ==================================================
library                 conversion
======================  ==================================================
LogisticRegression      C = 1 / (n_rows (l1 + l2)), l1_ratio = l1 / (l1 + l2)
skcara logistic         the same
Lasso, ElasticNet       alpha = l1 + l2, l1_ratio (also celer, skglm, skcara)
Ridge                   alpha = n_rows l2
glum, skglm logistic    alpha = l1 + l2, l1_ratio: mean form already
======================  ==================================================

All adapters hand over the arrays of the problem as they are, C-ordered. A copy that a
library makes (column order, centring, Gram matrix) is part of its time.
"""

import importlib.util
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)

MATRIX_FEATURES = 5_000
"""Columns up to which rivals that hold a matrix of their square are tried."""


def accuracy(setting, max_iter):
    """Parameters of a tolerance; none for the defaults of the library."""
    return {} if setting is None else {"tol": setting, "max_iter": max_iter}


@dataclass(frozen=True)
class Solution:
    """Coefficients (n_features, n_outputs) and intercept (n_outputs,)."""

    coef: np.ndarray
    intercept: np.ndarray


class Adapter:
    """Base of all adapters.

    Attributes
    ----------
    name : str
        Shown in tables.
    library : str
        Module that must be importable.
    losses : tuple of str
        Losses that the rival minimises.
    settings : tuple of float
        Tolerances (or iteration budgets) from loose to tight.
    max_features : int or None
        Columns up to which the rival is tried: it holds a matrix of their square.
    """

    name = ""
    library = "sklearn"
    losses = ()
    settings = TOLERANCES
    max_features = None

    def skip(self, problem):
        """Reason why this rival does not solve the problem, or None."""
        if importlib.util.find_spec(self.library) is None:
            return f"{self.library} is not installed"
        if problem.loss not in self.losses:
            return f"no {problem.loss} loss"
        if self.max_features is not None and problem.n_features > self.max_features:
            return f"a matrix of {problem.n_features} x {problem.n_features}"
        return self._skip_penalty(problem)

    def _skip_penalty(self, problem):
        return None

    def _make(self, problem, setting):
        """Unfitted estimator for one setting; None for the library's defaults."""
        raise NotImplementedError

    def _fit(self, problem, setting):
        """Coefficients and intercept in the library's own shapes."""
        estimator = self._make(problem, setting).fit(problem.X, problem.y)
        return estimator.coef_, estimator.intercept_

    def solve(self, problem, setting):
        """Cold fit; the judge, not the library's warnings, decides about success."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            coef, intercept = self._fit(problem, setting)
        coef = np.asarray(coef, dtype=float)
        coef = coef.reshape(problem.n_outputs, problem.n_features).T
        intercept = np.asarray(intercept, dtype=float)
        return Solution(coef, np.broadcast_to(intercept, (problem.n_outputs,)))


class SklearnLogistic(Adapter):
    """LogisticRegression with a solver for smooth penalties."""

    losses = ("logistic", "multinomial")

    def __init__(self, solver):
        self.solver = solver
        self.name = f"sklearn {solver}"
        if solver == "newton-cholesky":
            self.max_features = MATRIX_FEATURES

    def _skip_penalty(self, problem):
        return "no L1 penalty" if problem.l1 else None

    def _make(self, problem, setting):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(
            C=problem.inverse_strength,
            l1_ratio=problem.l1_ratio,
            solver=self.solver,
            **accuracy(setting, 10_000),
        )


class SklearnSaga(SklearnLogistic):
    """Saga, scikit-learn's default choice for L1; the setting is its epoch budget."""

    settings = (10, 30, 100, 300)

    def __init__(self):
        super().__init__("saga")

    def _skip_penalty(self, problem):
        return None if problem.l1 else "a slower choice than lbfgs without L1"

    def _make(self, problem, setting):
        if setting is None:
            return super()._make(problem, None)
        # A fixed number of epochs: its own criterion, the relative change of the
        # coefficients in an epoch, stops early at any useful tolerance.
        estimator = super()._make(problem, 1e-14)
        return estimator.set_params(max_iter=setting, random_state=0)


class SklearnLasso(Adapter):
    """Coordinate descent on the rows or, with ``precompute``, on the Gram matrix."""

    losses = ("squared",)

    def __init__(self, precompute, name="sklearn Lasso"):
        self.precompute = precompute
        self.name = f"{name}{' precompute' if precompute else ''}"

    def _skip_penalty(self, problem):
        if not problem.l1:
            return "meant for L1"
        if self.precompute and sp.issparse(problem.X):
            return "no Gram matrix for sparse X"
        return None

    def _make(self, problem, setting):
        from sklearn.linear_model import ElasticNet

        return ElasticNet(
            alpha=problem.l1 + problem.l2,
            l1_ratio=problem.l1_ratio,
            precompute=self.precompute,
            **accuracy(setting, 100_000),
        )


class SklearnLinearRegression(Adapter):
    """SciPy's least-squares solver; the setting is its cut-off of singular values."""

    name = "sklearn LinearRegression"
    losses = ("squared",)
    settings = (1e-6, 1e-14)

    def _skip_penalty(self, problem):
        return "no penalty" if problem.l1 or problem.l2 else None

    def _make(self, problem, setting):
        from sklearn.linear_model import LinearRegression

        return LinearRegression(**({} if setting is None else {"tol": setting}))


class SklearnRidge(Adapter):
    """Normal equations by Cholesky factorisation, or conjugate gradients."""

    losses = ("squared",)

    def __init__(self, solver):
        self.solver = solver
        self.name = f"sklearn Ridge {solver}"
        self.settings = TOLERANCES if solver == "sparse_cg" else (1e-4,)

    def _skip_penalty(self, problem):
        if problem.l1:
            return "no L1 penalty"
        if sp.issparse(problem.X) != (self.solver == "sparse_cg"):
            return "for sparse X conjugate gradients, for dense X Cholesky"
        return None

    def _make(self, problem, setting):
        from sklearn.linear_model import Ridge

        alpha = problem.n_rows * problem.l2
        return Ridge(alpha=alpha, solver=self.solver, tol=setting)


class Glum(Adapter):
    """Iteratively reweighted least squares or coordinate descent."""

    name = "glum"
    library = "glum"
    losses = ("logistic", "squared")
    max_features = MATRIX_FEATURES

    def _make(self, problem, setting):
        from glum import GeneralizedLinearRegressor

        return GeneralizedLinearRegressor(
            alpha=problem.l1 + problem.l2,
            l1_ratio=problem.l1_ratio,
            family="binomial" if problem.loss == "logistic" else "normal",
            gradient_tol=setting,
            max_iter=1000,
        )


class Skglm(Adapter):
    """Working sets with Anderson acceleration (Lasso) or proximal Newton (logistic)."""

    name = "skglm"
    library = "skglm"
    losses = ("logistic", "squared")

    def _skip_penalty(self, problem):
        return None if problem.l1 else "meant for L1"

    def _make(self, problem, setting):
        import skglm

        shared = {
            "alpha": problem.l1 + problem.l2,
            "l1_ratio": problem.l1_ratio,
            "tol": setting,
            "max_iter": 200,
        }
        if problem.loss == "logistic":
            return skglm.SparseLogisticRegression(**shared)
        return skglm.ElasticNet(**shared)


class SkglmGram(Adapter):
    """Accelerated coordinate descent on the Gram matrix, for few columns.

    The solver takes no intercept, so the columns are centred first, as a user would.
    """

    name = "skglm GramCD"
    library = "skglm"
    losses = ("squared",)

    def _skip_penalty(self, problem):
        if not problem.l1:
            return "meant for L1"
        return "centring makes sparse X dense" if sp.issparse(problem.X) else None

    def _fit(self, problem, setting):
        from skglm.penalties import L1_plus_L2
        from skglm.solvers import GramCD

        column_means, target_mean = problem.X.mean(axis=0), problem.y.mean()
        penalty = L1_plus_L2(problem.l1 + problem.l2, problem.l1_ratio)
        solver = GramCD(tol=setting, max_iter=100_000, use_acc=True, greedy_cd=False)
        coef, *_ = solver.solve(
            problem.X - column_means, problem.y - target_mean, None, penalty
        )
        return coef, target_mean - column_means @ coef


class Celer(Adapter):
    """Working sets with dual extrapolation."""

    name = "celer"
    library = "celer"
    losses = ("squared",)

    def _skip_penalty(self, problem):
        return None if problem.l1 else "meant for L1"

    def _make(self, problem, setting):
        from celer import ElasticNet

        return ElasticNet(
            alpha=problem.l1 + problem.l2, l1_ratio=problem.l1_ratio, tol=setting
        )


class Skcara(Adapter):
    """The estimators of this package with their default solver."""

    name = "skcara"
    library = "skcara"
    losses = ("logistic", "multinomial", "squared")

    def __init__(self, **options):
        self.options = options
        if options:
            values = ", ".join(f"{key}={value}" for key, value in options.items())
            self.name = f"skcara {values}"

    def _make(self, problem, setting):
        from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

        shared = {**accuracy(setting, 1000), "random_state": 0, **self.options}
        if problem.loss != "squared":
            return CaLogisticRegression(
                C=problem.inverse_strength, l1_ratio=problem.l1_ratio, **shared
            )
        if problem.l1 or problem.l2:
            return CaLasso(
                alpha=problem.l1 + problem.l2, l1_ratio=problem.l1_ratio, **shared
            )
        return CaLeastSquares(**shared)


ADAPTERS = (
    Skcara(),
    SklearnLogistic("lbfgs"),
    SklearnLogistic("newton-cholesky"),
    SklearnSaga(),
    SklearnLasso(precompute=False),
    SklearnLasso(precompute=True),
    SklearnLinearRegression(),
    SklearnRidge("cholesky"),
    SklearnRidge("sparse_cg"),
    Glum(),
    Skglm(),
    SkglmGram(),
    Celer(),
)
"""All rivals; scikit-learn's default is its first entry that does not skip."""
