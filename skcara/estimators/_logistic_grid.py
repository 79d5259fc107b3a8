"""The problems of a search over the penalties of logistic regression."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from skcara.data import Coordinates, Source
from skcara.objective import (
    KKTViolation,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    SeparablePenalty,
)
from skcara.solvers import standardised
from skcara.solvers.paths import FoldProblems


def check_cs(Cs) -> np.ndarray:
    """Return the inverse penalties; a number of them means scikit-learn's grid.

    Raises
    ------
    ValueError
        If there is none, or one of them is not positive.
    """
    if isinstance(Cs, Integral):
        return np.logspace(-4, 4, int(Cs))
    values = list(Cs)
    if not values or not all(isinstance(value, Real) for value in values):
        raise ValueError(f"Cs must be a number or a list of numbers, got {Cs!r}.")
    if not all(value > 0 for value in values):
        raise ValueError(f"Cs must be positive, got {Cs!r}.")
    return np.array(values, dtype=np.float64)


def check_ratios(l1_ratios) -> np.ndarray:
    """Return the shares of the L1 term.

    Raises
    ------
    ValueError
        If there is none, or one of them is not a number in [0, 1].
    """
    ratios = list(l1_ratios)
    are_numbers = all(isinstance(one, Real) for one in ratios)
    if not (ratios and are_numbers and all(0 <= one <= 1 for one in ratios)):
        raise ValueError(
            "l1_ratios must be an array-like of numbers between 0 and 1, got "
            f"{l1_ratios!r}."
        )
    return np.array(ratios, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LogisticGrid:
    """Penalties of a search, numbered by ratio, then by C.

    Attributes
    ----------
    Cs : ndarray of shape (n_cs,)
    ratios : ndarray of shape (n_l1_ratios,)
    n_classes : int
    fit_intercept : bool
    """

    Cs: np.ndarray
    ratios: np.ndarray
    n_classes: int
    fit_intercept: bool

    @property
    def shape(self):
        """Number of ratios and of Cs."""
        return len(self.ratios), len(self.Cs)

    @property
    def loss(self):
        """Loss of the classes."""
        n_classes = self.n_classes
        return LogisticLoss() if n_classes == 2 else MultinomialLoss(n_classes)

    def penalty(self, number: int, total_weight: float, scale) -> SeparablePenalty:
        """A penalty of the mean loss, in the user's coordinates.

        Parameters
        ----------
        number : int
        total_weight : float
            Of the rows whose mean loss it is.
        scale : ndarray of shape (n_features,)
            What features are divided by before they are penalised.
        """
        ratio, position = divmod(number, len(self.Cs))
        strength = 1.0 / (self.Cs[position] * total_weight)
        ratio = self.ratios[ratio]
        intercept = np.zeros(int(self.fit_intercept))
        l1 = np.concatenate([strength * ratio * scale, intercept])
        l2 = np.concatenate([strength * (1.0 - ratio) * scale**2, intercept])
        return SeparablePenalty(
            l1[:, None], l2[:, None], np.zeros((len(l1), 1), dtype=bool)
        )

    def fold_problems(self, source: Source, folds, weights, units, **test):
        """All folds and penalties.

        Parameters
        ----------
        source : Source
        folds : pair of FoldSets and labels
        weights : pair of ndarray of shape (n_folds,)
            Total weights of training and test sets.
        units : list of Coordinates
            In which features are penalised, for each fold.
        **test
            What :class:`~skcara.solvers.paths.FoldProblems` has to know about scores.
        """
        (sets, labels), (train_weights, test_weights) = folds, weights
        n_penalties = len(self.ratios) * len(self.Cs)
        penalties = [
            [self.penalty(number, weight, one.scale) for number in range(n_penalties)]
            for weight, one in zip(train_weights, units, strict=True)
        ]
        weak_last = np.argsort(self.Cs, kind="stable")
        chains = [
            (first + weak_last).tolist()
            for first in range(0, n_penalties, len(self.Cs))
        ]
        coordinates = standardised(source, self.fit_intercept)
        return FoldProblems(
            source.facts,
            self.loss,
            coordinates,
            sets,
            labels,
            penalties,
            chains,
            train_weights,
            test_weights,
            units,
            **test,
        )

    def full_problem(self, source: Source, number: int, units) -> Problem:
        """The problem of one penalty on all rows, in the user's coordinates."""
        facts = source.facts
        return Problem(
            facts,
            self.loss,
            self.penalty(number, facts.total_weight, units.scale),
            KKTViolation(),
            Coordinates.of_user(facts.n_features, self.fit_intercept),
            units=units,
        )
