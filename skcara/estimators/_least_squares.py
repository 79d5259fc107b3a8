"""CaLeastSquares: drop-in for scikit-learn's LinearRegression."""

from skcara.estimators._base import BaseCaLinearModel
from skcara.estimators._docstrings import fill_docstring
from skcara.estimators._regressor import CaRegressor
from skcara.objective import ResidualCorrelation


@fill_docstring
class CaLeastSquares(CaRegressor):
    r"""Least squares on tall data.

    Minimises

    .. math:: \tfrac12 \sum_i \mu_i (y_i - x_i^\top \beta - b)^2 ,

    where :math:`\mu` are the sample weights scaled to sum to one. The solution is that
    of :class:`sklearn.linear_model.LinearRegression`, also when columns are nearly
    collinear; among several solutions any one is returned.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit the intercept :math:`b`. The data are never moved or copied.
    positive : bool, default=False
        Whether coefficients must be non-negative.
    {solver_parameters}
    tol : float, default=1e-6
        The fit has converged when no (centred) column has a larger absolute
        correlation with the residual, on the full data, or when all correlations are
        nothing but rounding, as they are where the data are fitted exactly.
    max_iter : int, default=1000
        Most outer rounds.
    {run_parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept, 0.0 without one.
    n_iter_ : int
        Outer rounds. For several targets this and the attributes below that describe
        a run are lists with one entry per target.
    {fitted_attributes}

    See Also
    --------
    CaLasso : The same loss with an L1 or elastic-net penalty.
    sklearn.linear_model.LinearRegression : The twin in scikit-learn.

    References
    ----------
    {references}

    Examples
    --------
    >>> import numpy as np
    >>> from skcara import CaLeastSquares
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((10_000, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + 5
    >>> model = CaLeastSquares().fit(X, y)
    >>> np.allclose(model.coef_, [1, 2, 0])
    True
    >>> round(float(model.intercept_), 6)
    5.0
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **BaseCaLinearModel._parameter_constraints,
        "positive": ["boolean"],
    }
    _criterion_name = "the largest correlation of the residual with a column"

    def __init__(
        self,
        *,
        fit_intercept=True,
        positive=False,
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
        tol=1e-6,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.fit_intercept = fit_intercept
        self.positive = positive
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
        return 0.0, 0.0

    def _make_criterion(self):
        return ResidualCorrelation()
