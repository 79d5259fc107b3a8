"""Groups of consecutive rows that are recombined as a whole.

The pass that gives the gradient also gives its sums over groups of rows. Recombination
keeps a few of the groups with new masses; the rows of a group that is kept share its
mass in proportion to their weights. Neither needs the rows themselves.
"""

from dataclasses import dataclass

import numpy as np

from skcara.objective import Groups
from skcara.recombination import recombine_groups

# Bytes of the group sums of a pass.
_MAX_GROUP_BYTES = 2**26


@dataclass(frozen=True)
class KeptRows:
    """Rows of the groups that a recombination keeps.

    Attributes
    ----------
    indices : ndarray of int, ascending
    factors : ndarray of float
        What the weights ``mu`` of these rows are multiplied by.
    residual : float
        Of the moments of the groups.
    """

    indices: np.ndarray
    factors: np.ndarray
    residual: float


def keep_groups(sums, groups: Groups, **options) -> KeptRows:
    """Recombine groups.

    Parameters
    ----------
    sums : ndarray of shape (n_groups, n_statistics)
        Sum of ``mu_i`` times the statistics of row ``i`` over each group.
    groups : Groups
        Masses and rows of the groups.
    **options
        Of :func:`~skcara.recombination.recombine_groups`.

    Raises
    ------
    RecombinationError
        If no measure was found.
    """
    masses, offsets = groups.masses, groups.offsets
    kept = recombine_groups(sums, masses, offsets, **options)
    # There the mass of a group is spread evenly over its rows.
    owner = np.searchsorted(offsets, kept.indices, side="right") - 1
    lengths = (offsets[1:] - offsets[:-1])[owner]
    factors = kept.weights * lengths / masses[owner]
    return KeptRows(kept.indices, factors, kept.residual)


def affordable_group_rows(problem, wanted: float) -> int:
    """Rows of a group: the next power of two for which the sums fit in memory.

    Parameters
    ----------
    problem : Problem
    wanted : float
        Rows of a group if there were memory for any number of groups.

    Returns
    -------
    group_rows : int
        A power of two, at most ``problem.facts.chunk_rows``.
    """
    affordable = problem.n_rows * problem.n_coords * 8 / _MAX_GROUP_BYTES
    exponent = int(np.ceil(np.log2(max(wanted, affordable, 1.0))))
    return min(2**exponent, problem.facts.chunk_rows)
