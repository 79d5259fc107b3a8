r"""The cone algorithm on groups, "log" in Cosentino, Oberhauser and Abate.

The cone search needs a number of exchanges that hardly depends on the number of
atoms, but each one reads all of them. On :math:`50(n + 1)` group barycentres it is
cheap, and each level keeps one atom in fifty: :math:`O(Nn)` plus
:math:`O(\log N)` searches. The last search must not be left with about :math:`n` atoms,
where it is exponential; atoms are held back from the last level of groups, so that it
has about :math:`50(n + 1)` of them too.

References
----------
See `_cone`.
"""

from skcara.recombination._cone import reduce_by_cone
from skcara.recombination._tree import groups_per_dimension, through_groups

# The value of the article; `bench_recombine.py` compares the methods.
GROUPS_PER_DIMENSION = 50

reduce_by_log = through_groups(
    groups_per_dimension(GROUPS_PER_DIMENSION), reduce_by_cone, least_last_atoms=True
)
