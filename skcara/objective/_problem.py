r"""The full-data objective, evaluated in one pass.

.. math::

    F(\mathrm{params}) = \sum_i \mu_i\, \ell(y_i, \tilde x_i^\top \mathrm{params})
    + \sum_c l1_c |p_c| + \tfrac12 l2_c p_c^2 ,
    \qquad \mu_i = w_i / \sum_k w_k .

``params`` has shape (n_params, n_outputs), intercept last; its flat coordinates are
``row * n_outputs + output``. Everything a solver, a stopping test or a certificate
needs of the full data comes out of :meth:`Problem.evaluate`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from skcara.data import Design, group_sums, predictions, squared, transposed
from skcara.objective._criteria import ColumnMoments, Criterion
from skcara.objective._losses import Loss
from skcara.objective._penalty import SeparablePenalty


@dataclass(frozen=True)
class Groups:
    """Contiguous groups of rows, known by the sums of their weighted gradients.

    Attributes
    ----------
    sums : ndarray of shape (n_groups, n_coords)
        Sum of ``mu_i * gradient_i`` over the rows of each group.
    masses : ndarray of shape (n_groups,)
        Sum of ``mu_i`` over the rows of each group.
    offsets : ndarray of shape (n_groups + 1,)
        Group ``k`` consists of the rows ``offsets[k]:offsets[k + 1]``.
    """

    sums: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """The objective and its certificates at one point, from all rows.

    Attributes
    ----------
    params : ndarray of shape (n_params, n_outputs)
    loss, objective : float
        Mean loss, and mean loss plus penalty.
    gradient, smooth_gradient : ndarray of shape (n_params, n_outputs)
        Gradient of the mean loss, without and with the L2 term.
    violation : ndarray of shape (n_params, n_outputs)
        Distance to the subdifferential in the coordinates of the solver.
    optimality : float
        Largest such distance in the coordinates of the user.
    stop_value : float
        What the stopping criterion compares with ``tol``.
    dual_gap : float or None
        Certified bound of ``objective`` minus its minimum, where one is known.
    groups : Groups or None
    is_separated : bool
        Whether the classes are separated and nothing keeps coefficients finite.
    """

    params: np.ndarray
    loss: float
    objective: float
    gradient: np.ndarray
    smooth_gradient: np.ndarray
    violation: np.ndarray
    optimality: float
    stop_value: float
    dual_gap: float | None = None
    groups: Groups | None = None
    is_separated: bool = False


class Problem:
    """A loss on a design, a penalty and a stopping criterion.

    Parameters
    ----------
    design : Design
    target : ndarray of shape (n_rows,)
        Floats for the squared loss, class codes for the logistic losses.
    loss : Loss
    penalty : SeparablePenalty
        In the coordinates of the user, ``n_params`` rows.
    criterion : Criterion
    sample_weight : ndarray of shape (n_rows,), optional
        Non-negative, not all zero, of any total; or what can be sliced and summed like
        one.
    """

    def __init__(
        self,
        design: Design,
        target,
        loss: Loss,
        penalty: SeparablePenalty,
        criterion: Criterion,
        sample_weight=None,
    ):
        self.design = design
        self.target = target
        self.loss = loss
        self.user_penalty = penalty
        self.criterion = criterion
        self.sample_weight = sample_weight
        self.total_weight = (
            float(design.n_rows)
            if sample_weight is None
            else float(sample_weight.sum())
        )
        self.n_rows = design.n_rows
        self.n_params = design.n_params
        self.n_outputs = loss.n_outputs
        self.n_coords = self.n_params * self.n_outputs
        row_scale = np.ones(self.n_params)
        row_scale[: design.n_features] = design.scale
        self.penalty = penalty.scaled(row_scale)
        self.column_moments: ColumnMoments | None = None
        #: Set by solvers that need no variances of the columns: a pass in itself.
        self.skips_variance = False
        is_penalised = penalty.l1.any() or penalty.l2.any()
        self._may_be_unbounded = loss.can_separate and not is_penalised

    def with_design(self, design: Design) -> "Problem":
        """Return the same problem in the coordinates of another design."""
        problem = Problem(
            design,
            self.target,
            self.loss,
            self.user_penalty,
            self.criterion,
            self.sample_weight,
        )
        problem.column_moments = self.column_moments
        return problem

    # ---- rows ------------------------------------------------------------------

    @property
    def weights(self):
        """Weights ``mu`` of all rows, summing to one (a view if all are equal)."""
        return self.row_weights(slice(0, self.n_rows))

    def row_weights(self, rows):
        """Weights ``mu`` of a slice of rows, or of an array of indices."""
        if self.sample_weight is not None:
            return self.sample_weight[rows] / self.total_weight
        is_slice = isinstance(rows, slice)
        n_rows = len(range(*rows.indices(self.n_rows))) if is_slice else len(rows)
        return np.broadcast_to(1.0 / self.n_rows, (n_rows,))

    @cached_property
    def target_moments(self):
        """Weighted mean and variance of the target, and its mean square."""
        target, weights = self.target, self.sample_weight
        if weights is None:
            total, total_square = target.sum(), target @ target
        else:
            total = weights @ target
            total_square = np.einsum("i,i,i->", weights, target, target)
        mean, variance = total / self.total_weight, 0.0
        # Not mean_square - mean**2, which cancels; a chunk of rows at a time.
        for start in range(0, self.n_rows, self.design.chunk_rows):
            part = slice(start, start + self.design.chunk_rows)
            deviation = target[part] - mean
            weighted = deviation if weights is None else deviation * weights[part]
            variance += deviation @ weighted
        total_weight = self.total_weight
        return float(mean), variance / total_weight, total_square / total_weight

    def rows(self, indices):
        """Dense rows in the solver's coordinates, targets and weights ``mu``."""
        weights = np.array(self.row_weights(indices))
        return self.design.take(indices), self.target[indices], weights

    # ---- the pass --------------------------------------------------------------

    def evaluate(self, params, *, group_rows: int | None = None) -> Evaluation:
        """Evaluate objective, gradient and certificates in one pass over the rows.

        Parameters
        ----------
        params : ndarray of shape (n_params, n_outputs)
        group_rows : int, optional
            Also return the gradient sums of contiguous groups of this many rows, a
            power of two that is at most ``design.chunk_rows``.
        """
        n_features, n_outputs = self.design.n_features, self.n_outputs
        coef, intercept = self.design.effective_params(params)
        if group_rows is not None:
            offsets = np.append(np.arange(0, self.n_rows, group_rows), self.n_rows)
            n_groups = len(offsets) - 1
            sums_of_groups = np.empty((n_groups, n_features, n_outputs))
            group_masses = np.empty((n_groups, n_outputs))
        want_moments = self.criterion.needs_moments and self.column_moments is None
        reference = self._reference_row() if want_moments else None

        def visit(start, rows):
            stop = start + rows.shape[0]
            weights = self.sample_weight
            weights = None if weights is None else weights[start:stop]
            prediction = predictions(rows, coef)
            prediction += intercept
            total, derivative = self.loss.weighted_sum(
                self.target[start:stop], prediction, weights
            )
            n_wrong = self._may_be_unbounded and _count_wrong(derivative, weights)
            terms = [total, n_wrong, derivative.sum(axis=0)]
            if group_rows is None:
                terms.append(transposed(rows) @ derivative)
            else:
                groups = slice(start // group_rows, -(-stop // group_rows))
                sums = group_sums(rows, derivative, group_rows)
                sums_of_groups[groups] = sums
                group_masses[groups] = np.add.reduceat(
                    derivative, np.arange(0, len(derivative), group_rows)
                )
                terms.append(sums.sum(axis=0))
            if want_moments:
                raw = rows if self.design.is_sparse else self.design.X[start:stop]
                terms += _moment_terms(raw, weights, reference, self.skips_variance)
            return terms

        loss, n_wrong, mass, gradient, *moments = self.design.map_reduce(visit)
        if want_moments:
            sums, squares = moments if len(moments) == 2 else (*moments, None)
            self.column_moments = ColumnMoments.from_sums(
                sums, squares, reference, self.total_weight
            )
        gradient = self.design.correct_sums(gradient, mass) / self.total_weight
        groups = None
        if group_rows is not None:
            sums = self.design.correct_sums(sums_of_groups, group_masses)
            sums = sums.reshape(n_groups, -1) / self.total_weight
            groups = Groups(sums, self._group_masses(offsets), offsets)
        return self.certify(
            params,
            loss / self.total_weight,
            gradient,
            groups=groups,
            is_separated=self._may_be_unbounded and n_wrong == 0,
        )

    def certify(
        self, params, loss, gradient, *, groups=None, is_separated=False
    ) -> Evaluation:
        """Build the evaluation from the mean loss and its gradient on all rows."""
        smooth_gradient = gradient + self.penalty.l2 * params
        evaluation = Evaluation(
            params=params,
            loss=loss,
            objective=loss + self.penalty.value(params),
            gradient=gradient,
            smooth_gradient=smooth_gradient,
            violation=self.penalty.violation(params, smooth_gradient),
            optimality=self._user_optimality(params, smooth_gradient),
            stop_value=np.inf,
            groups=groups,
            is_separated=is_separated,
        )
        stop_value, dual_gap = self.criterion.measure(self, evaluation)
        return replace(evaluation, stop_value=stop_value, dual_gap=dual_gap)

    def _user_optimality(self, params, smooth_gradient):
        # Zeros and signs of penalised coordinates do not depend on the coordinates.
        user_gradient = self.design.gradient_to_user(smooth_gradient)
        return float(self.user_penalty.violation(params, user_gradient).max())

    def _reference_row(self):
        """Return a point near the rows, from which column moments do not cancel."""
        if self.design.is_sparse:
            return np.zeros(self.design.n_features)
        return self.design.X[0].astype(np.float64)

    def _group_masses(self, offsets):
        if self.sample_weight is None:
            return np.diff(offsets) / self.n_rows
        return np.add.reduceat(self.weights, offsets[:-1])


def _count_wrong(derivative, weights):
    """Rows whose class has a probability of one half or less."""
    # The derivative with respect to the score of the true class is p - 1.
    largest = np.abs(derivative).max(axis=1)
    limit = 0.5 if weights is None else 0.5 * weights
    return int(np.count_nonzero((largest >= limit) & (largest > 0)))


def _moment_terms(rows, weights, reference, skips_variance):
    """Weighted sums of the columns and of their squares, around ``reference``."""
    if skips_variance:
        weights = np.ones(rows.shape[0]) if weights is None else weights
        return [rows.T @ weights - weights.sum() * reference]
    if sparse.issparse(rows):
        weights = np.ones(rows.shape[0]) if weights is None else weights
        return [rows.T @ weights, squared(rows).T @ weights]
    centred = np.subtract(rows, reference, dtype=np.float64)
    if weights is None:
        return [centred.sum(axis=0), np.einsum("ij,ij->j", centred, centred)]
    return [weights @ centred, weights @ np.square(centred)]
