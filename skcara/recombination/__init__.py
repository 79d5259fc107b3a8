"""Exact reduction of discrete measures (recombination).

Points and weights only: this package knows nothing of models. It imports NumPy and
SciPy and can be used on its own.
"""

from skcara.recombination._api import merge, recombine, recombine_groups
from skcara.recombination._calibration import Columns, calibrate
from skcara.recombination._methods import RECOMBINATION_METHODS
from skcara.recombination._result import Recombination, RecombinationError

__all__ = [
    "RECOMBINATION_METHODS",
    "Columns",
    "Recombination",
    "RecombinationError",
    "calibrate",
    "merge",
    "recombine",
    "recombine_groups",
]
