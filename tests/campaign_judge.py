r"""The judge of the campaign: textbook formulas in extended precision.

Nothing here is shared with the library. Data and coefficients are converted to
``np.longdouble`` (64 bits of mantissa on x86), so that the rounding of the judge is two
thousand times below that of the estimators.

What rounding may do
--------------------
An estimator works in double precision, with unit round-off ``EPS``. A prediction
:math:`x_i^\top \beta + b` of ``p`` terms is then uncertain by

.. math:: e_i = 2 (p + 4)\,\mathrm{EPS}\,
          \Big(\sum_j (|x_{ij}| + m_j) |\beta_j| + |b|\Big)

(the standard bound of an inner product; four more operations for the intercept, a
change of coordinates and the rounding of the coefficients themselves; twice, in the
coordinates of the estimator and in those of the user; the origin of the former is of
the size of the mean absolute value ``m_j`` of a column).
Everything the judge compares is a function of the predictions, and is allowed what
:math:`e` can do to it to first order; sums of ``n`` terms are allowed a relative
``(64 + sqrt(n)) EPS`` of the sum of absolute values on top: a worst case of a constant,
and the random walk of roundings. Terms that are all alike round alike, so a mean loss,
products with dense columns that repeat a few values, and products with sparse columns,
which processors add one by one, are allowed the additions of a lane of a chunk on top.
Statistics of the squared loss may be collected as second moments: their rounding is
relative to the second moments of the (centred) target and of the columns, so a product
of residual and column is allowed, by the inequality of Cauchy and Schwarz, ``noise``
times the root mean square of the column, and the mean square of the predictions the
same share of that of their parts.

A duality gap is a bound with all rounding included, so it is allowed nothing but the
rounding of the judge. Next to a small penalty that may be all of the gap, so what is
compared is the least gap that the true correlations may have.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

EPS = float(np.finfo(np.float64).eps)
#: Unit of the judge, relative to that of the estimators.
JUDGE_UNIT = float(np.finfo(np.longdouble).eps) / EPS
#: Whether this platform has a type that is more precise than double.
IS_PRECISE = np.finfo(np.longdouble).eps < 1e-18
# Most rows that are added up at once, and accumulators that a processor has for them.
CHUNK_ROWS, N_LANES = 2**15, 8
# Different values in so many rows of a column that count as few.
FEW_VALUES, SEEN_ROWS = 32, 1024
# Certificates may be this much too small before they count as wrong.
SLACK = 0.01


class Verdict(NamedTuple):
    """What the fitted attributes are compared with.

    Attributes
    ----------
    objective, objective_error : float
        Mean objective at the coefficients, and how much rounding may change it.
    at_zero : float
        Objective where all coefficients and the intercept are zero.
    criterion, criterion_error : float
        The number that is compared with ``tol``.
    optimality, optimality_error : float
        Largest distance of the gradient to what is optimal.
    gap, gap_error : float or None
        Duality gap where there is one.
    known_gap : float or None
        What a bound of the gap must reach: the gap but for the rounding of the judge.
    is_exact_fit : bool
        Whether nothing but rounding is left of the residual, nor of the penalty.
    """

    objective: float
    objective_error: float
    at_zero: float
    criterion: float
    criterion_error: float
    optimality: float
    optimality_error: float
    gap: float | None = None
    gap_error: float | None = None
    known_gap: float | None = None
    is_exact_fit: bool = False


def extended(values):
    """Dense copy in extended precision."""
    values = values.toarray() if sparse.issparse(values) else np.asarray(values)
    return values.astype(np.longdouble)


def distance(coef, gradient, l1, positive):
    """Distance of ``-gradient`` to the subdifferential of ``l1 |coef|``."""
    excess = -gradient - l1 if positive else np.abs(gradient) - l1
    at_zero = np.maximum(excess, 0)
    return np.where(coef == 0, at_zero, np.abs(gradient + np.sign(coef) * l1))


def penalty_of(coef, l1, l2):
    return (l1 * np.abs(coef)).sum() + (l2 * coef * coef).sum() / 2


def sum_error(n_terms):
    """Relative error of a sum, see the head of this module."""
    return (64 + np.sqrt(n_terms)) * EPS


def alike_error(n_terms, n_lanes=N_LANES):
    """Relative error of a sum whose terms may all be alike."""
    return sum_error(n_terms) + min(n_terms, CHUNK_ROWS) / n_lanes * EPS


def has_few_values(X):
    """Whether a dense column repeats so few values that products with it are alike.

    A product of NumPy of 17 000 counts with a constant is wrong by 450 units, and its
    random walk would be 130.
    """
    some = X[:: -(-len(X) // SEEN_ROWS)]
    return len(some) and any(len(np.unique(column)) <= FEW_VALUES for column in some.T)


class Rows:
    """Rows of positive weight, their normalised weights, and products with them."""

    def __init__(self, X, weights):
        kept = np.flatnonzero(weights)
        weights = extended(weights[kept])
        self.kept, self.total = kept, weights.sum()
        self.mu = weights / self.total
        self.is_sparse = sparse.issparse(X)
        self.X = extended(X.tocsr()[kept] if self.is_sparse else X[kept])
        self.n_rows, self.n_columns = self.X.shape
        #: Sizes of what an estimator adds up in place of the entries.
        self.sizes = np.abs(self.X)
        #: What was taken from the columns; the coefficients judged are of the others.
        self.shift = np.zeros(self.n_columns, dtype=np.longdouble)
        #: Relative error of a product with a column.
        self.product_error = sum_error(self.n_rows)
        if self.is_sparse:
            self.product_error = alike_error(self.n_rows, n_lanes=1)
        elif has_few_values(self.X):
            self.product_error = alike_error(self.n_rows)

    def predict(self, coef, intercept):
        """Predictions and how much rounding may change them."""
        # Estimators may measure columns from a point of their own.
        size = (self.sizes + self.mu @ self.sizes) @ np.abs(coef) + np.abs(intercept)
        # The shift is in the intercept of the user, rounded with all of its terms.
        size = 4 * size + np.abs(self.shift) @ np.abs(coef)
        return self.X @ coef + intercept, 0.5 * (self.n_columns + 4) * EPS * size

    def mean(self, values):
        return self.mu @ values

    def size(self, values):
        """Root mean square."""
        return np.sqrt(self.mu @ values**2)


# ---- squared loss ---------------------------------------------------------------


def judge_squared(rows, y, coef, intercept, *, l1, l2, positive, fit_intercept):
    """Verdict on a least-squares fit, with or without penalties."""
    y, coef, intercept = (
        extended(y)[rows.kept],
        extended(coef),
        np.longdouble(intercept),
    )
    _, error = rows.predict(coef, intercept)
    # In this order levels far from zero leave without a rounding.
    residual = (y - intercept) - rows.X @ coef
    error = error + EPS * np.abs(y)
    target = y
    if fit_intercept:
        target = y - y[0]
        target = target - rows.mean(target)
    objective = rows.mean(residual**2) / 2 + penalty_of(coef, l1, l2)
    objective_error = alike_error(rows.n_rows) * (
        rows.mean(target**2) + objective
    ) + rows.mean(np.abs(residual) * error + error**2)
    # Second moments of the columns: sparse ones cannot be centred.
    is_centred = fit_intercept and not rows.is_sparse
    columns = column_size(rows, rows.X - rows.mu @ rows.X if is_centred else rows.X)
    objective_error += rows.product_error * (columns @ np.abs(coef)) ** 2
    noise = rows.size(error) + rows.product_error * (
        rows.size(residual) + rows.size(target)
    )
    gradient = -(rows.mu * residual) @ rows.X
    # The sum of the residuals, where there is an intercept, counts as a column of ones.
    violation = distance(coef, gradient + l2 * coef, l1, positive)
    drift = abs(rows.mean(residual)) if fit_intercept else 0.0
    exact = {
        "objective": objective,
        "objective_error": objective_error,
        "at_zero": rows.mean(y**2) / 2,
        "optimality": max(violation.max(), drift),
        "optimality_error": noise * max(largest_size(rows, rows.X), fit_intercept)
        + sum_error(1) * (l1 + l2 * np.abs(coef).max()),
        "is_exact_fit": bool(
            rows.size(residual) <= rows.size(error) and penalty_of(coef, l1, l2) == 0
        ),
    }
    if l1 == 0 and l2 == 0:
        exact |= residual_correlation(
            rows, residual, noise, coef, positive, fit_intercept
        )
    else:
        exact |= duality_gap(
            rows, target, residual, noise, coef, l1, l2, positive, fit_intercept
        )
        exact["gap_error"] += objective_error
        exact["known_gap"] -= 2 * JUDGE_UNIT * exact["gap_error"]
        variance = rows.mean(target**2)
        # A target that is constant up to rounding has no scale of its own.
        variance = max(variance, 8 * EPS * rows.mean(y**2), np.finfo(float).tiny)
        exact["criterion"] = exact["gap"] / variance
        # Correlations that rounding alone explains are no reason to go on, even where
        # a small penalty makes a large gap of them.
        within = max(exact["gap"] - exact.pop("least_gap"), 0)
        exact["criterion_error"] = (exact["gap_error"] + within) / variance
    return Verdict(**exact)


def column_size(rows, X):
    """Root mean square of every column."""
    return np.sqrt(rows.mu @ X**2)


def largest_size(rows, X):
    """Largest root mean square of a column; zeros have no scale and count as ones."""
    return column_size(rows, X).max() or np.longdouble(1)


def residual_correlation(rows, residual, noise, coef, positive, fit_intercept):
    """Largest correlation of the residual with a centred column."""
    X, drift = rows.X, rows.mean(residual) if fit_intercept else np.longdouble(0)
    raw = column_size(rows, X)
    if fit_intercept:
        X = X - rows.mu @ X
    spread = column_size(rows, X)
    varies = spread > 64 * EPS * raw
    size = rows.size(residual - drift)
    if size <= noise or not varies.any():
        return {"criterion": 0.0, "criterion_error": 0.0}
    covariance = (rows.mu * (residual - drift)) @ X
    if positive:
        covariance = np.where(coef == 0, np.maximum(covariance, 0), covariance)
    correlation = np.abs(covariance[varies]) / (spread[varies] * size)
    allowed = noise / size + 64 * EPS * raw[varies] / spread[varies]
    worst = (correlation - allowed).argmax()
    return {
        "criterion": max(correlation[worst], abs(drift) / size),
        "criterion_error": allowed[worst],
    }


def duality_gap(rows, target, residual, noise, coef, l1, l2, positive, fit_intercept):
    r"""Gap of the better of two points of the dual.

    The residual of the data augmented by the rows ``sqrt(l2) I`` times the best ``s``
    that makes it feasible, which for ``l1 > 0`` gives a bound; and for ``l2 > 0`` the
    residual itself, by conjugation. A change of the correlations by ``d`` changes ``s``
    by ``s d / largest``. The least gap is that of correlations which rounding may have
    made larger than they are.
    """
    X = rows.X - rows.mu @ rows.X if fit_intercept else rows.X
    primal = rows.mean(residual**2) / 2 + penalty_of(coef, l1, l2)
    residual = residual - rows.mean(residual) if fit_intercept else residual
    correlation = (rows.mu * residual) @ X
    uncertain = noise * largest_size(rows, X)
    own_noise = noise * column_size(rows, rows.X)
    square, product = rows.mean(residual**2), rows.mean(residual * target)
    reach = correlation if positive else np.abs(correlation)
    shrunk = correlation - l2 * coef
    shrunk_reach = shrunk if positive else np.abs(shrunk)
    shrunk_square = square + l2 * (coef**2).sum()

    def bounds(slack):
        """Values of the dual, with first-order errors, for correlations so smaller."""
        if l2 > 0:
            excess = np.maximum(reach - slack - l1, 0)
            value = product - square / 2 - (excess**2).sum() / (2 * l2)
            yield value, uncertain * excess.sum() / l2
        if l1 > 0:
            largest = (shrunk_reach - slack).max()
            best = max(product / shrunk_square, 0) if shrunk_square > 0 else 1
            shrink = min(best, l1 / largest) if largest > 0 else best
            slope = abs(product - shrink * shrunk_square)
            yield (
                shrink * product - shrink**2 * shrunk_square / 2,
                shrink * slope * uncertain / max(largest, l1),
            )

    dual, dual_error = max(bounds(0))
    return {
        "gap": primal - dual,
        "gap_error": dual_error,
        "least_gap": primal - max(bounds(own_noise))[0],
        "known_gap": primal - max(bounds(2 * JUDGE_UNIT * own_noise))[0],
    }


# ---- logistic loss --------------------------------------------------------------


def judge_logistic(rows, codes, coef, intercept, *, C, l1_ratio, fit_intercept):
    """Verdict on a logistic regression; two classes have one row of coefficients."""
    codes, coef, intercept = codes[rows.kept], extended(coef), extended(intercept)
    strength = 1 / (np.longdouble(C) * rows.total)
    l1, l2 = strength * l1_ratio, strength * (1 - l1_ratio)
    scores, error = rows.predict(coef.T, intercept)
    n_outputs = scores.shape[1]
    if n_outputs == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    error = error.max(axis=1)
    scores = scores - scores.max(axis=1, keepdims=True)
    log_proba = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    one = np.arange(rows.n_rows)
    loss = -rows.mean(log_proba[one, codes])
    difference = np.exp(log_proba)
    difference[one, codes] = -np.where(
        np.arange(scores.shape[1]) == codes[:, None], 0, difference
    ).sum(axis=1)
    weighted = (rows.mu[:, None] * difference)[:, -n_outputs:]
    gradient = weighted.T @ rows.X
    violation = distance(coef, gradient + l2 * coef, l1, False).max()
    if fit_intercept:
        violation = max(violation, np.abs(weighted.sum(axis=0)).max())
    objective = loss + penalty_of(coef, l1, l2)
    # Probabilities and losses change by at most twice the largest change of a score.
    uncertain = rows.mu * (
        2 * error + rows.product_error * np.abs(difference).max(axis=1)
    )
    optimality_error = max((uncertain @ rows.sizes).max(), uncertain.sum())
    optimality_error += sum_error(1) * np.max(l1 + l2 * np.abs(coef))
    return Verdict(
        objective=objective,
        objective_error=alike_error(rows.n_rows) * objective + rows.mean(2 * error),
        at_zero=np.log(np.longdouble(scores.shape[1])),
        criterion=violation,
        criterion_error=optimality_error,
        optimality=violation,
        optimality_error=optimality_error,
    )


# ---- measures -------------------------------------------------------------------


def judge_measure(points, masses, result, target_size=None):
    """Failures of a reduced measure, as sentences.

    ``masses`` are those of all points; columns and masses are scaled by powers of two,
    which is exact, so that the squares of no value overflow.
    """
    indices, weights = result.indices, result.weights
    points, masses = extended(points), extended(masses)
    has_mass = masses > 0
    if not (
        len(indices) and indices.dtype == np.int64 and indices.shape == weights.shape
    ):
        return ["shapes or types of the result are wrong"]
    if not (np.diff(indices) > 0).all() or not 0 <= indices[0] <= indices[-1] < len(
        masses
    ):
        return ["indices are not ascending rows of the points"]
    failures = []
    if not ((weights > 0) & (weights < np.inf)).all() or not has_mass[indices].all():
        failures.append("weights are not positive, or sit on points without mass")
    total, weights = masses.sum(), extended(weights)
    mass_error = float(abs(weights.sum() / total - 1))
    if not mass_error <= 1e-12:
        failures.append(f"mass is off by {mass_error:.2g}")
    peak = np.abs(points[has_mass]).max(axis=0, initial=0)
    scaled = points / np.where(peak > 0, peak, 1)
    moved = (weights / total) @ scaled[indices] - (masses[has_mass] / total) @ scaled[
        has_mass
    ]
    residual = float(np.abs(moved).max(initial=0))
    if not residual <= 1e-10:
        failures.append(f"column error {residual:.2g}")
    if not abs(result.residual - residual) <= 1e-14 + EPS * np.sqrt(len(masses)):
        failures.append(f"residual {result.residual:.3g} reported, {residual:.3g} true")
    limit = max(affine_rank(scaled[has_mass]) + 1, target_size or 0)
    if len(indices) > limit:
        failures.append(f"{len(indices)} atoms, at most {limit} are needed")
    return failures


def affine_rank(points):
    """Affine dimension of points with entries up to one; rounding is no dimension.

    Directions near the limit count, so this is an upper bound of any sensible answer.
    """
    if points.shape[1] == 0 or len(points) == 1:
        return 0
    # Differences to a point are free of the rounding of a mean.
    centred = (points - points[0]).astype(np.float64)
    singular = np.linalg.svd(centred, compute_uv=False)
    return int((singular > 8 * EPS * singular[0]).sum())
