"""Displays in the style of scikit-learn; matplotlib is imported when one is drawn."""

from skcara.plotting._convergence import ConvergenceDisplay
from skcara.plotting._measure import MeasureDisplay
from skcara.plotting._path import PathDisplay
from skcara.plotting._validation import ValidationDisplay

__all__ = [
    "ConvergenceDisplay",
    "MeasureDisplay",
    "PathDisplay",
    "ValidationDisplay",
]
