"""Linear models on tall data from a few exactly weighted rows.

Three scikit-learn estimators, :class:`CaLeastSquares`, :class:`CaLasso` and
:class:`CaLogisticRegression`, searches over penalties for the price of a fit,
:class:`CaLassoCV`, :class:`CaLogisticRegressionCV`, :func:`lasso_path` and
:func:`logistic_path`, and the reduction of measures on its own,
:func:`recombine` and :func:`merge`. :class:`ConvergenceDisplay`,
:class:`MeasureDisplay`, :class:`PathDisplay` and :class:`ValidationDisplay` draw fits
and searches; they need matplotlib.
"""

from skcara._version import __version__
from skcara.estimators import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
    lasso_path,
    logistic_path,
)
from skcara.plotting import (
    ConvergenceDisplay,
    MeasureDisplay,
    PathDisplay,
    ValidationDisplay,
)
from skcara.recombination import RecombinationError, merge, recombine

__all__ = [
    "CaLasso",
    "CaLassoCV",
    "CaLeastSquares",
    "CaLogisticRegression",
    "CaLogisticRegressionCV",
    "ConvergenceDisplay",
    "MeasureDisplay",
    "PathDisplay",
    "RecombinationError",
    "ValidationDisplay",
    "__version__",
    "lasso_path",
    "logistic_path",
    "merge",
    "recombine",
]
