r"""The randomised greedy cone algorithm of Cosentino, Oberhauser and Abate.

Derivation
----------
Take :math:`r` independent atoms :math:`B = (b_1, \dots, b_r)`, the *cone basis*, and
the coefficients :math:`a(x) = B^{-1} x` of every atom.

1. If :math:`a(x) \le 0`, then :math:`0 = x + \sum_i (-a_i) b_i`: the centre is a convex
   combination of :math:`r + 1` atoms, with masses proportional to :math:`1` for
   :math:`x` and :math:`-a_i` for :math:`b_i`.
2. If :math:`a(x) > 0`, the atom lies inside the cone of the basis. The centre stays
   in the convex hull without it, so it is deleted for good.

If no atom answers, one basis atom after the other is replaced by the atom most
opposite to the mean direction of the basis atoms, which turns the cone towards covering
:math:`-x` for some :math:`x`. Inverse and coefficients follow by Sherman–Morrison in
:math:`O(rN)`. The search is fast on average and exponential at worst; it is cut off by
a budget of exchanges, given out in Luby's sequence times :math:`2(r + 1)` with a fresh
random basis for each, and the atoms deleted so far stay deleted. Where atoms and
coordinates are many, the work of the exchanges is bounded as well.

References
----------
Cosentino, F., Oberhauser, H. and Abate, A. (2020). A randomized algorithm to reduce
the support of discrete measures. Advances in Neural Information Processing Systems 33.
arXiv:2006.01757

Luby, M., Sinclair, A. and Zuckerman, D. (1993). Optimal speedup of Las Vegas
algorithms. Information Processing Letters 47(4). doi:10.1016/0020-0190(93)90029-9
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import qr

from skcara.recombination._basis import exchange
from skcara.recombination._coordinates import EPS, Coordinates
from skcara.recombination._result import MethodFailed
from skcara.recombination._tree import in_coordinates

# Exchanges in all, per basis atom: Luby's budgets up to the first 4 add up to this.
EXCHANGES_PER_ATOM = 24
REFACTOR_EVERY = 50
# Entries of coefficients that all exchanges together may update: half a second. With
# sixty coordinates and two hundred times as many atoms a cone is found in a tenth of
# that; with ninety the search takes thirty times as long as elimination, with 130 a
# minute, and it hardly ever ends well.
MAX_UPDATED_ENTRIES = 2**27

# A pivot below this, relative to the largest coefficient, would spoil the inverse.
SMALL_PIVOT = 1e-8


def luby_sequence() -> Iterator[int]:
    """Yield 1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8, ..."""
    prefix = [1]
    yield 1
    while True:
        block = [*prefix, 2 * prefix[-1]]
        yield from block
        prefix += block


class Cone:
    """A cone basis with the coefficients of all live atoms.

    Attributes
    ----------
    live : ndarray of shape (n_live,)
        Positions of the atoms that have not been deleted.
    members : ndarray of shape (n_coordinates,)
        Basis atoms, as indices into `live`.
    inverse : ndarray of shape (n_coordinates, n_coordinates)
    coefficients : ndarray of shape (n_coordinates, n_live)
        ``inverse @ values[:, live]``.
    """

    def __init__(self, values: np.ndarray, live: np.ndarray, rng: np.random.Generator):
        self.live = live
        self._values = values[:, live]
        self._directions = self._values / np.linalg.norm(self._values, axis=0)
        self.members = self._draw_members(rng)
        self._n_exchanges = 0
        self._factorise()

    def _draw_members(self, rng) -> np.ndarray:
        n_coordinates, n_live = self._values.shape
        # Twice as many atoms as needed are nearly always enough for a full rank.
        for n_drawn in (min(2 * n_coordinates, n_live), n_live):
            drawn = rng.choice(n_live, n_drawn, replace=False)
            triangle, order = qr(
                self._directions[:, drawn], mode="r", pivoting=True, check_finite=False
            )
            extent = np.abs(triangle.diagonal())
            if extent.min() > SMALL_PIVOT * extent[0]:
                break
        return drawn[order[:n_coordinates]]

    def _factorise(self) -> None:
        self.inverse = np.linalg.inv(self._values[:, self.members])
        self.coefficients = self.inverse @ self._values

    def answer(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return positions and unit masses of a solution, or None."""
        largest = self.coefficients.max(axis=0)
        candidate = largest.argmin()
        coefficients = self.coefficients[:, candidate]
        if largest[candidate] > 10 * EPS * np.abs(coefficients).max():
            return None
        masses = np.append(np.maximum(-coefficients, 0.0), 1.0)
        positions = self.live[np.append(self.members, candidate)]
        is_used = masses > 0.0
        return positions[is_used], masses[is_used] / masses.sum()

    def delete_interior(self) -> None:
        """Delete the atoms strictly inside the cone, never basis atoms."""
        smallest = self.coefficients.min(axis=0)
        largest = self.coefficients.max(axis=0)
        is_kept = smallest <= 10 * EPS * largest
        is_kept[self.members] = True
        if is_kept.all():
            return
        self.live = self.live[is_kept]
        self.members = (np.cumsum(is_kept) - 1)[self.members]
        self._values = self._values[:, is_kept]
        self._directions = self._directions[:, is_kept]
        self.coefficients = self.coefficients[:, is_kept]

    def turn(self, position: int, rng: np.random.Generator) -> None:
        """Replace a basis atom by the atom most opposite to the other ones."""
        others = np.delete(self.members, position)
        heading = self._directions[:, others].sum(axis=1)
        alignment = heading @ self._directions
        if not alignment.any():  # a single coordinate has no other basis atoms
            alignment = rng.random(len(self.live))
        alignment[self.members] = np.inf
        entering = alignment.argmin()
        column = self.coefficients[:, entering].copy()
        if abs(column[position]) < SMALL_PIVOT * np.abs(column).max():
            position = np.abs(column).argmax()
        exchange(self.inverse, column, position)
        exchange(self.coefficients, column, position)
        self.members[position] = entering
        self._n_exchanges += 1
        if self._n_exchanges % REFACTOR_EVERY == 0:
            self._factorise()


def reduce_by_cone_search(
    coordinates: Coordinates, random, budgets: Iterator[int], max_exchanges: int
):
    """Search with restarts; raise `MethodFailed` when the exchanges are used up.

    Parameters
    ----------
    coordinates : Coordinates
    random : RandomSource
    budgets : iterator of int
        Exchanges allowed for one basis after the other.
    max_exchanges : int
        Exchanges allowed in all.
    """
    values, _, weights = coordinates
    total = weights.sum()
    at_centre = np.flatnonzero(~values.any(axis=0))
    if at_centre.size:
        return at_centre[:1], np.array([total])
    n_coordinates, n_atoms = values.shape
    rng = random.generator
    live = np.arange(n_atoms)
    n_exchanges = n_updated = 0
    for budget in budgets:
        cone = Cone(values, live, rng)
        for turn in range(min(budget, max_exchanges - n_exchanges)):
            answer = cone.answer()
            if answer is not None:
                return answer[0], total * answer[1]
            cone.delete_interior()
            if len(cone.live) <= n_coordinates:
                raise MethodFailed("round-off deleted too many atoms")
            n_updated += cone.coefficients.size
            if n_updated > MAX_UPDATED_ENTRIES:
                raise MethodFailed(f"no cone found in {n_exchanges} exchanges")
            cone.turn(turn % n_coordinates, rng)
            n_exchanges += 1
        if n_exchanges >= max_exchanges:
            raise MethodFailed(f"no cone found in {max_exchanges} exchanges")
        live = cone.live
    raise MethodFailed(f"no cone found in {n_exchanges} exchanges")


def reduce_by_restarted_cone(coordinates: Coordinates, size: int, random):
    """Run the cone search with Luby restarts.

    Parameters
    ----------
    coordinates : Coordinates
    size : int
        Unused: the algorithm jumps to the smallest support.
    random : RandomSource
    """
    n_basis = len(coordinates.values) + 1
    budgets = (2 * n_basis * length for length in luby_sequence())
    return reduce_by_cone_search(
        coordinates, random, budgets, EXCHANGES_PER_ATOM * n_basis
    )


reduce_by_cone = in_coordinates(reduce_by_restarted_cone)
