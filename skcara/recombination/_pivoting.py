r"""Reduction by pivoting, this library's own algorithm.

Derivation
----------
In the coordinates of `_coordinates`, write :math:`M` for the matrix with a row of
ones on top of ``values`` and :math:`t = (W, 0, \dots, 0)` for the moments. Any
:math:`r + 1` affinely independent atoms form a basis :math:`B` of the columns of
:math:`M`. If all mass moved to the basis, it would have to be

.. math:: z = B^{-1} t,

``goal`` in the code: :math:`W` times the first column of the inverse. If
:math:`z \ge 0` the basis with masses :math:`z` is the answer. Otherwise move all masses
along the segment from where they are to :math:`z`: basis atoms go from :math:`w_B`
to :math:`z`, every other atom shrinks by the same factor :math:`1 - \alpha`. Mass and
mean hold on the whole segment. The first basis atom :math:`i` to vanish is removed for
good, and an atom :math:`x` takes its place: the one with the most negative
:math:`(B^{-1} M)_{ix}`, for which the new goal :math:`z_i / (B^{-1}M)_{ix}` is positive
and the exchange is best conditioned.

Such an atom exists: :math:`z_i = w_i + \sum_x (B^{-1}M)_{ix} w_x` is negative while all
masses are not. Every step removes one atom, so the algorithm ends; it is a dual simplex
method that cannot cycle, because it keeps an interior solution at its side. An
exchange costs one product with the matrix of atoms, and about ``r`` exchanges
suffice whatever the number of atoms (elimination removes atoms one at a time).

The start matters. `Coordinates.independent` are ``r`` far-out atoms; the last basis
atom is the one most opposite to them, so the first simplex is large and often contains
the centre already.
"""

from __future__ import annotations

import numpy as np

from skcara.recombination._basis import exchange
from skcara.recombination._coordinates import EPS, Atoms, Coordinates
from skcara.recombination._moments import Rows, group_moments
from skcara.recombination._tree import in_coordinates, reduce_groups, through_groups
from skcara.recombination._validation import RandomSource

# Exchanges after which the inverse is computed anew.
MAX_UPDATES = 100

# An exchange reads all atoms. Up to this many entries that costs less than grouping
# the atoms first; beyond, a few groups per dimension suffice.
SMALL_ENTRIES = 1 << 14
GROUPS_PER_DIMENSION = 16


class Simplex:
    """Affinely independent atoms with their masses; the others keep a common share.

    Attributes
    ----------
    atoms : ndarray of shape (n_moments,)
        Positions of the basis atoms.
    masses : ndarray of shape (n_moments,)
        Their masses now.
    share : float
        What is left of the mass of every atom that has not been in the basis.
    is_fresh : bool
        Whether the inverse has been computed from the atoms, not updated.
    """

    def __init__(self, coordinates: Coordinates):
        values, independent, self._weights = coordinates
        self._total = self._weights.sum()
        self._columns = np.empty((len(values) + 1, values.shape[1]))
        self._columns[0] = 1.0
        self._columns[1:] = values
        self.atoms = np.append(independent, most_opposite_atom(values, independent))
        self.masses = self._weights[self.atoms]
        self.share = 1.0
        self._basis = self._columns[:, self.atoms]
        # A zero column never has the most negative entry: basis atoms and removed
        # atoms are taken out of the choice without a mask.
        self._columns[:, self.atoms] = 0.0
        self.factorise()

    def factorise(self) -> None:
        """Compute the inverse from the basis atoms."""
        self._inverse = np.linalg.inv(self._basis)
        self._n_updates = 0

    @property
    def is_fresh(self) -> bool:
        return self._n_updates == 0

    def goal(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the masses if the basis had to carry all, and the negative ones."""
        goal = self._total * self._inverse[:, 0]
        round_off = 4 * EPS * len(goal) * self._total
        return goal, (goal < -round_off).nonzero()[0]

    def move_towards(self, goal: np.ndarray, negative: np.ndarray) -> int:
        """Move all masses until a basis atom vanishes; return its place."""
        falling = self.masses[negative]
        steps = falling / (falling - goal[negative])
        first = steps.argmin()
        self.masses += steps[first] * (goal - self.masses)
        self.share *= 1.0 - steps[first]
        return negative[first]

    def opposite_atom(self, place: int) -> int | None:
        """Return the atom with the most negative coefficient at this place, if any."""
        coefficients = self._inverse[place] @ self._columns
        atom = coefficients.argmin()
        return atom if coefficients[atom] < 0.0 else None

    def replace(self, place: int, atom: int) -> None:
        """Put an atom in the place of the one that vanished."""
        column = self._columns[:, atom].copy()
        self._columns[:, atom] = 0.0
        self._basis[:, place] = column
        self.atoms[place] = atom
        self.masses[place] = self.share * self._weights[atom]
        if self._n_updates == MAX_UPDATES:
            self.factorise()
        else:
            exchange(self._inverse, self._inverse @ column, place)
            self._n_updates += 1


def pivot_to_simplex(
    coordinates: Coordinates, size: int, random: RandomSource
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions and masses of at most ``r + 1`` atoms.

    Parameters
    ----------
    coordinates : Coordinates
    size : int
        Unused: the algorithm jumps to the smallest support.
    random : RandomSource
        Unused: the algorithm is deterministic.
    """
    simplex = Simplex(coordinates)
    while True:
        goal, negative = simplex.goal()
        if negative.size:
            place = simplex.move_towards(goal, negative)
            atom = simplex.opposite_atom(place)
            if atom is None:
                break  # the negative goal is round-off: no atom could have caused it
            simplex.replace(place, atom)
        elif simplex.is_fresh:
            break
        else:
            simplex.factorise()
    return simplex.atoms, np.maximum(goal, 0.0)


def most_opposite_atom(values: np.ndarray, independent: np.ndarray) -> int:
    r"""Return the atom that completes independent atoms to an affine basis.

    With :math:`T = Z_I^{-1} Z`, atom :math:`x` is affinely independent of the atoms
    :math:`I` unless :math:`\sum_i T_{ix} = 1`. These sums have weighted mean zero, so
    the smallest one is not positive.
    """
    functional = np.linalg.solve(values[:, independent].T, np.ones(len(independent)))
    return int((functional @ values).argmin())


def count_groups(n_columns: int) -> int:
    """Return the number of atoms from which on they are grouped first."""
    n_moments = n_columns + 1
    return max(GROUPS_PER_DIMENSION * n_moments, SMALL_ENTRIES // n_moments)


def pivot_early(atoms: Atoms, target: int | None, random: RandomSource):
    """Reduce by pivoting to about `target` atoms.

    Pivoting leaves ``r + 1`` atoms and has nothing to stop early. Where more are
    allowed, it keeps ``r + 1`` groups of as many atoms as the target has room for.
    """
    group_size = 0 if target is None else target // (atoms.points.shape[1] + 1)
    if target is None or group_size < 2 or len(atoms.weights) <= target:
        return in_coordinates(pivot_to_simplex)(atoms, target, random)
    moments = group_moments(Rows(atoms.points, atoms.weights), group_size)
    kept, factors, _ = reduce_groups(
        moments,
        len(atoms.weights),
        atoms.peak,
        in_coordinates(pivot_to_simplex),
        target,
        random,
    )
    return kept, atoms.weights[kept] * factors


reduce_by_pivoting = through_groups(count_groups, pivot_early)
