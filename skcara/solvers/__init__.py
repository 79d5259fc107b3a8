"""Solvers: generators of rounds, and the loop that consumes them."""

from skcara.solvers._rounds import (
    HISTORY_DTYPE,
    Measure,
    Round,
    SolverResult,
    Status,
    run_rounds,
)

__all__ = [
    "HISTORY_DTYPE",
    "Measure",
    "Round",
    "SolverResult",
    "Status",
    "run_rounds",
]
