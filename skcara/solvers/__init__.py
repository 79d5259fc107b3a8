"""Solvers: generators of requests and rounds, and the driver that answers them."""

from skcara.solvers._driver import Solver, answer_all, drive, drive_search
from skcara.solvers._registry import SOLVERS, SolverFactory, resolve_solver
from skcara.solvers._rounds import (
    HISTORY_DTYPE,
    Measure,
    Report,
    Round,
    SolverResult,
    Status,
)
from skcara.solvers._standardise import standardised
from skcara.solvers._strategy import Way
from skcara.solvers.descent import CONTROLS

__all__ = [
    "CONTROLS",
    "HISTORY_DTYPE",
    "SOLVERS",
    "Measure",
    "Report",
    "Round",
    "Solver",
    "SolverFactory",
    "SolverResult",
    "Status",
    "Way",
    "answer_all",
    "drive",
    "drive_search",
    "resolve_solver",
    "standardised",
]
