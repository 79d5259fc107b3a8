"""What a search over folds and penalties minimises."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skcara.data import Coordinates, Facts, FoldSets
from skcara.objective import KKTViolation, Loss, Problem, SeparablePenalty


@dataclass(frozen=True, eq=False)
class FoldProblems:
    """What a search minimises.

    Attributes
    ----------
    facts : Facts
    loss : Loss
    coordinates : Coordinates
        Those of the solver.
    sets : FoldSets
    labels : labels
        Atoms of the rows by their numbers.
    penalties : list of list of SeparablePenalty
        In the user's coordinates, for each fold and penalty.
    chains : list of list of int
        Numbers of penalties from strong to weak, each chain beginning anew.
    train_weights, test_weights : ndarray of shape (n_folds,)
        Total weights of the sets.
    units : list of Coordinates or None
        In which violations are measured, for each fold; None means the user's.
    has_test : bool
        Whether scores are asked for.
    test_factors : ndarray of shape (n_classes,), optional
        By which the weight of a row is multiplied in scores, for each class.
    """

    facts: Facts
    loss: Loss
    coordinates: Coordinates
    sets: FoldSets
    labels: Any
    penalties: list[list[SeparablePenalty]]
    chains: list[list[int]]
    train_weights: np.ndarray
    test_weights: np.ndarray
    units: list[Coordinates] | None = None
    has_test: bool = True
    test_factors: np.ndarray | None = None

    def problem(self, fold: int, number: int) -> Problem:
        """The problem of one fold and penalty."""
        facts = replace(self.facts, total_weight=float(self.train_weights[fold]))
        penalty = self.penalties[fold][number]
        units = None if self.units is None else self.units[fold]
        return Problem(
            facts, self.loss, penalty, KKTViolation(), self.coordinates, units=units
        )

    @property
    def all_rows(self) -> Problem:
        """A problem on all rows, of the first penalty."""
        penalty = self.penalties[0][0]
        return Problem(self.facts, self.loss, penalty, KKTViolation(), self.coordinates)
