r"""Hessians near some points, from what is known of others.

A row adds :math:`\ell''(z)\, x x^\top` to a Hessian, and the second derivative of a
logistic loss changes by less than a factor :math:`e^{|\Delta z|}`. So rows whose
predictions :math:`z` have hardly moved need not be summed anew: the sum is then the
Hessian at a point that differs from row to row, and the steps of a model with it are
wrong by a small share of their length. From one penalty to the next, and from fold to
fold, often only the rows of a few rare levels move.

Hessians are made from those that each fold had last, or from those that all of them
share, whichever takes fewer rows: the former where points stay, however far they are
from each other, and the latter where all of them move together.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from skcara.solvers.paths._fold_sample import FoldSample

#: Change of predictions within which a Hessian describes a loss.
MODEL_REACH = 1.0
# Change of the prediction of a row with which its term stays. If all of them changed so
# much the decrease that is left after a step would be an eighth; few do.
_KEPT_REACH = 0.35
# A change takes two sums over the rows that moved, of which there may be this share.
_MAX_MOVED = 0.5


class NearHessians:
    """Hessians of the mean losses of all folds, without penalty.

    Parameters
    ----------
    sample : FoldSample
    """

    def __init__(self, sample: FoldSample):
        self.sample = sample
        # A step with dense rows costs little against a Hessian, unless a read follows.
        self._pays = sparse.issparse(sample.rows) or not sample.is_everything
        self._shared = _Terms(sample.hessians)
        self._own = [
            _Terms(partial(self._hessian_of_fold, fold), weights > 0)
            for fold, weights in enumerate(sample.weights)
        ]

    def _hessian_of_fold(self, fold, predictions, chosen=None):
        return self.sample.hessian(predictions, self.sample.weights[fold], chosen)

    def near(self, params, folds) -> list[np.ndarray]:
        """Hessians of some folds, each near its own point.

        Parameters
        ----------
        params : ndarray of shape (n_points, n_params, n_outputs)
        folds : ndarray of int of shape (n_points,)
            All different.

        Returns
        -------
        hessians : list of ndarray of shape (n_coords, n_coords)
        """
        predictions = self.sample.predictions(params)
        if self.sample.has_cheap_hessians:
            weights = self.sample.weights[folds]
            return list(self.sample.own_hessians(predictions, weights))
        points = predictions.transpose(0, 2, 1)
        middle = points.mean(axis=0)
        if not self._pays:
            shared = self.sample.hessians(middle)
            return [shared[fold].copy() for fold in folds]
        own = [self._own[fold] for fold in folds]
        pairs = list(zip(own, points, strict=True))
        n_own = sum(terms.price(point) for terms, point in pairs)
        # What the own terms would have to change after the shared ones have.
        between = self._shared.after(middle)
        n_shared = self._shared.price(middle)
        n_shared += sum(terms.price(point, between) for terms, point in pairs)
        if n_shared < n_own:
            self._shared.move(middle)
            for fold, terms in zip(folds, own, strict=True):
                terms.take_over(self._shared, fold)
        for terms, point in pairs:
            terms.move(point)
        return [terms.hessian.copy() for terms in own]


class _Terms:
    """A Hessian, and the predictions with which the rows are in it.

    Parameters
    ----------
    sum_rows : callable
        Hessian at given predictions, of all rows or of those that are chosen.
    is_used : ndarray of bool of shape (n_rows,), optional
        Rows that have a weight; default all.
    """

    def __init__(self, sum_rows, is_used=True):
        self._sum_rows, self._is_used = sum_rows, is_used
        self.predictions: Any = None
        self.hessian: Any = None

    def take_over(self, shared, fold):
        """Begin with the terms of all folds."""
        self.predictions = shared.predictions.copy()
        self.hessian = shared.hessian[fold].copy()

    def price(self, predictions, before=None):
        """Number of rows that :meth:`move` would sum, from given predictions."""
        moved = self._moved(predictions, before)
        return len(moved) if moved.all() else 2 * np.count_nonzero(moved)

    def after(self, predictions):
        """Predictions with which the rows would be in the Hessian after a move."""
        if self.predictions is None:
            return predictions
        moved = self._moved(predictions)
        return np.where(moved[:, None], predictions, self.predictions)

    def move(self, predictions):
        """Sum the terms of rows anew whose predictions are others now."""
        moved = self._moved(predictions)
        if moved.all():
            self.hessian = self._sum_rows(predictions)
            self.predictions = predictions.copy()
        elif moved.any():
            self.hessian += self._sum_rows(predictions, moved)
            self.hessian -= self._sum_rows(self.predictions, moved)
            self.predictions[moved] = predictions[moved]

    def _moved(self, predictions, before=None):
        """Rows whose terms are wrong; all of them if there are many."""
        before = self.predictions if before is None else before
        if before is None:
            return np.ones(len(predictions), dtype=bool)
        change = np.abs(predictions - before).max(axis=1)
        moved = (change > _KEPT_REACH) & self._is_used
        return moved if moved.mean() <= _MAX_MOVED else np.ones_like(moved)
