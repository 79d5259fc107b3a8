"""The scikit-learn estimators, and paths of penalties."""

from skcara.estimators._lasso import CaLasso
from skcara.estimators._lasso_cv import CaLassoCV
from skcara.estimators._least_squares import CaLeastSquares
from skcara.estimators._logistic import CaLogisticRegression
from skcara.estimators._logistic_cv import CaLogisticRegressionCV
from skcara.estimators._logistic_path import logistic_path
from skcara.estimators._path import lasso_path

__all__ = [
    "CaLasso",
    "CaLassoCV",
    "CaLeastSquares",
    "CaLogisticRegression",
    "CaLogisticRegressionCV",
    "lasso_path",
    "logistic_path",
]
