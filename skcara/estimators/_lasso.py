"""CaLasso: drop-in for scikit-learn's Lasso and ElasticNet."""

from numbers import Real

from skcara._sklearn_compat import Interval
from skcara.estimators._base import BaseCaLinearModel
from skcara.estimators._docstrings import fill_docstring
from skcara.estimators._regressor import CaRegressor
from skcara.objective import DualGap


@fill_docstring
class CaLasso(CaRegressor):
    r"""Lasso and elastic net on tall data.

    Minimises

    .. math::

        \tfrac12 \sum_i \mu_i (y_i - x_i^\top \beta - b)^2
        + \alpha \left(\mathrm{l1\_ratio}\, \|\beta\|_1
        + \tfrac12 (1 - \mathrm{l1\_ratio})\, \|\beta\|_2^2\right) ,

    where :math:`\mu` are the sample weights scaled to sum to one: the objective of
    :class:`sklearn.linear_model.Lasso` and :class:`sklearn.linear_model.ElasticNet`.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty.
    l1_ratio : float in [0, 1], default=1.0
        Share of the L1 term; 1 is the Lasso.
    fit_intercept : bool, default=True
        Whether to fit the intercept :math:`b`, which is never penalised. The data are
        never moved or copied.
    positive : bool, default=False
        Whether coefficients must be non-negative.
    warm_start : bool, default=False
        Whether to start at the coefficients of the last fit.
    {solver_parameters}
    tol : float, default=1e-4
        The fit has converged when the duality gap on the full data is at most `tol`
        times the variance of `y` (its mean square without an intercept).
    max_iter : int, default=1000
        Most outer rounds.
    {run_parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients, exactly zero where the penalty says so.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept, 0.0 without one.
    n_iter_ : int
        Outer rounds. For several targets this and the attributes below that describe
        a run are lists with one entry per target.
    dual_gap_ : float
        Certified bound on `objective_` minus its minimum, for the returned
        coefficients on the full data; NaN without any penalty.
    {fitted_attributes}

    See Also
    --------
    CaLeastSquares : Without a penalty.
    sklearn.linear_model.Lasso : The twin in scikit-learn.

    Notes
    -----
    The article [1]_ writes the loss without the factor one half: its
    :math:`\lambda` is ``2 * alpha``.

    References
    ----------
    {references}

    Examples
    --------
    >>> import numpy as np
    >>> from skcara import CaLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((10_000, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + 0.1 * rng.standard_normal(10_000)
    >>> model = CaLasso(alpha=0.1, tol=1e-10).fit(X, y)
    >>> print(model.coef_.round(1))
    [0.9 1.9 0. ]
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **BaseCaLinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "positive": ["boolean"],
        "warm_start": ["boolean"],
    }
    dual_gap_: float | list[float]

    _squeezes_target = True
    _criterion_name = "the duality gap relative to the variance of y"

    def __init__(
        self,
        alpha=1.0,
        *,
        l1_ratio=1.0,
        fit_intercept=True,
        positive=False,
        warm_start=False,
        solver="auto",
        recombination="auto",
        block_size=2,
        partition="VB",
        selection="GS",
        fraction="auto",
        direction="auto",
        step_size="auto",
        momentum=0.0,
        control="auto",
        max_inner_iter="auto",
        tol=1e-4,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.warm_start = warm_start
        self.solver = solver
        self.recombination = recombination
        self.block_size = block_size
        self.partition = partition
        self.selection = selection
        self.fraction = fraction
        self.direction = direction
        self.step_size = step_size
        self.momentum = momentum
        self.control = control
        self.max_inner_iter = max_inner_iter
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _strengths(self):
        return self.alpha * self.l1_ratio, self.alpha * (1.0 - self.l1_ratio)

    def _make_criterion(self):
        return DualGap()

    def _more_attributes(self, results):
        return {"dual_gap_": [result.evaluation.dual_gap for result in results]}
