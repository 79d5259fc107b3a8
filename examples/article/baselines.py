r"""First-order baselines of the article's experiments.

All of them minimise, in the package's mean form,

.. math:: F(\theta) = \frac1N \sum_i \ell(y_i, x_i \theta) + l_1 \|\theta\|_1 .

Each algorithm is a generator of :class:`Step`; it neither times, prints nor stops by
itself. :func:`run` drives a generator, keeps the clock and evaluates the objective
outside of it. A pass is one evaluation of all per-sample gradients; the gradient of a
mini-batch is divided by the size of the batch and counts as its share of a pass.
"""

import time
from dataclasses import dataclass

import numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class Objective:
    """Mean loss of a linear model plus an L1 term on all coordinates.

    Attributes
    ----------
    X : ndarray or sparse array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    loss : {"squared", "logistic"}
        Half the squared residual, or the logistic loss with labels 0 and 1.
    l1 : float
    """

    X: object
    y: np.ndarray
    loss: str
    l1: float = 0.0

    @property
    def n_rows(self):
        """Number of samples."""
        return self.X.shape[0]

    def slope(self, prediction, y):
        """Derivative of each sample's loss with respect to its prediction."""
        if self.loss == "squared":
            return prediction - y
        return expit(prediction) - y

    def gradient(self, params, rows=slice(None)):
        """Mean gradient of the loss over some rows."""
        X, y = self.X[rows], self.y[rows]
        return X.T @ self.slope(X @ params, y) / len(y)

    def value(self, params):
        """Mean loss plus L1 term, without overflow."""
        prediction = self.X @ params
        if self.loss == "squared":
            losses = 0.5 * (prediction - self.y) ** 2
        else:
            signed = np.where(self.y > 0, -prediction, prediction)
            losses = np.logaddexp(0.0, signed)
        return float(losses.mean() + self.l1 * np.abs(params).sum())

    def lipschitz(self):
        """Largest curvature of the mean loss in any direction."""
        gram = self.X.T @ self.X
        gram = gram.toarray() if hasattr(gram, "toarray") else gram
        bound = 1.0 if self.loss == "squared" else 0.25
        return float(bound * np.linalg.eigvalsh(gram)[-1] / self.n_rows)

    def prox(self, params, step):
        """Soft threshold of the L1 term."""
        threshold = step * self.l1
        return np.sign(params) * np.maximum(np.abs(params) - threshold, 0.0)

    def violation(self, params, gradient):
        """Largest distance of minus the gradient to the L1 subdifferential."""
        at_zero = np.maximum(np.abs(gradient) - self.l1, 0.0)
        moving = np.abs(gradient + self.l1 * np.sign(params))
        return float(np.where(params == 0, at_zero, moving).max())


@dataclass(frozen=True)
class Step:
    """State after one update.

    ``optimality`` is the KKT violation *before* the update where the algorithm knows
    it, that is, where it has just computed the full gradient; NaN otherwise.
    """

    passes: float
    params: np.ndarray
    optimality: float = np.nan


# ---------------------------------------------------------------------- full gradients
def gradient_descent(objective, start, step_size):
    """Proximal gradient descent; plain gradient descent without L1 term."""
    params, passes = start.copy(), 0
    while True:
        gradient = objective.gradient(params)
        optimality = objective.violation(params, gradient)
        passes += 1
        params = objective.prox(params - step_size * gradient, step_size)
        yield Step(passes, params, optimality)


def heavy_ball(objective, start, step_size, momentum=0.9):
    """Polyak's momentum: v = momentum * v - step * gradient, then params + v."""
    params, velocity, passes = start.copy(), np.zeros_like(start), 0
    while True:
        gradient = objective.gradient(params)
        optimality = objective.violation(params, gradient)
        passes += 1
        moved = params + momentum * velocity - step_size * gradient
        moved = objective.prox(moved, step_size)
        params, velocity = moved, moved - params
        yield Step(passes, params, optimality)


def fista(objective, start, step_size):
    """Nesterov's acceleration with restart when the momentum points uphill."""
    params, extrapolated, weight, passes = start.copy(), start.copy(), 1.0, 0
    while True:
        gradient = objective.gradient(extrapolated)
        passes += 1
        moved = objective.prox(extrapolated - step_size * gradient, step_size)
        if (extrapolated - moved) @ (moved - params) > 0:
            weight = 1.0
        next_weight = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * weight**2))
        extrapolated = moved + (weight - 1.0) / next_weight * (moved - params)
        params, weight = moved, next_weight
        yield Step(passes, params)


# ------------------------------------------------------------------- block coordinates
def leading_coordinates(gradient, share, block_size):
    """Coordinates that carry more than ``share`` of the total abs(gradient).

    Sorted by size; at least ``block_size`` of them, as the article's percentage rule.
    """
    order = np.argsort(-np.abs(gradient), kind="stable")
    cumulative = np.cumsum(np.abs(gradient[order]))
    count = int(np.searchsorted(cumulative, share * cumulative[-1], side="right")) + 1
    return order[: min(max(count, block_size), gradient.size)]


def move_block(objective, params, velocity, block, gradient, step_size, momentum):
    """Heavy-ball step on a block of coordinates; the others keep their values."""
    moved, drift = params.copy(), velocity.copy()
    target = params[block] + momentum * velocity[block] - step_size * gradient[block]
    moved[block] = objective.prox(target, step_size)
    drift[block] = moved[block] - params[block]
    return moved, drift


def greedy_block_descent(
    objective, start, step_size, *, momentum=0.0, share=0.75, block_size=2
):
    """BCD with the Gauss-Southwell rule: a full step, then one on the leading part.

    One gradient serves all blocks of a round, so a round costs two passes.
    """
    params, velocity, passes = start.copy(), np.zeros_like(start), 0
    everything = np.arange(start.size)
    while True:
        gradient = objective.gradient(params)
        optimality = objective.violation(params, gradient)
        params, velocity = move_block(
            objective, params, velocity, everything, gradient, step_size, momentum
        )
        gradient = objective.gradient(params)
        block = leading_coordinates(gradient, share, block_size)
        params, velocity = move_block(
            objective, params, velocity, block, gradient, step_size, momentum
        )
        passes += 2
        yield Step(passes, params, optimality)


def random_block_descent(
    objective, start, step_size, rng, *, momentum=0.0, share=0.5, block_size=2
):
    """BCD on random coordinates: one gradient, one joint step, one pass a round."""
    params, velocity, passes = start.copy(), np.zeros_like(start), 0
    n_blocks = max(1, int(start.size * share) // block_size)
    while True:
        block = rng.choice(start.size, min(start.size, n_blocks * block_size), False)
        gradient = objective.gradient(params)
        params, velocity = move_block(
            objective, params, velocity, block, gradient, step_size, momentum
        )
        passes += 1
        yield Step(passes, params)


# ------------------------------------------------------------------------ mini-batches
def batches(n_rows, batch_size, rng):
    """Rows of one epoch in random order, the last incomplete batch included."""
    order = rng.permutation(n_rows)
    for start in range(0, n_rows, batch_size):
        yield order[start : start + batch_size]


def adam(objective, start, step_size, rng, *, batch_size=256, betas=(0.9, 0.999)):
    """ADAM; the L1 term enters as the subgradient l1 * sign(params), as the article's.

    Yields once per epoch.
    """
    params, passes, updates = start.copy(), 0, 0
    mean, square = np.zeros_like(start), np.zeros_like(start)
    while True:
        for rows in batches(objective.n_rows, batch_size, rng):
            gradient = objective.gradient(params, rows) + objective.l1 * np.sign(params)
            updates += 1
            mean = betas[0] * mean + (1 - betas[0]) * gradient
            square = betas[1] * square + (1 - betas[1]) * gradient**2
            unbiased = mean / (1 - betas[0] ** updates)
            scale = np.sqrt(square / (1 - betas[1] ** updates)) + 1e-8
            params = params - step_size * unbiased / scale
        passes += 1
        yield Step(passes, params)


def sag(objective, start, step_size, rng, *, batch_size=256):
    """Stochastic average gradient with one stored number per sample.

    The gradient of sample i is ``slope_i * x_i``: keeping the slopes and the sum of the
    gradients needs n_rows numbers. The L1 term is applied by its proximal map, outside
    of the stored sum. Yields once per epoch.
    """
    params, passes = start.copy(), 0
    slopes, is_seen, n_seen = np.zeros(objective.n_rows), False, 0
    total = np.zeros_like(start)
    while True:
        for rows in batches(objective.n_rows, batch_size, rng):
            X = objective.X[rows]
            slope = objective.slope(X @ params, objective.y[rows])
            total += X.T @ (slope - slopes[rows])
            slopes[rows] = slope
            n_seen = objective.n_rows if is_seen else n_seen + len(rows)
            params = objective.prox(params - step_size * total / n_seen, step_size)
        is_seen = True
        passes += 1
        yield Step(passes, params)


# ------------------------------------------------------------------------------ driver
@dataclass(frozen=True)
class Trace:
    """History of one run: arrays over the recorded steps, the start included."""

    passes: np.ndarray
    seconds: np.ndarray
    objective: np.ndarray
    optimality: np.ndarray
    params: np.ndarray


def run(algorithm, objective, start, *, max_passes, tol=0.0, record_every=1):
    """Drive a generator up to ``max_passes`` or until its optimality is below ``tol``.

    The objective is evaluated at every ``record_every``-th step with the clock stopped.
    Seconds are processor time: on one thread the same as wall time, without the noise
    of whatever else the machine does.
    """
    records = [(0.0, 0.0, objective.value(start), np.nan, start)]
    seconds, count = 0.0, 0
    while True:
        tick = time.process_time()
        step = next(algorithm)
        seconds += time.process_time() - tick
        count += 1
        is_last = step.passes >= max_passes or step.optimality <= tol
        diverged = not np.isfinite(step.params).all()
        if is_last or diverged or count % record_every == 0:
            value = np.inf if diverged else objective.value(step.params)
            records.append((step.passes, seconds, value, step.optimality, step.params))
        if is_last or diverged:
            return Trace(*(np.array(column) for column in zip(*records, strict=True)))


def tune(make_algorithm, objective, start, step_sizes, *, max_passes):
    """Trace with the lowest final objective over a grid of steps, and its step."""
    traces = {}
    for step_size in step_sizes:
        with np.errstate(over="ignore", invalid="ignore"):
            algorithm = make_algorithm(step_size)
            traces[step_size] = run(algorithm, objective, start, max_passes=max_passes)
    best = min(traces, key=lambda size: traces[size].objective[-1])
    return best, traces[best]


# ------------------------------------------------------------------- certified optimum
def lasso_optimum(objective, max_sweeps=100_000):
    """Minimum of the squared loss with L1 term, and a lower bound that certifies it.

    Coordinate descent on the Gram matrix; the bound is the dual value at the scaled
    residual, computed on the full data.
    """
    X, y, l1 = objective.X, objective.y, objective.l1
    gram, moment = X.T @ X / len(y), X.T @ y / len(y)
    params = np.zeros(len(moment))
    slope = -moment
    for _ in range(max_sweeps):
        largest = 0.0
        for j in range(params.size):
            target = params[j] - slope[j] / gram[j, j]
            target = np.sign(target) * max(abs(target) - l1 / gram[j, j], 0.0)
            change = target - params[j]
            slope += gram[:, j] * change
            params[j] = target
            largest = max(largest, abs(change) * np.sqrt(gram[j, j]))
        if largest <= 1e-15 * np.sqrt(y @ y / len(y)):
            break
    residual = y - X @ params
    scale = min(1.0, l1 / np.abs(X.T @ residual / len(y)).max())
    dual = scale * residual
    bound = (y @ dual - 0.5 * dual @ dual) / len(y)
    return params, objective.value(params), float(bound)
