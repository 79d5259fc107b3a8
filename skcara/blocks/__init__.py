"""Which coordinates move in a round: partitions, selection rules and their names."""

from skcara.blocks._partition import PARTITIONS, Candidates, make_candidates
from skcara.blocks._registry import (
    DIRECTIONS,
    SELECTIONS,
    check_rule,
    is_valid_rule,
    make_selection,
    resolve_fraction,
    rule_names,
    rule_params,
)
from skcara.blocks._selection import Curvature, SelectionRule

__all__ = [
    "DIRECTIONS",
    "PARTITIONS",
    "SELECTIONS",
    "Candidates",
    "Curvature",
    "SelectionRule",
    "check_rule",
    "is_valid_rule",
    "make_candidates",
    "make_selection",
    "resolve_fraction",
    "rule_names",
    "rule_params",
]
