"""Losses, penalty and the full-data objective that every solver minimises."""

from skcara.objective._criteria import (
    ColumnMoments,
    Criterion,
    DualGap,
    KKTViolation,
    ResidualCorrelation,
)
from skcara.objective._loss import ClassLoss, Loss
from skcara.objective._losses import LogisticLoss, SquaredLoss
from skcara.objective._multinomial import MultinomialLoss
from skcara.objective._penalty import SeparablePenalty, violation
from skcara.objective._problem import Evaluation, Groups, Problem

__all__ = [
    "ClassLoss",
    "ColumnMoments",
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
    "violation",
]
