r"""Hessians near some points, from what is known of others.

A row adds :math:`\ell''(z)\, x x^\top` to a Hessian, and the second derivative of a
logistic loss changes by less than a factor :math:`e^{|\Delta z|}`. So rows whose
predictions :math:`z` have hardly moved need not be summed anew: the sum is then the
Hessian at a point that differs from row to row, and the steps of a model with it are
wrong by a small share of their length. From one penalty to the next, and from fold to
fold, often only the rows of a few rare levels move.
"""

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
        self._is_empty = True
        # With which predictions every row is in the Hessians that all folds share.
        self._predictions = self._shared = np.zeros(0)

    def near(self, params, folds) -> list[np.ndarray]:
        """Hessians of some folds, each near its own point.

        They are those of a point between all of them, except for rows that are
        predicted otherwise.

        Parameters
        ----------
        params : ndarray of shape (n_points, n_params, n_outputs)
        folds : ndarray of int of shape (n_points,)

        Returns
        -------
        hessians : list of ndarray of shape (n_coords, n_coords)
        """
        predictions = self.sample.predictions(params)
        if self.sample.has_cheap_hessians:
            return list(
                self.sample.own_hessians(predictions, self.sample.weights[folds])
            )
        predictions = predictions.transpose(0, 2, 1)
        if not self._pays:
            shared = self.sample.hessians(predictions.mean(axis=0))
            return [shared[fold].copy() for fold in folds]
        self._move(predictions.mean(axis=0))
        return [self._own(*point) for point in zip(predictions, folds, strict=True)]

    def _move(self, predictions):
        """Sum the terms of rows anew whose predictions are others now."""
        moved = self._moved(predictions)
        if moved is None:
            self._shared = self.sample.hessians(predictions)
            self._predictions, self._is_empty = predictions, False
        elif moved.any():
            self._shared += self.sample.hessians(predictions, moved)
            self._shared -= self.sample.hessians(self._predictions, moved)
            self._predictions[moved] = predictions[moved]

    def _own(self, predictions, fold):
        weights = self.sample.weights[fold]
        moved = self._moved(predictions, weights > 0)
        if moved is None:
            return self.sample.hessian(predictions, weights)
        hessian = self._shared[fold].copy()
        if moved.any():
            hessian += self.sample.hessian(predictions, weights, moved)
            hessian -= self.sample.hessian(self._predictions, weights, moved)
        return hessian

    def _moved(self, predictions, is_used=True):
        """Rows whose terms are wrong; None if so many that all are summed anew."""
        if self._is_empty:
            return None
        change = np.abs(predictions - self._predictions).max(axis=1)
        moved = (change > _KEPT_REACH) & is_used
        return None if moved.mean() > _MAX_MOVED else moved
