r"""The design matrix, seen as chunks of rows in standardised coordinates.

A *pass* is a map over chunks of rows and an ordered sum of the results. ``Design`` is
the only place that knows whether ``X`` is dense or sparse, in which order and precision
it is stored, and how many threads read it. Nothing here copies ``X``: a chunk is a view
or a temporary of about a megabyte that stays in the cache for all the products of the
pass, which makes a chunked pass cheaper than two plain products with the whole matrix.

Coordinates
-----------
Solvers may work in the coordinates of the columns

.. math:: \tilde x_{ij} = (x_{ij} - \mathrm{shift}_j) / \mathrm{scale}_j ,

which turns badly scaled columns, and columns far from zero next to an intercept, into a
well-conditioned problem *without touching the data*: with
``params = (coef * scale, intercept + shift @ coef)`` the predictions are the same, and
all sums over rows need only a rank-one correction,

.. math:: \tilde X^\top d = (X^\top d - \mathrm{shift}\, 1^\top d) / \mathrm{scale}.

The correction cancels digits when a shift is much larger than the spread of its column;
such columns are shifted explicitly, chunk by chunk.
"""

from collections.abc import Callable
from operator import iadd

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.utils.parallel import Parallel, delayed

from skcara.data._rows import append_ones, row_range, with_entries

# Chunks of about 2 MB: the second product of a pass finds them in the cache, and the
# cost of a Python call is small against the work on them.
_CHUNK_ENTRIES = 2**18
_MIN_CHUNK_ROWS, _MAX_CHUNK_ROWS = 1024, 8192
# Slicing a sparse matrix costs more than a view, so its chunks have more rows.
_MAX_SPARSE_CHUNK_ROWS = 2**15
# A span is what one task of the thread pool reads. Its size does not depend on the
# number of threads, hence neither does the order of the additions.
_SPAN_CHUNKS = 16
# Ratio shift / scale from which the rank-one correction would lose more than half of
# the digits that matter at a tight tolerance.
_EXPLICIT_SHIFT_RATIO = 1e3


def _chunk_rows(entries_per_row: float, most: int) -> int:
    """Rows of a chunk, a power of two."""
    rows = int(_CHUNK_ENTRIES / max(entries_per_row, 1.0))
    rows = min(max(rows, _MIN_CHUNK_ROWS), most)
    return 1 << (rows.bit_length() - 1)


class Design:
    """Rows of ``X`` with an optional intercept, in standardised coordinates.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Read only, never copied.
    fit_intercept : bool
        Whether a column of ones stands behind the features.
    shift, scale : ndarray of shape (n_features,), optional
        Coordinates in which the solver works. Sparse data cannot be shifted.
    n_jobs : int, optional
        Threads of a pass, as in joblib. Results do not depend on it.
    """

    def __init__(self, X, *, fit_intercept=True, shift=None, scale=None, n_jobs=None):
        self.is_sparse = sparse.issparse(X)
        self.X = sparse.csr_array(X, copy=False) if self.is_sparse else X
        self.n_rows, self.n_features = X.shape
        self.fit_intercept = fit_intercept
        self.n_params = self.n_features + bool(fit_intercept)
        self.shift = np.zeros(self.n_features) if shift is None else shift
        self.scale = np.ones(self.n_features) if scale is None else scale
        if self.is_sparse and self.shift.any():
            raise ValueError("Sparse data cannot be shifted.")
        if self.shift.any() and not fit_intercept:
            raise ValueError("Columns can only be shifted next to an intercept.")
        self.n_jobs = n_jobs
        if self.is_sparse:
            density = self.X.nnz / max(self.n_rows, 1)
            self.chunk_rows = _chunk_rows(density, _MAX_SPARSE_CHUNK_ROWS)
        else:
            self.chunk_rows = _chunk_rows(self.n_features, _MAX_CHUNK_ROWS)
        self._explicit = bool(
            (np.abs(self.shift) > _EXPLICIT_SHIFT_RATIO * self.scale).any()
        )
        #: Coordinates that :meth:`chunk` leaves to its caller.
        self.chunk_shift, self.chunk_scale = self.shift, self.scale
        if self._explicit:
            self.chunk_shift = np.zeros(self.n_features)
            self.chunk_scale = np.ones(self.n_features)

    @property
    def taken_row_bytes(self) -> float:
        """Memory of a row that was taken in the format of ``X``, on average."""
        if not self.is_sparse:
            return 8 * self.n_params
        n_entries = self.X.nnz / self.n_rows + self.fit_intercept
        return (8 + self.X.indices.itemsize) * n_entries + self.X.indptr.itemsize

    def standardized(self, shift=None, scale=None) -> "Design":
        """Return the same rows in the coordinates given by ``shift`` and ``scale``."""
        return Design(
            self.X,
            fit_intercept=self.fit_intercept,
            shift=shift,
            scale=scale,
            n_jobs=self.n_jobs,
        )

    # ---- coordinates -----------------------------------------------------------

    def to_user(self, params):
        """Translate ``params`` into ``coef`` (n_features, n_outputs) and ``intercept``.

        Returns
        -------
        coef : ndarray of shape (n_features, n_outputs)
        intercept : ndarray of shape (n_outputs,)
        """
        return self._undo(params, self.shift, self.scale)

    def _undo(self, params, shift, scale):
        coef = params[: self.n_features] / scale[:, None]
        if not self.fit_intercept:
            return coef, np.zeros(params.shape[1])
        return coef, params[-1] - shift @ coef

    def from_user(self, coef, intercept):
        """Inverse of :meth:`to_user`."""
        params = np.empty((self.n_params, coef.shape[1]))
        params[: self.n_features] = coef * self.scale[:, None]
        if self.fit_intercept:
            params[-1] = intercept + self.shift @ coef
        return params

    def gradient_to_user(self, gradient):
        """Gradient with respect to ``(coef, intercept)`` from that for ``params``."""
        user_gradient = gradient.copy()
        user_gradient[: self.n_features] *= self.scale[:, None]
        if self.fit_intercept:
            user_gradient[: self.n_features] += self.shift[:, None] * gradient[-1]
        return user_gradient

    # ---- chunks ----------------------------------------------------------------

    def chunk(self, start: int, stop: int, *, explicit: bool = False):
        """Rows ``start:stop`` in float64; standardised if ``explicit``, as a copy.

        Without ``explicit`` the caller accounts for what is left of shift and scale,
        ``chunk_shift`` and ``chunk_scale``, by :meth:`effective_params` and
        :meth:`correct_sums`.
        """
        if self.is_sparse:
            rows = row_range(self.X, start, stop)
            rows.data = rows.data.astype(np.float64, copy=False)
            return _scaled_columns(rows, self.scale) if explicit else rows
        rows = self.X[start:stop]
        if explicit or self._explicit:
            rows = np.subtract(rows, self.shift, dtype=np.float64)
            rows /= self.scale
            return rows
        return rows.astype(np.float64, copy=False)

    def effective_params(self, params):
        """Coefficients and intercept to apply to the rows given by :meth:`chunk`."""
        return self._undo(params, self.chunk_shift, self.chunk_scale)

    def correct_sums(self, sums, masses):
        r"""Turn sums over rows given by :meth:`chunk` into standardised coordinates.

        Parameters
        ----------
        sums : ndarray of shape (..., n_features, n_outputs)
            :math:`\sum_i d_i x_i` for some numbers :math:`d_i`; overwritten.
        masses : ndarray of shape (..., n_outputs)
            :math:`\sum_i d_i`.

        Returns
        -------
        sums : ndarray of shape (..., n_params, n_outputs)
        """
        if self.chunk_shift.any():
            sums -= self.chunk_shift[:, None] * masses[..., None, :]
        sums /= self.chunk_scale[:, None]
        if not self.fit_intercept:
            return sums
        return np.concatenate([sums, masses[..., None, :]], axis=-2)

    def take(self, indices, features=None, *, keep_sparse=False):
        """Rows ``indices`` in standardised coordinates with the intercept column.

        Parameters
        ----------
        indices : ndarray of int
        features : ndarray of int, optional
            Columns wanted, ascending; ``n_features`` is the intercept. Default all.
        keep_sparse : bool
            Return CSR for sparse data instead of a dense array.

        Returns
        -------
        rows : ndarray or CSR array of shape (len(indices), n_columns)
        """
        if features is None:
            features = np.arange(self.n_params)
        columns = features[features < self.n_features]
        if self.is_sparse and keep_sparse:
            return self._take_sparse(indices, columns, columns.size < features.size)
        taken = np.empty((len(indices), features.size))
        taken[:, columns.size :] = 1.0
        for part, rows in self._parts(indices, columns):
            rows = rows.toarray() if self.is_sparse else rows
            standardised = taken[part, : columns.size]
            np.subtract(rows, self.shift[columns], out=standardised)
            standardised /= self.scale[columns]
        return taken

    def _take_sparse(self, indices, columns, with_intercept: bool):
        """Take the rows part by part, so that the entries are copied only once."""
        lengths = self.X.indptr[indices + 1] - self.X.indptr[indices] + with_intercept
        # Without some of the columns, fewer entries are used.
        data = np.empty(lengths.sum())
        column_of = np.empty(len(data), dtype=self.X.indices.dtype)
        indptr = np.zeros(len(indices) + 1, dtype=self.X.indptr.dtype)
        for part, rows in self._parts(indices, columns):
            rows = _scaled_columns(rows, self.scale[columns])
            rows = append_ones(rows) if with_intercept else rows
            begin = indptr[part.start]
            entries = slice(begin, begin + rows.nnz)
            data[entries], column_of[entries] = rows.data, rows.indices
            indptr[part.start + 1 : part.stop + 1] = begin + rows.indptr[1:]
        shape = (len(indices), columns.size + with_intercept)
        used = slice(0, indptr[-1])
        return sparse.csr_array((data[used], column_of[used], indptr), shape=shape)

    def _parts(self, indices, columns):
        """Yield slices of ``indices`` with copies of these rows and columns of X."""
        for start in range(0, len(indices), _MIN_CHUNK_ROWS):
            part = slice(start, min(start + _MIN_CHUNK_ROWS, len(indices)))
            rows = self.X[indices[part]]
            yield part, rows if columns.size == self.n_features else rows[:, columns]

    def predict(self, indices, params):
        """Predictions of the rows ``indices``, shape (len(indices), n_outputs)."""
        if self._explicit:
            return self.take(indices) @ params
        coef, intercept = self.to_user(params)
        return self.X[indices] @ coef + intercept

    # ---- passes ----------------------------------------------------------------

    def map_reduce(self, visit: Callable, *, explicit: bool = False):
        """Sum ``visit(start, rows)`` over all chunks, always in the same order.

        Parameters
        ----------
        visit : callable
            Takes the index of the first row and the rows of a chunk (see
            :meth:`chunk`), returns a tuple of arrays or floats to add up; the arrays
            must be its own, because the sum is formed in the first ones.
        explicit : bool
            Whether chunks come in standardised coordinates.

        Returns
        -------
        totals : list
        """
        span_rows = _SPAN_CHUNKS * self.chunk_rows
        spans = range(0, self.n_rows, span_rows)

        def visit_span(first):
            totals = None
            last = min(first + span_rows, self.n_rows)
            for start in range(first, last, self.chunk_rows):
                stop = min(start + self.chunk_rows, last)
                terms = visit(start, self.chunk(start, stop, explicit=explicit))
                totals = _add(totals, terms)
            return totals

        if len(spans) > 1 and effective_n_jobs(self.n_jobs) > 1:
            # Threads, whatever backend is configured: `visit` may write into arrays.
            pool = Parallel(
                n_jobs=self.n_jobs, require="sharedmem", return_as="generator"
            )
            partial_totals = pool(delayed(visit_span)(first) for first in spans)
        else:
            partial_totals = map(visit_span, spans)
        totals = None
        for partial in partial_totals:
            totals = _add(totals, partial)
        return totals


def _scaled_columns(rows, scale):
    """CSR rows with their columns divided by ``scale``."""
    data = scale[rows.indices]
    return with_entries(rows, np.divide(rows.data, data, out=data))


def _add(totals, terms):
    if totals is None:
        return list(terms)
    # In place for arrays: matrices of many columns are not small.
    return [iadd(total, term) for total, term in zip(totals, terms, strict=True)]
