r"""The objective on the full data, as a value: it holds no data and reads none.

.. math::

    F(\mathrm{params}) = \sum_i \mu_i\, \ell(y_i, \tilde x_i^\top \mathrm{params})
    + \sum_c l1_c |p_c| + \tfrac12 l2_c p_c^2 ,
    \qquad \mu_i = w_i / \sum_k w_k .

``params`` has shape (n_params, n_outputs), intercept last; its flat coordinates are
``row * n_outputs + output``. The sums over rows come from passes
(:mod:`skcara.passes`); what they mean for the objective, the stopping test and the
certificates is said here, by :meth:`Problem.certify`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skcara.data import Chunk, Coordinates, Facts, TargetMoments
from skcara.objective._criteria import ColumnMoments, Criterion
from skcara.objective._loss import Loss
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


class Evaluation(NamedTuple):
    """The objective and its certificates at one point, from all rows.

    Attributes
    ----------
    params : ndarray of shape (n_params, n_outputs)
    loss, objective : float
        Mean loss, and mean loss plus penalty.
    gradient, smooth_gradient : ndarray of shape (n_params, n_outputs)
        Gradient of the mean loss, without and with the L2 term.
    optimality : float
        Largest distance of a coordinate to the subdifferential, in the coordinates of
        the user or in ``units``.
    stop_value : float
        What the stopping criterion compares with ``tol``.
    dual_gap : float or None
        Certified bound of ``objective`` minus its minimum, where one is known.
    groups : Groups or None
    is_separated : bool
        Whether the classes are separated and nothing keeps coefficients finite.
    has_overflowed : bool
        Whether squares of the predictions are too large for a number.
    loss_error : float
        Bound of the error of ``loss``, where the sums are not exact to rounding.
    gradient_error : ndarray of shape (n_params, n_outputs) or None
        Likewise for ``gradient``. Both are part of the certificates.
    """

    params: np.ndarray
    loss: float
    objective: float
    gradient: np.ndarray
    smooth_gradient: np.ndarray
    optimality: float
    stop_value: float
    dual_gap: float | None = None
    groups: Groups | None = None
    is_separated: bool = False
    has_overflowed: bool = False
    loss_error: float = 0.0
    gradient_error: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """A loss, a penalty and a stopping criterion on the rows of a source.

    Attributes
    ----------
    facts : Facts
        What is known of the source.
    loss : Loss
    user_penalty : SeparablePenalty
        In the coordinates of the user, ``n_params`` rows.
    criterion : Criterion
    coordinates : Coordinates
        Those of the solver.
    column : int or None
        Number of the target, where the source has several.
    column_moments : ColumnMoments or None
        Of the columns of ``X``, once they are known.
    units : Coordinates or None
        Coordinates in which violations are measured. None means those of the user; a
        problem that is stated for standardised columns is judged in these.
    """

    facts: Facts
    loss: Loss
    user_penalty: SeparablePenalty
    criterion: Criterion
    coordinates: Coordinates
    column: int | None = None
    column_moments: ColumnMoments | None = field(default=None)
    units: Coordinates | None = None

    # ---- shapes and facts ------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number of rows of the source."""
        return self.facts.n_rows

    @property
    def total_weight(self) -> float:
        """Sum of the sample weights."""
        return self.facts.total_weight

    @property
    def n_features(self) -> int:
        """Number of columns of the source."""
        return self.coordinates.n_features

    @property
    def n_params(self) -> int:
        """Number of columns, the intercept included."""
        return self.coordinates.n_params

    @property
    def n_outputs(self) -> int:
        """Number of predictions per row."""
        return self.loss.n_outputs

    @property
    def n_coords(self) -> int:
        """Number of flat coordinates."""
        return self.n_params * self.n_outputs

    @cached_property
    def penalty(self) -> SeparablePenalty:
        """The penalty in the coordinates of the solver."""
        return self._penalty_in(self.coordinates)

    def _penalty_in(self, coordinates):
        row_scale = np.empty(self.n_params)
        row_scale[: self.n_features] = coordinates.scale
        row_scale[self.n_features :] = 1.0
        return self.user_penalty.scaled(row_scale)

    @cached_property
    def may_be_unbounded(self) -> bool:
        """Whether nothing but the data keeps coefficients finite."""
        return self.loss.can_separate and self.user_penalty.is_zero

    @property
    def objective_at_zero(self) -> float | None:
        """Objective of coefficients and intercepts of zero, if it is known."""
        if self.loss.is_quadratic:
            return 0.5 * self.target_moments.mean_square
        return self.loss.value_at_zero

    @property
    def target_moments(self) -> TargetMoments:
        """Moments of the target."""
        return self.facts.target_moments[self.column or 0]

    @property
    def reference_target(self) -> float:
        """Target of some row."""
        return self.facts.reference_target.item(self.column or 0)

    # ---- variants --------------------------------------------------------------

    def with_coordinates(self, coordinates: Coordinates) -> "Problem":
        """Return the same problem in other coordinates."""
        return self._variant(coordinates, self.column_moments)

    def with_moments(self, moments: ColumnMoments | None) -> "Problem":
        """Return the same problem with known moments of the columns."""
        return self if moments is None else self._variant(self.coordinates, moments)

    def _variant(self, coordinates, moments):
        # Several times faster than to copy field by field, by name.
        return Problem(
            self.facts,
            self.loss,
            self.user_penalty,
            self.criterion,
            coordinates,
            self.column,
            moments,
            self.units,
        )

    # ---- rows of a chunk -------------------------------------------------------

    def target_of(self, chunk: Chunk) -> np.ndarray:
        """Targets of the rows of a chunk, of shape (n_rows,)."""
        if self.column is None:
            return chunk.target
        return np.ascontiguousarray(chunk.target[:, self.column])

    def shares_of(self, chunk: Chunk) -> np.ndarray:
        """Weights ``mu`` of the rows of a chunk, summing to one over the source."""
        if chunk.weights is None:
            return np.broadcast_to(1.0 / self.total_weight, (chunk.n_rows,))
        return chunk.weights / self.total_weight

    def count_wrong(self, derivative, weights) -> int:
        """Rows that keep coefficients finite; 0 where a penalty does."""
        if not self.may_be_unbounded:
            return 0
        return self.loss.count_wrong(derivative, weights)

    # ---- certificates ----------------------------------------------------------

    def certify(self, params, loss, gradient, **details) -> Evaluation:
        """Build the evaluation from the mean loss and its gradient on all rows.

        Parameters
        ----------
        params, gradient : ndarray of shape (n_params, n_outputs)
        loss : float
        **details
            Other fields of :class:`Evaluation`.
        """
        smooth_gradient = gradient + self.penalty.l2 * params
        evaluation = Evaluation(
            params=params,
            loss=loss,
            objective=loss + self.penalty.value(params),
            gradient=gradient,
            smooth_gradient=smooth_gradient,
            optimality=self._optimality(params, smooth_gradient),
            stop_value=np.inf,
            **details,
        )
        stop_value, dual_gap = self.criterion.measure(self, evaluation)
        return evaluation._replace(stop_value=stop_value, dual_gap=dual_gap)

    def _optimality(self, params, smooth_gradient):
        # Zeros and signs of penalised coordinates do not depend on the coordinates.
        gradient = self.coordinates.gradient_to_user(smooth_gradient)
        penalty = self.user_penalty
        if self.units is not None:
            gradient = self.units.gradient_from_user(gradient)
            penalty = self._penalty_in(self.units)
        return float(penalty.violation(params, gradient).max())
