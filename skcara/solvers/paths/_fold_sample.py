r"""Sampled rows with the weights that they have in every training set.

All folds share the rows of one sample; fold :math:`f` gives weight zero to those that
it holds out. So the products with the rows are formed for all folds at once, and, where
folds consist of few atoms, the Hessians of all folds are sums of the same Hessians of
atoms: they cost together what one costs alone, if they are taken at one point.
"""

import numpy as np
from scipy import sparse

from skcara.data import FoldSets, row_range, squared
from skcara.objective import Loss

# Predictions and copied entries of rows that are made at a time stay in the cache.
_PART_PREDICTIONS = 2**16
_PART_ENTRIES = 2**17
# Effective number of rows behind a Hessian entry of a fold below which it is
# concentrated, and rows from which that is estimated.
_MIN_EFFECTIVE_ROWS = 1500
_CHECKED_ROWS = 8192


class FoldSample:
    """Rows that represent the training sets of all folds.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
    target, shares : ndarray of shape (n_rows,)
        Shares: what each row stands for.
    atom : ndarray of int of shape (n_rows,) or (n_rows, n_batches)
        Labels of the rows.
    sets : FoldSets
    loss : Loss
    """

    def __init__(self, rows, target, shares, atom, sets: FoldSets, loss: Loss):
        if sets.atoms is not None:
            order = np.argsort(atom, kind="stable")
            if not np.array_equal(order, np.arange(len(order))):
                rows, target = rows[order], target[order]
                shares, atom = shares[order], atom[order]
        self.rows, self.target, self.loss = rows, target, loss
        self._shares, self._atom, self._sets = shares, atom, sets
        self.n_rows, self.n_params = rows.shape
        self.n_folds = sets.n_folds
        # What a row counts in each fold, summing to one.
        self.weights = sets.counts(atom)[0] * shares
        totals = self.weights.sum(axis=1, keepdims=True)
        self.weights /= np.where(totals > 0, totals, 1.0)

    def strided(self, stride: int) -> "FoldSample":
        """Every so-manieth row."""
        part = slice(None, None, stride)
        return FoldSample(
            self.rows[part],
            self.target[part],
            self._shares[part],
            self._atom[part],
            self._sets,
            self.loss,
        )

    def evaluate(self, params, folds):
        """Mean losses and gradients of some folds.

        Parameters
        ----------
        params : ndarray of shape (n_points, n_params, n_outputs)
        folds : ndarray of int of shape (n_points,)

        Returns
        -------
        losses : ndarray of shape (n_points,)
        gradients : ndarray of the shape of ``params``
        """
        n_points, n_params, n_outputs = params.shape
        coef = params.transpose(0, 2, 1).reshape(-1, n_params)
        losses, gradients = np.zeros(n_points), np.zeros_like(coef)
        for part in self._parts(_PART_PREDICTIONS // len(coef)):
            rows = row_range(self.rows, part.start, part.stop)
            scores = rows @ coef.T if sparse.issparse(rows) else (coef @ rows.T).T
            scores = np.ascontiguousarray(scores.T).reshape(n_points, n_outputs, -1)
            weights, target = self.weights[folds, part], self.target[part]
            values, slopes = self.loss.stacked(target, scores)
            losses += np.einsum("pr,pr->p", values, weights)
            slopes *= weights[:, None, :]
            slopes = slopes.reshape(len(coef), -1)
            gradients += (
                (rows.T @ slopes.T).T if sparse.issparse(rows) else (slopes @ rows)
            )
        gradients = gradients.reshape(n_points, n_outputs, n_params)
        return losses, np.ascontiguousarray(gradients.transpose(0, 2, 1))

    def hessians(self, params):
        """Hessians of the mean losses of all folds at one point, without penalty.

        Parameters
        ----------
        params : ndarray of shape (n_params, n_outputs)

        Returns
        -------
        hessians : ndarray of shape (n_folds, n_coords, n_coords)
        """
        atoms = self._sets.atoms
        if atoms is None:
            return np.array([self._hessian(params, one) for one in self.weights])
        # The weights of a fold differ from the shares by a factor for each atom.
        totals = atoms.train @ np.bincount(self._atom, self._shares, atoms.n_atoms)
        factors = atoms.train / np.where(totals > 0, totals, 1.0)[:, None]
        hessians = np.zeros((self.n_folds, params.size, params.size))
        edges = np.searchsorted(self._atom, np.arange(atoms.n_atoms + 1))
        for atom in range(atoms.n_atoms):
            own = slice(edges[atom], edges[atom + 1])
            if own.start == own.stop:
                continue
            matrix = self._hessian(params, self._shares, own)
            for fold in np.flatnonzero(factors[:, atom]):
                hessians[fold] += factors[fold, atom] * matrix
        return hessians

    def hessian(self, params, fold: int):
        """Hessian of the mean loss of one fold, (n_coords, n_coords)."""
        return self._hessian(params, self.weights[fold])

    def _hessian(self, params, weights, own=slice(None)):
        matrix, row_entries = np.zeros((params.size, params.size)), params.size
        if sparse.issparse(self.rows) and self.loss.n_outputs == 1:
            row_entries = max(self.rows.nnz // self.n_rows, 1)
        for part in self._parts(_PART_ENTRIES // row_entries, own):
            rows = row_range(self.rows, part.start, part.stop)
            matrix += self.loss.hessian(
                rows, weights[part], self.target[part], rows @ params
            )
        return matrix

    def _parts(self, part_rows, own=slice(None)):
        first, last, _ = own.indices(self.n_rows)
        part_rows = max(part_rows, 256)
        for start in range(first, last, part_rows):
            yield slice(start, min(start + part_rows, last))

    # ---- concentration ---------------------------------------------------------

    def least_diagonal(self, params):
        """Smallest Hessian diagonal of all folds, (n_params, n_outputs).

        A row that alone carries a coordinate in one training set is as influential as
        if it did so in all of them.
        """
        return self._curvature_moments(params, 1)[0].min(axis=0)

    def is_concentrated(self, params) -> bool:
        r"""Whether so few rows carry a coordinate of a fold that a sample may miss it.

        The effective number of rows behind a sum of terms :math:`a_i` is
        :math:`(\sum a_i)^2 / \sum a_i^2`.
        """
        stride = -(-self.n_rows // _CHECKED_ROWS)
        first, second = self._curvature_moments(params, stride)
        if not first.all():
            return True
        return bool((stride * first**2 / second).min() < _MIN_EFFECTIVE_ROWS)

    def _curvature_moments(self, params, stride):
        """Sums of the terms of the diagonals, and of their squares, by fold."""
        part = slice(None, None, stride)
        first, second = (np.zeros((self.n_folds, *params.shape)) for _ in range(2))
        rows, target = self.rows[part], self.target[part]
        curvature, squares = self.loss.curvature(target, rows @ params), squared(rows)
        fourth = squared(squares)
        for fold, own in enumerate(self.weights[:, part]):
            weighted = curvature * own[:, None]
            first[fold] = squares.T @ weighted
            second[fold] = fourth.T @ np.square(weighted)
        return first, second
