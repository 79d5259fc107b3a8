"""Linear models on tall data from a few exactly weighted rows.

Three scikit-learn estimators, :class:`CaLeastSquares`, :class:`CaLasso` and
:class:`CaLogisticRegression`, and the reduction of measures on its own,
:func:`recombine` and :func:`merge`. :class:`ConvergenceDisplay`,
:class:`MeasureDisplay`, :class:`PathDisplay` and :class:`ValidationDisplay` draw fits
and searches; they need matplotlib.
"""

from skcara._version import __version__
from skcara.estimators import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.plotting import (
    ConvergenceDisplay,
    MeasureDisplay,
    PathDisplay,
    ValidationDisplay,
)
from skcara.recombination import RecombinationError, merge, recombine

__all__ = [
    "CaLasso",
    "CaLeastSquares",
    "CaLogisticRegression",
    "ConvergenceDisplay",
    "MeasureDisplay",
    "PathDisplay",
    "RecombinationError",
    "ValidationDisplay",
    "__version__",
    "merge",
    "recombine",
]
