"""Paths of penalties from second moments."""

from skcara.solvers.paths._atom_sums import AtomSums
from skcara.solvers.paths._penalty_search import (
    Choice,
    FullPath,
    PenaltyGrid,
    SearchState,
    first_task,
    search_penalties,
    solve_full_path,
)

__all__ = [
    "AtomSums",
    "Choice",
    "FullPath",
    "PenaltyGrid",
    "SearchState",
    "first_task",
    "search_penalties",
    "solve_full_path",
]
