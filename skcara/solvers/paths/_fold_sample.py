r"""Sampled rows with the weights that they have in every training set.

All folds share the rows of one sample; fold :math:`f` gives weight zero to those that
it holds out. So the products with the rows are formed for all folds at once, and, where
folds consist of few atoms, the Hessians of all folds are sums of the same Hessians of
atoms: they cost together what one costs alone, if they are taken at one point.
"""

from functools import cached_property

import numpy as np
from scipy import sparse

from skcara.data import FoldSets, SparsePairs, in_order, row_range, squared
from skcara.objective import Loss
from skcara.solvers._quadratic import ScaledCholesky

# Predictions and copied entries of rows that are made at a time stay in the cache.
_PART_PREDICTIONS = 2**16
_PART_ENTRIES = 2**17
# Sparse rows that are handled at a time: a call costs as much as a thousand of them.
_SPARSE_ROWS = 2**14
# Rows that are added up in single precision, as many as in a read.
_SINGLE_ROWS = 2**13
# Effective number of rows behind a Hessian entry of a fold below which it is
# concentrated, and rows from which that is estimated.
_MIN_EFFECTIVE_ROWS = 1500
_CHECKED_ROWS = 8192
# Directions that tell the leverage of a row: with eight of them, by a factor of two up
# or down. Folds that have their own ones: more would cost as much as a gradient.
_DIRECTIONS, _MAX_GROUPS = 8, 8
# Curvature of a direction that no row of the sample has, relative to a typical one.
_UNKNOWN = 1e-9


class FoldSample:
    """Rows that represent the training sets of all folds.

    Parameters
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_params)
        Overwritten, if they have to be sorted by their labels.
    target, shares : ndarray of shape (n_rows,)
        Shares: what each row stands for.
    atom : ndarray of int of shape (n_rows,) or (n_rows, n_batches)
        Labels of the rows.
    sets : FoldSets
    loss : Loss
    is_everything : bool
        Whether the sample has all rows of the data.
    """

    def __init__(
        self,
        rows,
        target,
        shares,
        atom,
        sets: FoldSets,
        loss: Loss,
        *,
        is_everything: bool = False,
    ):
        if sets.atoms is not None:
            order = np.argsort(atom, kind="stable")
            if not np.array_equal(order, np.arange(len(order))):
                rows, target = in_order(rows, order), target[order]
                shares, atom = shares[order], atom[order]
        self.rows, self.target, self.loss = rows, target, loss
        self._shares, self._atom, self._sets = shares, atom, sets
        self.n_rows, self.n_params = rows.shape
        self.n_folds, self.is_everything = sets.n_folds, is_everything
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

    def predictions(self, params):
        """Predictions of all rows at some points, (n_points, n_outputs, n_rows)."""
        n_points, n_params, n_outputs = params.shape
        coef = params.transpose(0, 2, 1).reshape(-1, n_params)
        is_sparse = sparse.issparse(self.rows)
        products = (self.rows @ coef.T).T if is_sparse else coef @ self.rows.T
        return np.ascontiguousarray(products).reshape(n_points, n_outputs, self.n_rows)

    def evaluate(self, params, weights):
        """Mean losses and gradients of some points.

        Parameters
        ----------
        params : ndarray of shape (n_points, n_params, n_outputs)
        weights : ndarray of shape (n_points, n_rows)

        Returns
        -------
        losses : ndarray of shape (n_points,)
        gradients : ndarray of the shape of ``params``
        """
        return self.evaluate_at(self.predictions(params), weights)

    def evaluate_at(self, predictions, weights):
        """The same from predictions of shape (n_points, n_outputs, n_rows)."""
        n_points, n_outputs, _ = predictions.shape
        n_stacked = n_points * n_outputs
        losses, gradients = np.zeros(n_points), np.zeros((n_stacked, self.n_params))
        for part, columns in self._columns_of_parts(n_stacked):
            scores = predictions[:, :, part].copy()  # may be overwritten
            own, target = weights[:, part], self.target[part]
            values, slopes = self.loss.stacked(target, scores)
            losses += np.einsum("pr,pr->p", values, own)
            slopes *= own[:, None, :]
            slopes = slopes.reshape(n_stacked, -1)
            is_sparse = sparse.issparse(columns)
            gradients += (columns @ slopes.T).T if is_sparse else slopes @ columns.T
        gradients = gradients.reshape(n_points, n_outputs, -1)
        return losses, np.ascontiguousarray(gradients.transpose(0, 2, 1))

    def _columns_of_parts(self, n_stacked):
        """Slices of rows for so many predictions each, and their transposes."""
        if sparse.issparse(self.rows):
            return self._sparse_parts
        return [
            (part, self.rows[part].T)
            for part in self._parts(_PART_PREDICTIONS // n_stacked)
        ]

    @cached_property
    def _sparse_parts(self):
        """The same for sparse rows: objects around their memory, made once."""
        return [
            (part, row_range(self.rows, part.start, part.stop).T)
            for part in self._parts(_SPARSE_ROWS)
        ]

    def curvatures(self, predictions, weights):
        """Diagonals of the Hessians of some points, (n_points, n_params, n_outputs).

        Parameters
        ----------
        predictions : ndarray of shape (n_points, n_outputs, n_rows)
        weights : ndarray of shape (n_points, n_rows)
        """
        (n_points, n_outputs, _), n_params = predictions.shape, self.n_params
        curvatures = np.zeros((n_points, n_params, n_outputs))
        for part in self._parts(_PART_ENTRIES // n_params):
            squares = squared(row_range(self.rows, part.start, part.stop)).T
            for point, scores in enumerate(predictions[:, :, part]):
                own = self.loss.curvature(self.target[part], scores.T)
                curvatures[point] += squares @ (own * weights[point, part, None])
        return curvatures

    def reach(self, moves, weights, *, small=0.0):
        """Largest changes of predictions of rows with positive weights, (n_points,).

        Or bounds on them, if all of these are ``small``: they cost no product with the
        rows, and most steps of a search are its last ones.
        """
        n_outputs = self.loss.n_outputs
        # What is taken from all outputs is no larger than the largest of them.
        factor = 1.0 if n_outputs == 1 else 2.0
        bounds = factor * (self._largest_entries @ np.abs(moves)).max(axis=1)
        if (bounds <= small).all():
            return bounds
        changes = self.loss.without_constants(self.predictions(moves), axis=1)
        return largest_changes(changes, weights)

    @cached_property
    def _largest_entries(self):
        """Largest magnitudes of the columns, (n_params,)."""
        largest = np.zeros(self.n_params)
        for part in self._parts(_PART_ENTRIES // self.n_params):
            rows = abs(row_range(self.rows, part.start, part.stop)).max(axis=0)
            rows = rows.toarray() if sparse.issparse(rows) else rows
            np.maximum(largest, rows.ravel(), out=largest)
        return largest

    def single_noise(self, params, fold):
        """Largest error of an entry of a gradient in single precision, for dense rows.

        Parameters
        ----------
        params : ndarray of shape (n_params, n_outputs)
        fold : int
        """
        weights = self.weights[fold]
        _, [exact] = self.evaluate(params[None], weights[None])
        coef, found = params.T.astype(np.float32), np.zeros_like(params.T)
        for part in self._parts(_SINGLE_ROWS):
            rows = self.rows[part].astype(np.float32)
            scores = (coef @ rows.T)[None]
            [slopes] = self.loss.stacked_derivatives(self.target[part], scores)
            found += (slopes * weights[part].astype(np.float32)) @ rows
        noise = self.loss.without_constants(found.T - exact, axis=1)
        return float(np.abs(noise).max())

    def hessians(self, predictions, chosen=None):
        """Hessians of the mean losses of all folds at one point, without penalty.

        Parameters
        ----------
        predictions : ndarray of shape (n_rows, n_outputs)
            Of the point.
        chosen : ndarray of bool of shape (n_rows,), optional
            Rows that are summed; default all.

        Returns
        -------
        hessians : ndarray of shape (n_folds, n_coords, n_coords)
        """
        atoms, n_coords = self._sets.atoms, self.n_params * self.loss.n_outputs
        if atoms is None:
            return np.array(
                [self.hessian(predictions, one, chosen) for one in self.weights]
            )
        # The weights of a fold differ from the shares by a factor for each atom.
        totals = atoms.train @ np.bincount(self._atom, self._shares, atoms.n_atoms)
        factors = atoms.train / np.where(totals > 0, totals, 1.0)[:, None]
        hessians = np.zeros((self.n_folds, n_coords, n_coords))
        edges = np.searchsorted(self._atom, np.arange(atoms.n_atoms + 1))
        for atom in range(atoms.n_atoms):
            own = slice(edges[atom], edges[atom + 1])
            if own.start == own.stop or not (chosen is None or chosen[own].any()):
                continue
            matrix = self._hessian(predictions, self._shares, chosen, own)
            for fold in np.flatnonzero(factors[:, atom]):
                hessians[fold] += factors[fold, atom] * matrix
        return hessians

    def own_hessians(self, predictions, weights):
        """Hessians of the mean losses at one point for each fold.

        Parameters
        ----------
        predictions : ndarray of shape (n_points, n_outputs, n_rows)
        weights : ndarray of shape (n_points, n_rows)

        Returns
        -------
        hessians : sequence of ndarray of shape (n_coords, n_coords)
        """
        points = list(zip(predictions.transpose(0, 2, 1), weights, strict=True))
        if self._pairs is None:
            return [self.hessian(*point) for point in points]
        curvatures = [
            self.loss.second_derivative(self.target, scores) * own
            for scores, own in points
        ]
        return self._pairs.grams(np.array(curvatures).T.copy())

    @property
    def has_cheap_hessians(self) -> bool:
        """Whether those at several points cost little more than at one of them."""
        return self._pairs is not None

    @cached_property
    def _pairs(self):
        is_counted = sparse.issparse(self.rows) and self.loss.n_outputs == 1
        if not is_counted or not SparsePairs.fit(self.rows):
            return None
        return SparsePairs(self.rows)

    def hessian(self, predictions, weights, chosen=None):
        """Hessian of the mean loss at one point, (n_coords, n_coords)."""
        return self._hessian(predictions, weights, chosen)

    def _hessian(self, predictions, weights, chosen, own=slice(None)):
        row_entries = n_coords = self.n_params * self.loss.n_outputs
        matrix = np.zeros((n_coords, n_coords))
        if sparse.issparse(self.rows) and self.loss.n_outputs == 1:
            row_entries = max(self.rows.nnz // self.n_rows, 1)
        if chosen is not None:
            first, _, _ = own.indices(self.n_rows)
            chosen = first + np.flatnonzero(chosen[own])
            own = slice(0, len(chosen))
        for part in self._parts(_PART_ENTRIES // row_entries, own):
            if chosen is None:
                rows = row_range(self.rows, part.start, part.stop)
            else:
                part = chosen[part]
                rows = self.rows[part]
            terms = weights[part], self.target[part], predictions[part]
            matrix += self.loss.hessian(rows, *terms)
        return matrix

    def _parts(self, part_rows, own=slice(None)):
        first, last, _ = own.indices(self.n_rows)
        part_rows = max(part_rows, 256)
        for start in range(first, last, part_rows):
            yield slice(start, min(start + part_rows, last))

    # ---- concentration ---------------------------------------------------------

    def leverage_directions(self, params, rng):
        r"""Random directions that tell the leverage of a row in any fold.

        A row that alone carries a direction in one training set is as influential as if
        it did so in all of them. So each fold has its own directions :math:`g`, with
        :math:`\sum E g g^\top = H_k^{-1}` for the block of each output; where folds are
        many, a few of them share theirs, which then belong to the sum of the inverses.

        Returns
        -------
        directions : ndarray of shape (n_groups, n_directions, n_params, n_outputs)
        """
        n_params, n_outputs = params.shape
        shape = min(self.n_folds, _MAX_GROUPS), _DIRECTIONS, n_params, n_outputs
        directions = np.zeros(shape)
        for fold, hessian in enumerate(self.hessians(self.rows @ params)):
            # What the sample does not have at all is known to be rare.
            diagonal = np.diagonal(hessian)
            ridge = _UNKNOWN * np.mean(diagonal, where=diagonal > 0)
            hessian.flat[:: len(hessian) + 1] += ridge
            for output in range(n_outputs):
                block = ScaledCholesky(hessian[output::n_outputs, output::n_outputs])
                noise = rng.standard_normal((n_params, _DIRECTIONS))
                own = block.half_solve(noise / np.sqrt(_DIRECTIONS))
                directions[fold % len(directions), :, :, output] += own.T
        return directions

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


def largest_changes(changes, weights):
    """Largest changes of rows with positive weights, (n_points,).

    Parameters
    ----------
    changes : ndarray of shape (n_points, n_outputs, n_rows)
        Of predictions.
    weights : ndarray of shape (n_points, n_rows)
    """
    return (np.abs(changes).max(axis=1) * (weights > 0)).max(axis=1)
