"""Solvers: generators of rounds, and the loop that consumes them."""

from skcara.solvers._control import CONTROLS
from skcara.solvers._dispatch import SOLVERS, resolve_solver, start_rounds
from skcara.solvers._rounds import (
    HISTORY_DTYPE,
    Measure,
    Round,
    SolverResult,
    Status,
    run_rounds,
)

__all__ = [
    "CONTROLS",
    "HISTORY_DTYPE",
    "SOLVERS",
    "Measure",
    "Round",
    "SolverResult",
    "Status",
    "resolve_solver",
    "run_rounds",
    "start_rounds",
]
