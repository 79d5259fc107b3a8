"""The registry of methods: dispatch, error texts and tests read it."""

from __future__ import annotations

from typing import NamedTuple

from skcara.recombination._combined import reduce_by_combined
from skcara.recombination._cone import reduce_by_cone
from skcara.recombination._davis import reduce_by_davis
from skcara.recombination._litterer_lyons import reduce_by_litterer_lyons
from skcara.recombination._log import reduce_by_log
from skcara.recombination._maalouf import reduce_by_maalouf
from skcara.recombination._nnls import reduce_by_nnls
from skcara.recombination._pivoting import reduce_by_auto
from skcara.recombination._tchernychova_lyons import reduce_by_tree
from skcara.recombination._tree import Reduction, in_coordinates


class Method(NamedTuple):
    """How a method reduces atoms.

    Attributes
    ----------
    reduce : callable
    uses_groups : bool
        Whether large data may be read as group sums first. The methods that do not are
        defined on all atoms at once and copy them.
    uses_samples: bool
        Whether a sample is calibrated first where the target size leaves room for it.
    """

    reduce: Reduction
    uses_groups: bool = True
    uses_samples: bool = False


RECOMBINATION_METHODS: dict[str, Method] = {
    "auto": Method(reduce_by_auto, uses_samples=True),
    "combined": Method(reduce_by_combined),
    "log": Method(reduce_by_log),
    "cone": Method(reduce_by_cone, uses_groups=False),
    "tree": Method(reduce_by_tree),
    "litterer-lyons": Method(reduce_by_litterer_lyons),
    "maalouf": Method(reduce_by_maalouf),
    "davis": Method(in_coordinates(reduce_by_davis), uses_groups=False),
}

# Tried in this order after the method asked for.
FALLBACKS: dict[str, Method] = {
    "tree": RECOMBINATION_METHODS["tree"],
    "litterer-lyons": RECOMBINATION_METHODS["litterer-lyons"],
    "nnls": Method(reduce_by_nnls),
}


def check_method(method) -> str:
    """Return the name of a registered method."""
    if not isinstance(method, str) or method not in RECOMBINATION_METHODS:
        names = ", ".join(repr(name) for name in RECOMBINATION_METHODS)
        raise ValueError(f"method must be one of {names}; got {method!r}.")
    return method


def chain(method: str) -> dict[str, Method]:
    """Return the methods to try, in order, by the name they are reported with."""
    return {method: RECOMBINATION_METHODS[method]} | FALLBACKS
