r"""What a sample of the rows says about many columns: a start, and correlations.

The sample is minimised in the metric of its own columns, without any matrix. Whether
the correlations of the columns are worth a matrix is a question of passes. With ``n``
columns, ``m`` rows in the sample and the sum ``S`` of the squared correlations of all
pairs, the error of a step on all rows is multiplied by about the root of

.. math:: \delta^2 = \frac{1}{m / n + n / S} + \frac{n}{n_{rows}}

if the correlations of the sample are shrunk towards zero by the share of them that is
noise, and by that of ``m = 0`` if they are not used. The ``m`` of least total cost is
chosen, which is zero for columns that have little to do with each other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skcara.data import SparseGram, scaled_rows, squared_sums
from skcara.passes import CurvatureSums, Draw, Take
from skcara.solvers._sample_size import correlation_rows, max_correlation_rows
from skcara.solvers.newton._metric import Curvature, ShearedMetric
from skcara.solvers.newton._pilot import prior
from skcara.solvers.newton._reduced import ReducedProblem
from skcara.solvers.newton._reduced_steps import minimize_reduced
from skcara.solvers.newton._secant_steps import SecantDescent

# Rows per column from which the minimiser of a sample is a better start than zero.
_MIN_ROWS_PER_COLUMN = 4
# How well a sample is minimised, relative to its own error.
_ACCURACY = 0.1
_MAX_STEPS = 40
# Rows of a sparse column whose correlations are believed by one half.
_BELIEVED_ROWS = 1.0
# Correlations are first estimated on so many rows per column.
_GLANCED_ROWS_PER_COLUMN = 2
# Entries of rows that are taken at a time; sparse ones are copied on the way.
_TAKEN_ENTRIES, _TAKEN_SPARSE_ENTRIES = 2**18, 2**16
# Relative suboptimality that is worth no more passes, for an estimate of their number.
_GOAL = 1e-7
# A product of rows with themselves in single precision does this many operations in
# the time in which a pass handles one entry.
_OPERATIONS_PER_ENTRY = 100
_ROWS_PER_COLUMN_CHOICES = (10, 20, 50, 100)


@dataclass(frozen=True)
class ColumnStart:
    """A starting point, and what the sample knows about the columns there.

    Attributes
    ----------
    params : ndarray of shape (n_params, n_outputs)
    curvature : Curvature
        Of the sample.
    reduced_rows : float
        Rows that were read, each as often as it was.
    """

    params: np.ndarray
    curvature: Curvature
    reduced_rows: float


def start_on_sample(sample: ReducedProblem, full, params) -> ColumnStart:
    """Minimise on a sample, from zeros; with few rows, over the intercepts alone."""
    reduced_rows = float(sample.n_rows)
    if params.any():
        return ColumnStart(params, _curvature(sample, full, params), reduced_rows)
    if full.coordinates.fit_intercept:
        params = params.copy()
        params[-1] = _minimize_level(sample)
    curvature = _curvature(sample, full, params)
    if sample.n_rows < _MIN_ROWS_PER_COLUMN * full.n_params:
        return ColumnStart(params, curvature, reduced_rows)
    nothing = np.zeros(sample.shape)
    damping = _damping(sample, full, curvature)
    tilted = sample.tilted(nothing, nothing, damping)
    metric = sheared_metric(full, curvature, damping=damping)
    descent = SecantDescent(metric, tilted.evaluate(params.ravel()))
    # Decrease that a sample promises of coordinates that have nothing to say, and what
    # its minimiser loses on all rows.
    error = full.n_coords / (2 * sample.n_rows)
    if descent.predicted < 2 * error:
        return ColumnStart(params, curvature, reduced_rows)
    for _ in range(_MAX_STEPS):
        if descent.predicted <= _ACCURACY * error or descent.has_failed:
            break
        descent.receive(tilted.evaluate(descent.trial))
        reduced_rows += sample.n_rows
    params = descent.point.params.reshape(params.shape)
    return ColumnStart(params, _curvature(sample, full, params), reduced_rows)


def sheared_metric(full, curvature, *, damping=0.0, correlations=None):
    """Metric of the columns, with more curvature (n_params, 1) where that is given."""
    l2 = (full.penalty.l2 + damping)[: full.n_features]
    return ShearedMetric(curvature, l2, full.coordinates.fit_intercept, correlations)


def _damping(sample, full, curvature):
    """Penalty of a sample: what all rows outvote, a few of them do not.

    The user's penalty is worth as many rows in the sample as it is among all rows. It
    is trusted that far as long as it does not outvote the sample. And a column that is
    rare in the sample may separate the classes there: one more row keeps it from that.
    """
    growth = full.n_rows / sample.n_rows - 1.0
    damping = np.minimum(growth * full.penalty.l2, curvature.mass.mean())
    return damping + prior(full, sample.n_rows)


def _minimize_level(sample):
    """Intercepts of least loss, kept finite where a class is missing."""
    ones = ReducedProblem(
        np.ones((sample.n_rows, 1)),
        sample.target,
        sample.weights,
        sample.loss,
        sample.penalty.restrict(slice(-1, None)),
    )
    nothing = np.zeros(ones.shape)
    ones = ones.tilted(nothing, nothing, np.full((1, 1), 1.0 / sample.n_rows))
    return minimize_reduced(ones, ones.evaluate(nothing.ravel())).params


def _curvature(sample, full, params) -> Curvature:
    """Curvature of the columns of a sample."""
    n_features = full.n_features
    first, second = np.zeros(sample.shape), np.zeros(sample.shape)
    mass = np.zeros(sample.shape[1])
    for part, rows in sample.parts():
        curvature = sample.loss.curvature(sample.target[part], rows @ params)
        curvature *= sample.weights[part, None]
        mass += curvature.sum(axis=0)
        first += rows.T @ curvature
        second += squared_sums(rows, curvature)
    sums = CurvatureSums(mass, first[:n_features], second[:n_features])
    return Curvature.from_sums(sums, full.coordinates.fit_intercept)


# ---- correlations --------------------------------------------------------------


def take_correlations(full, sample: ReducedProblem, start: ColumnStart, rng):
    """Ask for rows and return shrunk correlations, or None if they are not worth it.

    Parameters
    ----------
    full : Problem
    sample : ReducedProblem
        The rows at hand.
    start : ColumnStart
    rng : numpy.random.RandomState
    """
    n_rows = _choose_rows(full, sample, start)
    if n_rows == 0:
        return None, 0
    indices, weights = yield Draw(n_rows, rng)
    sums = _ProductSums(full, start.params)
    n_taken, row_entries = _TAKEN_ENTRIES, float(full.n_params)
    if full.facts.is_sparse:
        n_taken = _TAKEN_SPARSE_ENTRIES
        row_entries = max(full.facts.n_entries / full.n_rows, 1.0)
    step = max(int(n_taken / row_entries), 1)
    for first in range(0, len(indices), step):
        part = slice(first, first + step)
        taken = yield Take(full, indices[part])
        sums.add(taken.rows, taken.target, weights[part])
    return sums.shrunk(), len(indices)


def _choose_rows(full, sample, start):
    """Rows of the sample whose correlations are worth their price."""
    largest, n_features = max_correlation_rows(full), full.n_features
    if full.facts.is_sparse:
        return correlation_rows(full)
    n_glanced = _GLANCED_ROWS_PER_COLUMN * n_features
    if largest == 0 or sample.n_rows < n_glanced:
        return 0
    sums = _ProductSums(full, start.params)
    stride = sample.n_rows // n_glanced
    chosen = slice(0, n_glanced * stride, stride)
    sums.add(sample.rows[chosen], sample.target[chosen], sample.weights[chosen])
    noise = n_features**2 / n_glanced
    squares = sums.sum_of_squares()
    # The noise itself is known up to its standard deviation.
    coupling = max(squares - noise, 3 * n_features / n_glanced)
    n_digits = np.log(max(n_features / (2 * sample.n_rows * _GOAL), 10.0))

    def price(n_rows):
        """Passes until the goal, that of the correlations included."""
        known = n_rows / n_features + n_features / coupling
        rate = min(1.0 / known + n_features / full.n_rows, 0.98)
        products = n_rows * n_features + n_features**2 / 3 if n_rows else 0.0
        work = products / (_OPERATIONS_PER_ENTRY * full.n_rows * full.n_outputs)
        return n_digits / -np.log(rate) + work + 2 * n_rows / full.n_rows

    choices = [min(k * n_features, largest) for k in _ROWS_PER_COLUMN_CHOICES]
    return min([0, *choices], key=price)


class _ProductSums:
    """Second moments of rows, weighted with their curvature."""

    def __init__(self, full, params):
        self._full, self._params = full, params
        n_features = full.n_features
        # An array or a SparseGram: both add in place.
        self._products: Any = None
        self._first, self._mass = np.zeros(n_features), 0.0
        self._counts, self._n_rows = np.zeros(n_features), 0

    def add(self, rows, target, weights):
        """Add rows of shape (n_rows, n_params), intercept last."""
        n_features = self._full.n_features
        curvature = self._full.loss.curvature(target, rows @ self._params)
        curvature = curvature.sum(axis=1) * weights
        features = rows[:, :n_features]
        self._mass += curvature.sum()
        self._first += curvature @ features
        self._n_rows += len(target)
        scaled = scaled_rows(features, np.sqrt(curvature))
        if sparse.issparse(scaled):
            self._counts += np.bincount(features.indices, minlength=n_features)
            products = SparseGram(scaled)
        else:
            scaled = scaled.astype(np.float32)
            products = scaled.T @ scaled
        if self._products is None:
            self._products = products
        else:
            self._products += products

    def _correlations(self):
        """Correlations around the means if there is an intercept, in place."""
        matrix = self._products
        if isinstance(matrix, SparseGram):
            matrix = matrix.toarray().astype(np.float32)
        if self._full.coordinates.fit_intercept and self._mass > 0:
            root = (self._first / np.sqrt(self._mass)).astype(np.float32)
            matrix -= root * root[:, None]
        diagonal = np.diagonal(matrix).copy()
        scale = np.zeros_like(diagonal)
        is_known = diagonal > 0
        scale[is_known] = 1.0 / np.sqrt(diagonal[is_known])
        matrix *= scale
        matrix *= scale[:, None]
        np.clip(matrix, -1.0, 1.0, out=matrix)
        matrix.flat[:: len(matrix) + 1] = 1.0
        return matrix

    def sum_of_squares(self):
        """Sum of the squared correlations of all pairs."""
        matrix = self._correlations()
        return float(np.einsum("ij,ij->", matrix, matrix)) - len(matrix)

    def shrunk(self):
        """Correlations, each as far as the rows behind it are enough."""
        matrix = self._correlations()
        n_features = len(matrix)
        if self._full.facts.is_sparse:
            belief = np.sqrt(self._counts / (self._counts + _BELIEVED_ROWS))
            belief = belief.astype(np.float32)
            matrix *= belief
            matrix *= belief[:, None]
        else:
            squares = float(np.einsum("ij,ij->", matrix, matrix)) - n_features
            noise = (n_features * (n_features - 1) + squares) / self._n_rows
            matrix *= 1.0 - min(noise / max(squares, noise), 1.0)
        return matrix
