"""Names of the rules, which of them fit together, and how to make one.

A rule of the article is called ``partition_selection_direction``. To add a
selection rule, write its class and add one line to ``SELECTIONS``; its attributes
``on_variable`` and ``on_fixed`` say which partitions it is defined for.
"""

from collections.abc import Collection

from skcara.blocks._greedy import GS, GSD, GSL, GSQ, IHT, GSDHb
from skcara.blocks._partition import PARTITIONS, make_candidates
from skcara.blocks._selection import Cyclic, Lipschitz, Perm, Random, SelectionRule

SELECTIONS: dict[str, type[SelectionRule]] = {
    "GS": GS,
    "Random": Random,
    "Cyclic": Cyclic,
    "Perm": Perm,
    "Lipschitz": Lipschitz,
    "GSD": GSD,
    "GSL": GSL,
    "GSDHb": GSDHb,
    "GSQ": GSQ,
    "IHT": IHT,
}

DIRECTIONS = ("gradient", "Lb", "Hb")

# The article's shares for its two algorithms.
_ARTICLE_FRACTIONS = {("VB", "GS"): 0.75, ("VB", "Random"): 0.5}


def is_valid_rule(partition, selection):
    """Whether the selection rule is defined for the partition."""
    rule = SELECTIONS[selection]
    return rule.on_fixed if PARTITIONS[partition].is_fixed else rule.on_variable


def rule_names(directions=("Lb", "Hb")):
    """Names ``partition_selection_direction`` of all valid rules.

    Parameters
    ----------
    directions : sequence of str, default=("Lb", "Hb")
        Directions to combine with; the default is that of Nutini et al.

    Returns
    -------
    names : list of str
        Such as ``"VB_GS_Lb"``.
    """
    return [
        f"{partition}_{selection}_{direction}"
        for partition in PARTITIONS
        for selection in SELECTIONS
        for direction in directions
        if is_valid_rule(partition, selection)
    ]


def check_rule(partition, selection):
    """Raise a ValueError that says what fits unless the two fit together.

    Parameters
    ----------
    partition, selection : str
        Names in ``PARTITIONS`` and ``SELECTIONS``.
    """
    if is_valid_rule(partition, selection):
        return
    selections = [name for name in SELECTIONS if is_valid_rule(partition, name)]
    partitions = [name for name in PARTITIONS if is_valid_rule(name, selection)]
    raise ValueError(
        f"selection={selection!r} is not defined for partition={partition!r}. Choose "
        f"selection from {selections} for partition={partition!r}, or partition from "
        f"{partitions} for selection={selection!r}."
    )


def rule_params(name):
    """Estimator parameters of a rule of the article.

    Parameters
    ----------
    name : str
        ``partition_selection_direction``, for example ``"VB_GS_Lb"``; the suffix
        ``_CA``, by which the article marks the reduced measure, is accepted. With
        ``fraction=None`` the estimator moves one block a round, as in the
        article's comparison of the rules.

    Returns
    -------
    params : dict
        ``partition``, ``selection`` and ``direction``.

    Examples
    --------
    >>> from skcara.blocks import rule_params
    >>> rule_params("Sort_GSL_Hb_CA")
    {'partition': 'Sort', 'selection': 'GSL', 'direction': 'Hb'}
    """
    parts = name.removesuffix("_CA").split("_")
    known: tuple[Collection[str], ...] = (PARTITIONS, SELECTIONS, DIRECTIONS)
    if len(parts) != 3 or any(
        part not in names for part, names in zip(parts, known, strict=True)
    ):
        raise ValueError(
            f"{name!r} is not a rule. A rule is partition_selection_direction with a "
            f"partition from {list(PARTITIONS)}, a selection from {list(SELECTIONS)} "
            f"and a direction from {list(DIRECTIONS)}."
        )
    partition, selection, direction = parts
    check_rule(partition, selection)
    return {"partition": partition, "selection": selection, "direction": direction}


def resolve_fraction(fraction, partition, selection):
    """Replace ``"auto"`` by the share it stands for; keep any other value.

    Parameters
    ----------
    fraction : "auto", float or None
        The estimator's parameter.
    partition, selection : str
        Names of the rule.

    Returns
    -------
    fraction : float or None
        The article's shares for its own two rules, one block a round otherwise.
    """
    if fraction == "auto":
        return _ARTICLE_FRACTIONS.get((partition, selection))
    return fraction


def make_selection(
    partition, selection, *, n_coords, block_size, fraction=None, curvature
):
    """Make the selection rule for one run of a solver.

    Parameters
    ----------
    partition, selection : str
        Names of a valid rule.
    n_coords : int
        Number of coordinates.
    block_size : int
        Coordinates per block; more than `n_coords` means one block.
    fraction : float or None
        Share that moves in one round.
    curvature : Curvature
        Bounds of the second derivatives, for the partitions that sort.

    Returns
    -------
    rule : SelectionRule
        Ready to select.
    """
    check_rule(partition, selection)
    candidates = make_candidates(partition, n_coords, block_size, curvature)
    return SELECTIONS[selection](candidates, fraction)
