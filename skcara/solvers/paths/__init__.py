"""Paths of penalties, from second moments or from shared reads."""

from skcara.solvers.paths._atom_sums import AtomSums
from skcara.solvers.paths._fold_column import MAX_SCORE_ERROR, Column
from skcara.solvers.paths._fold_problems import FoldProblems
from skcara.solvers.paths._fold_search import SearchRound, search_folds
from skcara.solvers.paths._full_fit import FullFit, FullFits
from skcara.solvers.paths._penalty_search import (
    Choice,
    FullPath,
    PenaltyGrid,
    SearchState,
    search_penalties,
    solve_full_path,
)

__all__ = [
    "MAX_SCORE_ERROR",
    "AtomSums",
    "Choice",
    "Column",
    "FoldProblems",
    "FullFit",
    "FullFits",
    "FullPath",
    "PenaltyGrid",
    "SearchRound",
    "SearchState",
    "search_folds",
    "search_penalties",
    "solve_full_path",
]
