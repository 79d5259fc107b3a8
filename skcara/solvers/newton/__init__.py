"""Newton steps on reduced measures that carry the full gradient, and on all rows."""

from skcara.solvers.newton._canewton import CanewtonOptions, iterate_canewton

__all__ = ["CanewtonOptions", "iterate_canewton"]
