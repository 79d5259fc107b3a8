"""CaGD and CaBCD: gradient and block coordinate descent on reduced measures."""

from skcara.solvers.descent._cabcd import CabcdOptions, iterate_cabcd
from skcara.solvers.descent._cagd import CagdOptions, iterate_cagd
from skcara.solvers.descent._control import CONTROLS

__all__ = ["CONTROLS", "CabcdOptions", "CagdOptions", "iterate_cabcd", "iterate_cagd"]
