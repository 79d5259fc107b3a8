"""Losses, penalty and the full-data objective that every solver minimises."""

from skcara.objective._criteria import Criterion, DualGap, KKTViolation
from skcara.objective._criteria import ResidualCorrelation as ResidualCorrelation
from skcara.objective._losses import (
    LogisticLoss,
    Loss,
    MultinomialLoss,
    SquaredLoss,
)
from skcara.objective._penalty import SeparablePenalty
from skcara.objective._problem import Evaluation, Groups, Problem

__all__ = [
    "Criterion",
    "DualGap",
    "Evaluation",
    "Groups",
    "KKTViolation",
    "LogisticLoss",
    "Loss",
    "MultinomialLoss",
    "Problem",
    "ResidualCorrelation",
    "SeparablePenalty",
    "SquaredLoss",
]
