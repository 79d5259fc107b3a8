"""Searches of the benchmarks: data, folds and grids of penalties.

A search has the data of a :class:`problems.BenchProblem`, a splitter, and the grid that
every rival gets: penalties of the mean objective
``strength * (l1_ratio |coef|_1 + (1 - l1_ratio) / 2 |coef|^2)``, from strong to weak.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from problems import (
    BenchProblem,
    covtype,
    household,
    load_arrays,
    logistic_gaussian,
    squared_gaussian,
)
from sklearn.model_selection import KFold, StratifiedKFold

N_FOLDS = 5
RIDGE_STRENGTHS = np.geomspace(1e2, 1e-4, 20)
CS = np.geomspace(1e-4, 1e4, 10)
"""The grid of ``LogisticRegressionCV(Cs=10)``."""


@dataclass(frozen=True)
class SearchProblem:
    """One search.

    Attributes
    ----------
    name : str
        Keys results and the cache of exact scores.
    loss : {"squared", "logistic"}
    X : ndarray or csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Real targets, or class codes 0 and 1.
    splitter : splitter of scikit-learn
    l1_ratios : tuple of float
    """

    name: str
    loss: str
    X: object
    y: np.ndarray
    splitter: object
    l1_ratios: tuple = (1.0,)

    @cached_property
    def splits(self):
        """Pairs of arrays of training and test rows."""
        return list(self.splitter.split(self.X, self.y))

    @cached_property
    def strengths(self):
        """Strengths in mean form on all rows, shape (n_l1_ratios, n_penalties)."""
        if self.loss != "squared":
            return np.tile(1.0 / (len(self.y) * CS), (len(self.l1_ratios), 1))
        if self.l1_ratios == (0.0,):
            return RIDGE_STRENGTHS[None]
        # Where the first coefficient appears, and 100 steps down to a thousandth.
        largest = np.abs(self.X.T @ (self.y - self.y.mean())).max() / len(self.y)
        return np.array([np.geomspace(1, 1e-3, 100) / r for r in self.l1_ratios]) * (
            largest
        )

    def fold_strengths(self, fold):
        """The same on the training rows of a fold.

        The C of scikit-learn multiplies a sum, so that a fold with fewer rows has a
        stronger penalty; an alpha is in mean form already.
        """
        if self.loss == "squared":
            return self.strengths
        return self.strengths * len(self.y) / len(self.splits[fold][0])


def folds(loss, *, shuffle=False):
    """The splitter behind ``cv=5``, or the same with shuffled rows."""
    splitter = KFold if loss == "squared" else StratifiedKFold
    return splitter(N_FOLDS, shuffle=shuffle, random_state=0 if shuffle else None)


def search(name, build, *, shuffle=False, l1_ratios=None):
    """Build the data and put folds and ratios to them."""
    data = build()
    if l1_ratios is None:
        l1_ratios = (1.0,) if data.loss == "squared" else (0.0,)
    splitter = folds(data.loss, shuffle=shuffle)
    problem = SearchProblem(name, data.loss, data.X, data.y, splitter, l1_ratios)
    # Made here, so that no rival pays for them.
    _ = problem.splits, problem.strengths
    return problem


def adult(data_dir=None):
    """The a9a version of the Adult data: 123 binary columns, as CSR."""
    from scipy.sparse import csr_array

    arrays = load_arrays(data_dir, "a9a.npz")
    X, y = csr_array(arrays["X"].astype(float)), (arrays["y"] > 0).astype(float)
    return BenchProblem("a9a", "logistic", X, y)


def far_from_zero(n_rows, n_features):
    """A Lasso whose columns are a million standard deviations away from zero."""
    data = squared_gaussian(n_rows, n_features)
    return replace(data, X=data.X + 1e6 * data.X.std(axis=0))


FOUR_RATIOS = (0.1, 0.5, 0.9, 1.0)
SYNTHETIC = {
    "lasso-n20": ((squared_gaussian, 1_000_000, 20), {}),
    "lasso-n20-shuffled": ((squared_gaussian, 1_000_000, 20), {"shuffle": True}),
    "lasso-n100": ((squared_gaussian, 1_000_000, 100), {}),
    "lasso-n500": ((squared_gaussian, 100_000, 500), {}),
    "lasso-small": ((squared_gaussian, 5_000, 20), {}),
    "lasso-offset": ((far_from_zero, 1_000_000, 20), {}),
    "lasso-offset-shuffled": ((far_from_zero, 1_000_000, 20), {"shuffle": True}),
    "elastic-net": ((squared_gaussian, 1_000_000, 20), {"l1_ratios": FOUR_RATIOS}),
    "ridge-n20": ((squared_gaussian, 1_000_000, 20), {"l1_ratios": (0.0,)}),
    "ridge-n100": ((squared_gaussian, 1_000_000, 100), {"l1_ratios": (0.0,)}),
    "logistic-n20": ((logistic_gaussian, 1_000_000, 20), {}),
    "logistic-n50": ((logistic_gaussian, 1_000_000, 50), {}),
    "logistic-l1": ((logistic_gaussian, 200_000, 20), {"l1_ratios": (1.0,)}),
    "quick-lasso": ((squared_gaussian, 3_000, 5), {"shuffle": True}),
    "quick-elastic-net": ((squared_gaussian, 3_000, 5), {"l1_ratios": (0.5, 1.0)}),
    "quick-ridge": ((squared_gaussian, 3_000, 5), {"l1_ratios": (0.0,)}),
    "quick-logistic": ((logistic_gaussian, 3_000, 5), {}),
    "quick-logistic-l1": ((logistic_gaussian, 3_000, 5), {"l1_ratios": (1.0,)}),
}
"""Functions with their arguments, and what is asked of the folds and ratios."""

REAL = {
    "household": (household, {}),
    "covtype-shuffled": (covtype, {"shuffle": True}),
    "covtype": (covtype, {}),
    "a9a": (adult, {}),
}
"""The same, built from ``data_dir``."""

QUICK = tuple(name for name in SYNTHETIC if name.startswith("quick"))
FULL = (*(name for name in SYNTHETIC if name not in QUICK), *REAL)


def make_search(name, data_dir=None):
    """Build a search by name; MissingDataError if its file is not there."""
    if name in REAL:
        build, options = REAL[name]
        return search(name, partial(build, data_dir), **options)
    (build, *arguments), options = SYNTHETIC[name]
    return search(name, partial(build, *arguments), **options)
