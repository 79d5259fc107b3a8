"""Newton steps on reduced measures that carry the full gradient, and on all rows."""

from skcara.solvers.newton._canewton import CanewtonOptions, iterate_canewton
from skcara.solvers.newton._newton import iterate_from_model

__all__ = ["CanewtonOptions", "iterate_canewton", "iterate_from_model"]
