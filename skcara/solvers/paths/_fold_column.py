r"""One fold and one penalty of a search: where it is and what is known of it.

A column knows its best point, the *anchor*, with the exact gradient of the mean
objective there, a quadratic model of the objective, and the point that is to be read
next. A new point is accepted without its objective, by the mean of the slopes at both
ends of the step,

.. math:: F(p) - F(a) \approx \tfrac12 (\nabla f(a) + \nabla f(p))^\top (p - a)
    + l1\,(\|p\|_1 - \|a\|_1) ,

which is exact for a quadratic loss. The slope at the new point alone would prove that
it is better, but it refuses every point that is a little past the best one of its line,
and flat directions are full of these.

The score of a fold is not at a minimum of anything, so it is as wrong as the solution,
not as its square. With the Newton step :math:`\delta` that is left and the mean slope
:math:`V` of the test losses it is wrong by about :math:`V^\top \delta`, by which the
reported score is corrected. A small correction proves nothing: the step may happen to
be orthogonal to :math:`V`. What remains is the error :math:`e` of the step, with a part
:math:`c\, \delta` along it and a rest of length :math:`\rho\, \|\delta\|_H` across it,

.. math:: |V^\top e| \le c\, |V^\top \delta|
    + \rho\, \|V\|_{H^{-1}}\, \|\delta\|_H ,

and a term of second order, about the decrease that is left,
:math:`\tfrac12 \|\delta\|_H^2`. How wrong the model is, :math:`c` and :math:`\rho`, is
judged by the last step. The sum is the worst case; by how much the last step changed
the corrected score is another estimate of its error, of the typical case. The column is
done when their geometric mean is small.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from skcara.objective import Evaluation, Problem
from skcara.solvers._quadratic import QuadraticModel

#: Largest error of a score, relative to the score.
MAX_SCORE_ERROR = 1e-6
# The predicted decrease must fall at least this much from read to read, or the model
# is not good enough.
_CONTRACTION = 0.25
# A column whose violation and score have not become better, by this factor, in so many
# reads will not: rounding, or coefficients without bound, are in the way.
_PROGRESS, _MAX_READS_WITHOUT = 0.99, 10
# Mean losses are of order one: a predicted decrease below this is rounding. It comes
# from gradients, which may still say where to go: a few steps, for the sake of scores.
_ROUNDING, _MAX_READS_AT_ROUNDING = 1e-15, 5
# No model is believed to go less than this share of the way.
_MIN_SHARE = 1e-9
# The same in single precision, with gradients wrong by 1e-7 and eigenvalues from 1e-4.
_SINGLE_ROUNDING = 1e-10
# Share of the largest error of a score that the noise of gradients may have.
_MAX_NOISE = 0.1
# Largest change of a prediction by a step. Where rows are predicted with near certainty
# there is next to no curvature: a step of a model may go a million times too far, and
# each halving costs a read.
_MAX_REACH = 4.0


class Quality(Enum):
    """Where a Hessian comes from, from cheap to expensive."""

    SAMPLE = "sampled rows"
    SHARED_POINT = "all rows, at a point between those of the folds"
    OWN_POINT = "all rows, at the point of the fold"


@dataclass(frozen=True)
class TestSet:
    """Mean loss on the test rows of a fold and its gradient, at a point."""

    __test__ = False  # not for pytest

    loss: float
    gradient: np.ndarray


class Column:
    """State of one fold and one penalty.

    Parameters
    ----------
    fold, number : int
        Numbers of the fold and of the penalty.
    problem : Problem
        In the coordinates of the solver; its total weight is that of the training set.

    Attributes
    ----------
    params : ndarray of shape (n_params, n_outputs)
        The point that is read next.
    anchor : Evaluation or None
        The best point so far; its loss is not known and counts as zero.
    model : QuadraticModel or None
    quality : Quality
        Where the Hessian of the model comes from.
    score_loss, score_error : float
        Corrected mean loss on the test rows, and how wrong it may still be.
    predicted : float
        Decrease of the objective that the model expects of the next step.
    n_poor : int
        How many times in a row the model has disappointed.
    is_rejected : bool
        Whether the last point was worse than the anchor.
    is_noisy : bool
        Whether the noise of the gradient is in the way of the score.
    n_reads : int
    is_stalled : bool
        Whether more reads would be of no use.
    """

    def __init__(self, fold: int, number: int, problem: Problem):
        self.fold, self.number, self.problem = fold, number, problem
        self.params = np.zeros((problem.n_params, problem.n_outputs))
        self.anchor: Evaluation | None = None
        self.model: QuadraticModel | None = None
        self.quality = Quality.SAMPLE
        self.score_loss, self.score_error = np.nan, np.inf
        self.predicted, self._candidate = np.inf, self.params
        self.n_poor, self.is_rejected = 0, False
        self.n_reads = 0
        self.is_stalled = False
        # Of the violation and of the error of the score.
        self._least, self._n_idle, self._n_at_rounding = np.full(2, np.inf), 0, 0
        self._test: TestSet | None = None
        self._noise, self.is_noisy = 0.0, False
        self._last_step = _LastStep()
        # By which the distance to the minimiser fell.
        self._last_score, self._rate = np.nan, 0.0

    # ---- what a read says ------------------------------------------------------

    def learn(self, gradient, test: TestSet | None, noise: float = 0.0) -> None:
        """Take in the gradient of the mean loss at ``params``.

        Parameters
        ----------
        gradient : ndarray of shape (n_params, n_outputs)
        test : TestSet or None
        noise : float
            Largest error of an entry of the gradient.
        """
        self.n_reads += 1
        evaluation = self.problem.certify(self.params, 0.0, gradient)
        self._watch_progress(evaluation.stop_value)
        model, anchor, expected = self.model, self.anchor, self.predicted
        assert model is not None, "made before a read and with every step"
        predicted, candidate = _propose(model, evaluation)
        if anchor is not None:
            is_shorter = predicted <= _CONTRACTION * expected
            step = evaluation.params - anchor.params
            way = self._candidate - anchor.params
            surprise = candidate - self._candidate
            self._last_step = _judge_step(model, step, way, surprise)
            self.n_poor = 0 if is_shorter else self.n_poor + 1
            # An anchor from a read in single precision cannot be compared with what is
            # better by less than the rounding of that read.
            is_first_score = self._test is None and test is not None
            is_first_score |= noise < self._noise
            self.is_rejected = not (
                is_shorter
                or self._is_better(evaluation, anchor)
                or (is_first_score and predicted <= _SINGLE_ROUNDING)
            )
            if self.is_rejected:
                return
            change = evaluation.smooth_gradient - anchor.smooth_gradient
            self.model = model.secant(step.ravel(), change.ravel())
            predicted, candidate = _propose(self.model, evaluation)
            self._rate = np.sqrt(max(predicted, 0.0) / expected) if expected > 0 else 0
        self._last_score = self.score_loss
        self.anchor, self._test, self._noise = evaluation, test, noise
        self.predicted, self._candidate = predicted, candidate
        self._correct_score(evaluation)

    def _watch_progress(self, stop_value):
        sizes = np.array([stop_value, self.score_error])
        has_progress = (sizes < _PROGRESS * self._least).any()
        self._n_idle = 0 if has_progress else self._n_idle + 1
        self._least = np.fmin(sizes, self._least)
        self._n_at_rounding += self.is_at_rounding
        self.is_stalled = (
            self._n_idle >= _MAX_READS_WITHOUT
            or self._n_at_rounding >= _MAX_READS_AT_ROUNDING
        )

    def _is_better(self, evaluation, anchor):
        """Whether the objective is estimated to be no larger than at the anchor."""
        new, old = evaluation.params, anchor.params
        l1 = self.problem.penalty.l1
        slope = 0.5 * (evaluation.smooth_gradient + anchor.smooth_gradient)
        change = np.sum(slope * (new - old))
        return change + np.sum(l1 * (np.abs(new) - np.abs(old))) <= 0

    def _correct_score(self, anchor):
        if self._test is None:
            return
        assert self.model is not None, "made before a read and with every step"
        slope, step = self._test.gradient, self._candidate - anchor.params
        correction = float(np.sum(slope * step))
        self.score_loss = self._test.loss + correction
        is_free = (self._candidate != 0) | (anchor.params != 0)
        response = self.model.response(slope.ravel(), is_free.ravel())
        reach = np.sqrt(max(slope.ravel() @ response, 0.0))
        # Where the decrease is rounding, it may be negative.
        length = step.ravel() @ self.model.matrix @ step.ravel()
        distance = np.sqrt(max(2 * self.predicted, length, 0.0))
        last = self._last_step
        self.score_error = last.along * abs(correction) + self.predicted
        self.score_error += last.across * reach * distance
        score_noise = self._noise * np.abs(response).sum()
        self.is_noisy = score_noise > _MAX_NOISE * MAX_SCORE_ERROR * self.score_loss
        if np.isfinite(self._last_score) and self.score_error > 0:
            # The worst case counts on a slope and an error in the same direction; what
            # the last step changed may be small by chance. Together they are neither.
            change = abs(self.score_loss - self._last_score) / last.share
            if not self.is_at_rounding:
                # Slow progress adds up to much more than its last step.
                change /= max(1.0 - self._rate, _MIN_SHARE)
            self.score_error *= np.sqrt(min(change / self.score_error, 1.0))
        self.score_error += score_noise
        if not self._is_accurate and self.is_at_rounding:
            # What is left is rounding, and so is the step that it suggests.
            self.score_loss = self._test.loss

    @property
    def _is_accurate(self):
        return self.score_error <= MAX_SCORE_ERROR * abs(self.score_loss)

    def use_model(self, model: QuadraticModel, quality: Quality) -> None:
        """Replace the model."""
        is_newton = self.quality is quality is Quality.OWN_POINT
        self.model, self.quality, self.n_poor = model, quality, 0
        # A Newton step that was too long is halved, not tried again.
        self.is_rejected = self.is_rejected and is_newton
        if self.anchor is not None:
            self.predicted, self._candidate = _propose(model, self.anchor)
            self._correct_score(self.anchor)

    # ---- where to go -----------------------------------------------------------

    @property
    def base(self) -> np.ndarray:
        """The best point so far; before the first read, the one that is read next."""
        return self.params if self.anchor is None else self.anchor.params

    @property
    def has_score(self) -> bool:
        """Whether the score is as accurate as promised."""
        return self._test is not None and self._is_accurate

    @property
    def is_at_rounding(self) -> bool:
        """Whether no more than rounding is left of the decrease of the objective."""
        return self.predicted <= _ROUNDING

    def is_done(self, tol: float, *, with_score: bool) -> bool:
        """Whether the optimality conditions hold, and the score is as promised."""
        is_optimal = self.anchor is not None and self.anchor.stop_value <= tol
        return is_optimal and (self.has_score or not with_score)

    @property
    def move(self) -> np.ndarray:
        """From the best point so far to the minimiser of the model."""
        return self._candidate - self.base

    def step(self) -> None:
        """Go to the minimiser of the model, or half of the way that was too long."""
        if self.is_rejected:
            self.params = 0.5 * (self.base + self.params)
        else:
            self.params = self._candidate

    def shorten(self, reach: float) -> None:
        """Shorten a step that changes predictions by up to ``reach``, if that is much.

        All steps start downhill: shorter ones are no worse.
        """
        if reach > _MAX_REACH:
            self.params = self.base + _MAX_REACH / reach * (self.params - self.base)


class _LastStep(NamedTuple):
    """How wrong a model was about a step.

    Before the first one it is taken to be right up to a factor of two.

    Attributes
    ----------
    along, across : float
        How wrong the next step may be along and across it, relative to its length.
    share : float
        How far the step went of the way that the model proposed.
    """

    along: float = 1.0
    across: float = 1.0
    share: float = 1.0


def _judge_step(model, step, way, surprise):
    r"""Judge a model by a step that was taken.

    The surprise is by how much the minimiser that the model predicts has moved. In the
    norm of the model it has a part :math:`q s` along the step :math:`s` and a rest
    :math:`\rho\, \|s\|` across it. A model that goes the share :math:`1 - q` of every
    way leaves :math:`c = q / (1 - q)` times what it proposes: near one that is much
    more than the step. The next step will be more wrong across: what is
    left are the directions in which the model is wrong (for one model in all steps,
    norms of the powers of a symmetric matrix are log-convex). So :math:`\sqrt\rho` is
    taken, halfway to no progress at all.
    """
    step, way, surprise = step.ravel(), way.ravel(), surprise.ravel()
    image = model.matrix @ step
    length = step @ image
    if not length > 0:
        return _LastStep()
    ratio = (surprise @ image) / length
    along = abs(ratio) / max(1.0 - ratio, _MIN_SHARE)
    rest = surprise - ratio * step
    across = max(rest @ model.matrix @ rest, 0.0) / length
    share = np.sqrt(length / max(way @ model.matrix @ way, length))
    return _LastStep(along, min(across**0.25, 1.0), share)


def _propose(model, evaluation):
    """Decrease that the model predicts, and its minimiser."""
    flat = evaluation.params.ravel()
    slope = evaluation.smooth_gradient.ravel()
    candidate = model.minimize(flat, slope)
    predicted = -0.5 * model.decrease(flat, slope, candidate)
    return predicted, candidate.reshape(evaluation.params.shape)
