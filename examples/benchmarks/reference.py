r"""Reference optimum of a benchmark problem, to rounding, and its cache.

Proximal Newton with exact full-data gradients and Hessians:

.. math:: \min_v \; \nabla F(w)^T (v - w) + \tfrac12 \|A (v - w)\|^2 + \sum_j l_j |v_j|

where :math:`A^T A` is the Hessian of the smooth part. For the squared loss ``A`` is the
triangular factor of the data themselves (QR by chunks), which does not square their
condition number; otherwise it comes from an eigendecomposition of the Hessian. The
inner problem is solved by the feature-sign search of Lee et al. (2006). Newton's method
with exact gradients corrects its own rounding errors, so a few extra rounds polish.
A smooth problem with thousands of columns has no such ``A``: there the step comes from
conjugate gradients with products of the Hessian and a vector. Whatever the way, the
judge's duality gap, which is stored with the optimum, says how far it can be trusted.
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from judge import Judge
from scipy.sparse.linalg import LinearOperator, cg

MAX_ROUNDS = 60
# Coordinates from which a smooth problem of one output is solved without its Hessian.
MATRIX_FREE_COORDS = 1000


def solve_reference(problem, start=None):
    """Coefficients (n_features, n_outputs), intercept (n_outputs,) and objective.

    ``start`` has the intercepts as its last row; zero if there is none.
    """
    judge = Judge(problem)
    shape = (problem.n_features + 1, problem.n_outputs)
    params = np.zeros(shape) if start is None else start
    l1 = np.full(shape, problem.l1)
    l1[-1] = 0.0
    value = judge.objective(params[:-1], params[-1])
    factor = None
    without_progress = 0
    for _ in range(MAX_ROUNDS):
        margin = judge.margins(params[:-1], params[-1])
        gradient = smooth_gradient(judge, params, margin)
        is_large = params.size > MATRIX_FREE_COORDS and problem.n_outputs == 1
        if problem.l1 == 0 and is_large:
            step = conjugate_gradient_step(judge, margin, gradient)
        else:
            if factor is None or problem.loss != "squared":
                factor = hessian_factor(judge, margin)
            target = newton_target(factor, gradient.ravel(), params.ravel(), l1.ravel())
            step = target.reshape(shape) - params
        previous = value
        params, value = line_search(judge, params, value, step)
        # Two rounds without decrease: what is left is rounding of the objective, while
        # the second of them still polished the gradient.
        without_progress = without_progress + 1 if value >= previous else 0
        if without_progress == 2:
            break
    return params[:-1], params[-1], value


def smooth_gradient(judge, params, margin):
    coef_part, intercept_part = judge.loss_gradient(margin)
    return np.vstack([coef_part + judge.problem.l2 * params[:-1], intercept_part])


def line_search(judge, params, value, step):
    """Halve the step until the objective does not rise (rounding aside)."""
    for halvings in range(30):
        candidate = params + step * 0.5**halvings
        candidate_value = judge.objective(candidate[:-1], candidate[-1])
        if candidate_value <= value * (1 + 1e-15):
            return candidate, candidate_value
    return params, value


def conjugate_gradient_step(judge, margin, gradient):
    """Newton step of a loss with one output, from products with the Hessian."""
    problem = judge.problem
    X, curvature = problem.X, judge.loss.curvature(problem.y, margin)[:, 0, 0]
    curvature = curvature / problem.n_rows
    squares = X.multiply(X) if sp.issparse(X) else X**2
    diagonal = np.append(squares.T @ curvature + problem.l2, curvature.sum())

    def multiply(direction):
        image = curvature * (X @ direction[:-1] + direction[-1])
        return np.append(X.T @ image + problem.l2 * direction[:-1], image.sum())

    shape = (len(diagonal), len(diagonal))
    step, _ = cg(
        LinearOperator(shape, matvec=multiply),
        -gradient.ravel(),
        rtol=1e-8,
        maxiter=5 * len(diagonal),
        M=LinearOperator(shape, matvec=lambda vector: vector.ravel() / diagonal),
    )
    return step[:, None]


def with_ones(X):
    ones = np.ones((X.shape[0], 1))
    return (
        sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])
    )


def weighted_gram(X, weights):
    if sp.issparse(X):
        return (X.T @ sp.diags_array(weights).tocsr() @ X).toarray()
    return X.T @ (weights[:, None] * X)


def hessian_factor(judge, margin):
    """Matrix A with A.T @ A = Hessian of the smooth part, coordinates in C order."""
    problem = judge.problem
    ridge = np.full((problem.n_features + 1, problem.n_outputs), problem.l2)
    ridge[-1] = 0.0
    if problem.loss == "squared" and not sp.issparse(problem.X):
        triangle = np.diag(np.sqrt(problem.n_rows * ridge.ravel()))
        for rows in judge.chunks():
            triangle = np.linalg.qr(
                np.vstack([triangle, with_ones(problem.X[rows])]), mode="r"
            )
        return triangle / np.sqrt(problem.n_rows)
    hessian = loss_hessian(judge, margin) + np.diag(ridge.ravel())
    eigenvalues, eigenvectors = np.linalg.eigh(hessian)
    # The softmax is blind to a common shift of the intercepts: that direction has
    # curvature zero up to rounding and must not be followed.
    kept = eigenvalues > 1e-15 * eigenvalues[-1]
    return np.sqrt(eigenvalues[kept])[:, None] * eigenvectors[:, kept].T


def loss_hessian(judge, margin):
    problem = judge.problem
    n_params, n_outputs = problem.n_features + 1, problem.n_outputs
    hessian = np.zeros((n_params, n_outputs, n_params, n_outputs))
    for rows in judge.chunks():
        extended = with_ones(problem.X[rows])
        curvature = judge.loss.curvature(problem.y[rows], margin[rows])
        for k in range(n_outputs):
            for m in range(k + 1):
                block = weighted_gram(extended, curvature[:, k, m])
                hessian[:, k, :, m] += block
                if m < k:
                    hessian[:, m, :, k] += block
    size = n_params * n_outputs
    return hessian.reshape(size, size) / problem.n_rows


def newton_target(factor, gradient, params, l1):
    """Minimiser of the proximal Newton model by feature-sign search.

    Coordinates with ``l1 = 0`` are always active. Each round solves the model on the
    active coordinates with fixed signs, walks towards that solution up to the best sign
    change, and activates the coordinate with the largest violation when stationary.
    """
    point, signs = params.copy(), np.sign(params)
    signs[l1 == 0] = 0.0
    active = (params != 0) | (l1 == 0)
    for _ in range(50 * params.size):
        if active.any():
            point, crossed = constrained_step(
                factor, gradient, params, l1, point, signs, active
            )
            dropped = (point == 0) & (l1 > 0)
            active &= ~dropped
            signs = np.where(l1 > 0, np.sign(point), 0.0)
            if crossed:
                continue
        slope = gradient + factor.T @ (factor @ (point - params))
        excess = np.where(active, -np.inf, np.abs(slope) - l1)
        worst = int(excess.argmax())
        if excess[worst] <= 1e-15 * np.abs(gradient).max() + 1e-14 * l1[worst]:
            break
        active[worst] = True
        signs[worst] = -np.sign(slope[worst])
    return point


def constrained_step(factor, gradient, params, l1, point, signs, active):
    """Move to the minimiser of the model with fixed signs, or to the best sign change.

    Returns the new point and whether a sign would have changed on the way.
    """
    columns = factor[:, active]
    slope = gradient + factor.T @ (factor @ (point - params)) + l1 * signs
    # Singular values of the columns, not of their Gram matrix: small ones are accurate.
    _, singular, right = np.linalg.svd(columns, full_matrices=False)
    kept = singular > 1e-14 * singular[0]
    rotated = right[kept] @ slope[active]
    move = np.zeros_like(point)
    move[active] = -(right[kept].T @ (rotated / singular[kept] ** 2))
    target = point + move
    crossing = active & (signs != 0) & (np.sign(target) == -signs) & (point != 0)
    if not crossing.any():
        return target, False
    shares = np.sort(-point[crossing] / move[crossing])
    best, best_value = None, np.inf
    for share in (*shares, 1.0):
        candidate = point + share * move
        candidate[crossing & (np.abs(candidate) <= 1e-15 * np.abs(point))] = 0.0
        drift = factor @ (candidate - params)
        value = gradient @ (candidate - params) + 0.5 * drift @ drift
        value += l1 @ np.abs(candidate)
        if value < best_value:
            best, best_value = candidate, value
    return best, True


def reference_objective(problem, cache_dir=None):
    """Optimal objective of a problem and its relative duality gap, cached by name."""
    path = None
    if cache_dir is not None:
        path = Path(cache_dir) / f"{problem.name}.json"
        if path.exists():
            return json.loads(path.read_text())
    coef, intercept, value = solve_reference(problem)
    verdict = Judge(problem).evaluate(coef, intercept)
    record = {
        "objective": value,
        "violation": verdict.violation,
        "relative_gap": verdict.dual_gap / abs(value),
        "zero_share": float(np.mean(coef == 0.0)),
    }
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
    return record
