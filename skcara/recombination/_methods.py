"""The registry of methods: dispatch, error texts and tests read it."""

from __future__ import annotations

from skcara.recombination._combined import reduce_by_combined
from skcara.recombination._cone import reduce_by_cone
from skcara.recombination._davis import reduce_by_davis
from skcara.recombination._first_level import Method, on_rows
from skcara.recombination._litterer_lyons import reduce_by_litterer_lyons
from skcara.recombination._log import reduce_by_log
from skcara.recombination._maalouf import reduce_by_maalouf
from skcara.recombination._nnls import reduce_by_nnls
from skcara.recombination._pivoting import reduce_by_pivoting
from skcara.recombination._sample import reduce_by_calibration
from skcara.recombination._tchernychova_lyons import reduce_by_tree
from skcara.recombination._tree import in_coordinates

METHODS: dict[str, Method] = {
    "calibration": reduce_by_calibration,
    "pivoting": on_rows(reduce_by_pivoting),
    "combined": on_rows(reduce_by_combined),
    "log": on_rows(reduce_by_log),
    "cone": on_rows(reduce_by_cone, uses_groups=False),
    "tree": on_rows(reduce_by_tree),
    "litterer-lyons": on_rows(reduce_by_litterer_lyons),
    "maalouf": on_rows(reduce_by_maalouf),
    "davis": on_rows(in_coordinates(reduce_by_davis), uses_groups=False),
}

# Tried in this order after the method asked for. The last one is for emergencies and
# cannot be asked for.
FALLBACKS: dict[str, Method] = {
    "tree": METHODS["tree"],
    "litterer-lyons": METHODS["litterer-lyons"],
    "nnls": on_rows(reduce_by_nnls),
}

#: Names that can be asked for; "auto" is a choice between methods.
RECOMBINATION_METHODS = ("auto", *METHODS)


def check_method(method) -> str:
    """Return a name that can be asked for."""
    if not isinstance(method, str) or method not in RECOMBINATION_METHODS:
        names = ", ".join(repr(name) for name in RECOMBINATION_METHODS)
        raise ValueError(f"method must be one of {names}; got {method!r}.")
    return method


def chain(method: str) -> dict[str, Method]:
    """Return the methods to try, in order, by the name they are reported with.

    Calibration gives up where the target size leaves no room for a sample. Pivoting is
    the fastest of the others, hence its first substitute, and "auto" is the two.
    """
    names = (
        ["calibration", "pivoting"] if method in ("auto", "calibration") else [method]
    )
    return {name: METHODS[name] for name in names} | FALLBACKS
