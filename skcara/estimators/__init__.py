"""The three scikit-learn estimators."""

from skcara.estimators._lasso import CaLasso
from skcara.estimators._least_squares import CaLeastSquares
from skcara.estimators._logistic import CaLogisticRegression

__all__ = ["CaLasso", "CaLeastSquares", "CaLogisticRegression"]
