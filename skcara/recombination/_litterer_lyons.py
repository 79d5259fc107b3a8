r"""Litterer and Lyons: halve the number of atoms, one elimination at a time.

The rows are cut into :math:`2(n + 1)` groups, the barycentres are reduced to at most
:math:`n + 1` by :math:`n + 1` eliminations, each with a fresh null vector as in
`_davis`, and the members of the other groups are gone: half of the rows per level. A
level costs :math:`O(n^4)` beside the group sums, :math:`O(Nn + n^4 \log(N/n))` in all.

References
----------
Litterer, C. and Lyons, T. (2012). High order recombination and an application to
cubature on Wiener space. Annals of Applied Probability 22(4). doi:10.1214/11-AAP786
"""

from skcara.recombination._davis import reduce_by_davis
from skcara.recombination._tree import (
    groups_per_dimension,
    in_coordinates,
    through_groups,
)

reduce_by_litterer_lyons = through_groups(
    groups_per_dimension(2), in_coordinates(reduce_by_davis)
)
