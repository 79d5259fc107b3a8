r"""The cone algorithm with a short budget, backed by elimination.

The same levels of groups as `_log`. Each level is tried with one random cone basis and
:math:`2n` exchanges; where that finds no answer, the barycentres are reduced as in
`_tchernychova_lyons`, which always ends. This is the method that the article on
Carathéodory sampling uses.

References
----------
Cosentino, F., Oberhauser, H. and Abate, A. (2021). Carathéodory sampling for
stochastic gradient descent. arXiv:2006.01819
"""

from __future__ import annotations

from skcara.recombination._cone import reduce_by_cone_search
from skcara.recombination._coordinates import Atoms, Coordinates
from skcara.recombination._log import GROUPS_PER_DIMENSION
from skcara.recombination._result import MethodFailed
from skcara.recombination._tchernychova_lyons import reduce_by_tree
from skcara.recombination._tree import (
    groups_per_dimension,
    in_coordinates,
    through_groups,
)
from skcara.recombination._validation import RandomSource


def reduce_by_short_cone(coordinates: Coordinates, size: int, random: RandomSource):
    """Run the cone search once, without a restart."""
    budget = 2 * len(coordinates.values)
    return reduce_by_cone_search(coordinates, random, iter([budget]), budget)


def cone_or_tree(atoms: Atoms, target: int | None, random: RandomSource):
    """Try the cone, else eliminate on the same atoms."""
    try:
        return in_coordinates(reduce_by_short_cone)(atoms, target, random)
    except MethodFailed:
        return reduce_by_tree(atoms, target, random)


reduce_by_combined = through_groups(
    groups_per_dimension(GROUPS_PER_DIMENSION), cone_or_tree, least_last_atoms=True
)
