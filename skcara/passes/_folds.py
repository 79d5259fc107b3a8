r"""Sums over the training and test sets of many folds, for many points, in one read.

A *column* is a point at which the problem of one fold is evaluated: one for each fold
and penalty. The read multiplies each row with all columns at once. Rows are handled
atom by atom, because all rows of an atom are in the same sets: no masks are needed, and
a row that a fold holds out adds to the sums of its test set and not to the others. The
sums are never differences, so that nothing cancels however large a fold is.

Training sums may be formed in single precision, on rows that are shifted and scaled
before. Each term then has an error of :math:`10^{-7}`, and their mean, an average of
many independent ones, much less. Test sums, from which scores are made, are always
formed in double precision.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skcara.data import Coordinates, FoldSets, SumTask, row_range, weighted_sums
from skcara.objective import Loss

# Predictions that are made at a time. For one function in single precision a Python
# call costs more than leaving the cache; losses and derivatives in double precision
# have many temporary arrays, which should stay there.
_PIECE_PREDICTIONS, _TEST_PREDICTIONS = 2**18, 2**15
_MIN_PIECE_ROWS = 64
# In single precision, rows of a piece: sums of more of them would round more. Shifts,
# relative to the scale, and scales with which rows are used as they are: with a larger
# shift each row would be rounded more, and squares of larger numbers may overflow.
_MAX_SINGLE_ROWS = 2**13
_MAX_RAW_SHIFT, _MAX_RAW_SCALE = 2.0, 1e15
#: Largest loss of a row that counts in a score: that of the probability ``eps``, below
#: which scikit-learn's log loss clips.
LARGEST_TEST_LOSS = -float(np.log(np.finfo(np.float64).eps))


class FoldSums(NamedTuple):
    """Sums over the training rows and the test rows of each column.

    Attributes
    ----------
    gradients : ndarray of shape (n_columns, n_params, n_outputs)
        Sums over the training rows.
    test_losses : ndarray of shape (n_columns,) or None
    test_gradients : ndarray of shape (n_columns, n_params, n_outputs) or None
    """

    gradients: np.ndarray
    test_losses: np.ndarray | None = None
    test_gradients: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class EvaluateFolds(SumTask):
    """Gradients of the training sets; losses and gradients of the test sets if asked.

    The answer is a :class:`FoldSums`.

    Attributes
    ----------
    coordinates : Coordinates
    loss : Loss
    sets : FoldSets
    params : ndarray of shape (n_columns, n_params, n_outputs)
    fold_of : ndarray of int of shape (n_columns,)
    with_test : bool
    test_factors : ndarray of shape (n_classes,), optional
        By which the weight of a row is multiplied in test sums, for each class.
    is_single : bool
        Whether training sums are formed in single precision; for dense rows only.
    """

    coordinates: Coordinates
    loss: Loss
    sets: FoldSets
    params: np.ndarray
    fold_of: np.ndarray
    with_test: bool = False
    test_factors: np.ndarray | None = None
    is_single: bool = False

    # ---- columns ---------------------------------------------------------------

    @property
    def _n_columns(self):
        return len(self.params)

    @cached_property
    def _effective(self):
        """Coefficients (n_columns, n_outputs, n_features) and intercepts.

        To be applied to rows as :meth:`Coordinates.rows` gives them.
        """
        pairs = [self.coordinates.effective_params(one) for one in self.params]
        coefs = np.array([coef.T for coef, _ in pairs])
        return coefs, np.array([intercept for _, intercept in pairs])

    @cached_property
    def _is_raw(self):
        """Whether rows in single precision need neither be shifted nor scaled."""
        shift, scale = self.coordinates.shift, self.coordinates.scale
        is_near = np.abs(shift) <= _MAX_RAW_SHIFT * scale
        size = np.maximum(scale, 1.0 / scale)
        return bool((is_near & (size <= _MAX_RAW_SCALE)).all())

    @cached_property
    def _single(self):
        """The same in single precision, for rows with the intercept column."""
        if not self._is_raw:
            return self.params.transpose(0, 2, 1).astype(np.float32), None
        coefs, intercepts = self._effective
        if self.coordinates.fit_intercept:
            coefs = np.concatenate([coefs, intercepts[:, :, None]], axis=2)
        return coefs.astype(np.float32), None

    # ---- one read --------------------------------------------------------------

    def visit(self, chunk):
        """Sums of a chunk: of slopes and of slopes times rows; losses of test rows."""
        n_columns, _, n_outputs = self.params.shape
        shape = n_columns, n_outputs, self.coordinates.n_features
        train_shape = shape
        if self.is_single:
            train_shape = n_columns, n_outputs, self.coordinates.n_params
        sums = [np.zeros(shape[:2]), np.zeros(train_shape)]
        if self.with_test:
            sums += [np.zeros(shape[:2]), np.zeros(shape), np.zeros(n_columns)]
        n_rows = _PIECE_PREDICTIONS // (n_columns * n_outputs)
        n_rows = min(n_rows, _MAX_SINGLE_ROWS) if self.is_single else n_rows
        for piece in self.sets.pieces(chunk, max(n_rows, _MIN_PIECE_ROWS)):
            self._add_piece(sums, *piece)
        return sums

    def _add_piece(self, sums, piece, train, test):
        rows = None
        if self.with_test or not self.is_single:
            rows = self.coordinates.rows(piece.rows)
        columns, weights = _members(train, self.fold_of)
        if columns.size:
            own, coefs = rows, self._effective
            if self.is_single:
                own = _single_rows(self.coordinates, piece.rows, is_raw=self._is_raw)
                coefs = self._single
            scores = _scores(own, coefs, columns)
            slopes = self.loss.stacked_derivatives(piece.target, scores)
            _weigh(slopes, piece.weights, weights)
            _add_to(sums[:2], columns, slopes, own, has_ones=self.is_single)
        if not self.with_test:
            return
        columns, weights = _members(test, self.fold_of)
        if columns.size:
            self._add_test(sums[2:], rows, columns, piece, weights)

    def _add_test(self, sums, rows, columns, piece, weights):
        """Add the test rows of some columns, a few at a time."""
        row_weights = piece.weights
        if self.test_factors is not None:
            row_weights = row_weights * self.test_factors.take(piece.target)
        n_rows = _TEST_PREDICTIONS // (columns.size * self.loss.n_outputs)
        n_rows = max(n_rows, _MIN_PIECE_ROWS)
        for start in range(0, piece.n_rows, n_rows):
            part = slice(start, min(start + n_rows, piece.n_rows))
            own = row_range(rows, part.start, part.stop)
            scores = _scores(own, self._effective, columns)
            values, slopes = self.loss.stacked(piece.target[part], scores)
            np.minimum(values, LARGEST_TEST_LOSS, out=values)
            own_weights = None if row_weights is None else row_weights[part]
            factors = weights
            if weights is not None and weights.shape[1] > 1:
                factors = weights[:, part]
            _weigh(values[:, None], own_weights, factors)
            _weigh(slopes, own_weights, factors)
            sums[2][columns] += values.sum(axis=1)
            _add_to(sums[:2], columns, slopes, own)

    def finish(self, total):
        """Return the sums over training and test sets."""
        masses, gradients, *test = total
        gradients = _transposed(gradients)
        if self.is_single and self._is_raw and self.coordinates.fit_intercept:
            gradients, masses = gradients[:, :-1], gradients[:, -1]
        if self._is_raw or not self.is_single:
            gradients = self.coordinates.correct_sums(gradients, masses)
        # Nothing but a penalty holds a constant that is added to all outputs: a slope
        # of rounding, of single precision at that, would send it anywhere.
        gradients = self.loss.without_constants(gradients, axis=2)
        if not test:
            return FoldSums(gradients)
        masses, test_gradients, test_losses = test
        test_gradients = self.coordinates.correct_sums(
            _transposed(test_gradients), masses
        )
        return FoldSums(gradients, test_losses, test_gradients)


def _transposed(sums):
    return np.ascontiguousarray(sums.transpose(0, 2, 1))


def _members(counts, fold_of):
    """Columns to whose sets some rows belong, and how often the rows are in them.

    Returns
    -------
    columns : ndarray of int
    weights : ndarray of shape (n_columns, 1) or (n_columns, n_rows), or None
        None if all are one.
    """
    columns = np.flatnonzero(counts.any(axis=1)[fold_of])
    weights = counts[fold_of[columns]]
    return columns, None if (weights == 1).all() else weights


def _weigh(slopes, row_weights, weights):
    """Multiply slopes of shape (n_columns, n_outputs, n_rows), in place."""
    if row_weights is not None:
        slopes *= row_weights.astype(slopes.dtype, copy=False)
    if weights is not None:
        slopes *= weights[:, None, :].astype(slopes.dtype)


def _single_rows(coordinates, raw, *, is_raw):
    """Rows in single precision, with the intercept column if any.

    Shifted and scaled, unless they are used as they are.
    """
    rows = np.ones((raw.shape[0], coordinates.n_params), dtype=np.float32)
    features = rows[:, : coordinates.n_features]
    if is_raw:
        features[...] = raw
        return rows
    # The difference in double precision: a shift may be much larger than the spread.
    shifted = np.subtract(raw, coordinates.shift, dtype=np.float64)
    np.divide(shifted, coordinates.scale, out=features, casting="same_kind")
    return rows


def _scores(rows, coefs, columns):
    """Predictions of shape (n_columns, n_outputs, n_rows)."""
    coef, intercept = coefs
    coef = coef[columns]
    n_columns, n_outputs, n_features = coef.shape
    coef = coef.reshape(-1, n_features)
    if sparse.issparse(rows):
        scores = np.ascontiguousarray((rows @ coef.T).T)
    else:
        scores = coef @ rows.T
    if intercept is not None:
        scores += intercept[columns].reshape(-1, 1)
    return scores.reshape(n_columns, n_outputs, -1)


def _add_to(sums, columns, slopes, rows, *, has_ones=False):
    """Add slopes, and slopes times rows; the former are among the latter, with ones."""
    shape = slopes.shape
    flat = slopes.reshape(-1, shape[2])
    products = weighted_sums(rows, flat.T).T
    if not has_ones:
        sums[0][columns] += slopes.sum(axis=2)
    sums[1][columns] += products.reshape(*shape[:2], -1)
