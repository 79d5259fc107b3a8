"""Exact fits of folds, for the searches of the campaign.

A reference is believed after its optimality conditions were checked in extended
precision, and comes with what rounding may do to the score of such a fit; where columns
are so nearly dependent that this is a lot, there is no reference.
"""

import warnings

import numpy as np
from campaign_judge import EPS, extended, judge_logistic, sum_error
from scipy import linalg
from sklearn.linear_model import enet_path

from skcara import CaLogisticRegression

# Newton steps in which a solution of double precision becomes one of the next.
N_POLISHING_STEPS = 4
# Violation of the conditions up to which a logistic fit counts as exact.
EXACT_VIOLATION = 1e-9


# ---- squared loss ---------------------------------------------------------------


class SquaredFold:
    """Weighted, centred training rows of a fold, and its held-out rows."""

    def __init__(self, train, test, y, fit_intercept):
        target, self.mean = extended(y)[train.kept], np.zeros(train.n_columns)
        self.level = np.longdouble(0)
        if fit_intercept:
            self.mean, self.level = train.mu @ train.X, train.mean(target)
        roots = np.sqrt(train.mu)
        self.rows = roots[:, None] * (train.X - self.mean)
        self.target = roots * (target - self.level)
        self.norms = np.sqrt((self.rows**2).sum(axis=0))
        self.size = np.sqrt((self.target**2).sum())
        # What is left of a constant column is rounding.
        raw = np.sqrt(train.mu @ train.X**2)
        self.rows[:, self.norms <= 64 * EPS * raw] = 0
        self.noise = sum_error(train.n_rows) * self.size * raw
        self.test, self.test_target = test, extended(y)[test.kept]

    def path(self, alphas, l1_ratio, positive):
        """Nearly optimal coefficients, one column for each penalty."""
        scale = np.sqrt(len(self.target))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, coefs, _ = enet_path(
                np.asfortranarray((scale * self.rows).astype(np.float64)),
                (scale * self.target).astype(np.float64),
                alphas=alphas,
                l1_ratio=max(l1_ratio, 1e-12),
                positive=positive,
                tol=1e-14,
                max_iter=3000,
            )
        return coefs

    def reference(self, coef, l1, l2, positive):
        """Mean squared error on held-out rows and its uncertainty, or None."""
        coef = extended(coef)
        active = np.flatnonzero(coef) if l1 > 0 or positive else np.arange(len(coef))
        active = active[self.norms[active] > 0]
        if l2 == 0 and len(active) >= len(self.target):
            return None
        norms = self.norms[active]
        design = (self.rows[:, active] / norms).astype(np.float64)
        ridge = np.diag((np.sqrt(l2) / norms).astype(np.float64))
        triangle = np.linalg.qr(np.vstack([design, ridge]), mode="r")
        inverse = linalg.pinv(triangle.T @ triangle) if len(active) else triangle
        coef[np.setdiff1d(np.arange(len(coef)), active)] = 0
        signs = np.sign(coef[active]) if l1 > 0 else 0
        for _ in range(N_POLISHING_STEPS):
            slope = self.slope(coef, l2)[active] - l1 * signs
            coef[active] += inverse @ (slope / norms).astype(np.float64) / norms
        if not self.is_optimal(coef, l1, l2, positive, signs, active):
            return None
        if l2 == 0 and not self.is_only_solution(coef, l1, positive):
            return None
        spread = np.abs(inverse) @ (self.noise[active] / norms)
        return self.score(coef, active, spread / norms)

    def slope(self, coef, l2):
        """Minus the gradient of the smooth part."""
        return self.rows.T @ (self.target - self.rows @ coef) - l2 * coef

    def is_optimal(self, coef, l1, l2, positive, signs, active):
        """Whether the conditions hold to rounding."""
        if l1 > 0 and (np.sign(coef[active]) != signs).any():
            return False
        if positive and (coef < 0).any():
            return False
        slope = self.slope(coef, l2)
        room = self.noise + 1e-9 * l1
        excess = slope - l1 if positive else np.abs(slope) - l1
        excess[active] = np.abs(slope[active] - l1 * signs)
        return (excess <= room).all()

    def is_only_solution(self, coef, l1, positive):
        """Whether no other coefficients are optimal as well.

        There are others only if columns depend on each other that all correlate as much
        with the residual as the penalty allows. Nearly dependent ones count.
        """
        slope = self.slope(coef, 0)
        reach = slope if positive else np.abs(slope)
        tied = np.flatnonzero((reach >= l1 - self.noise - 1e-9 * l1) & (self.norms > 0))
        design = (self.rows[:, tied] / self.norms[tied]).astype(np.float64)
        values = np.linalg.svd(design, compute_uv=False)
        rounding = 8 * np.sqrt(len(tied) * EPS)
        return len(tied) <= len(design) and (values > rounding).all()

    def score(self, coef, active, spread):
        """Error on held-out rows; ``spread`` is the uncertainty of coefficients."""
        X, mean = self.test.X, self.test.mean
        residual = (self.test_target - self.level) - (X - self.mean) @ coef
        change = np.abs((X - self.mean)[:, active]) @ spread
        change += 8 * EPS * (np.abs(X) @ np.abs(coef) + np.abs(self.test_target))
        uncertainty = mean(2 * np.abs(residual) * change + change**2)
        return mean(residual**2), uncertainty


# ---- logistic loss --------------------------------------------------------------


def log_loss(rows, codes, coef, intercept):
    """Mean loss, and probabilities of all classes, in extended precision.

    Probabilities below EPS count as EPS, as in the metric of scikit-learn.
    """
    scores = rows.X @ coef.T + intercept
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    scores = scores - scores.max(axis=1, keepdims=True)
    log_proba = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    losses = np.minimum(-log_proba[np.arange(rows.n_rows), codes], -np.log(EPS))
    return rows.mean(losses), np.exp(log_proba)


def logistic_reference(train, test, codes, options):
    """Log loss of held-out rows at an exact fit, and its uncertainty, or None.

    ``options`` are those of `judge_logistic`.
    """
    n_classes = codes.max() + 1
    if len(np.unique(codes[train.kept])) < n_classes:
        return None
    model = CaLogisticRegression(
        **options, tol=1e-12, max_iter=300, solver="canewton", recombination=None
    )
    weights = (train.mu * train.total).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train.X.astype(np.float64), codes[train.kept], weights)
    coef, intercept = extended(model.coef_), extended(model.intercept_)
    verdict = judge_logistic(train, codes, coef, intercept, **options)
    if verdict.optimality > EXACT_VIOLATION:
        return None
    if options["l1_ratio"] == 1 and not is_only_prediction(
        train, test, codes, (coef, intercept), options
    ):
        return None
    score, proba = log_loss(test, codes[test.kept], coef, intercept)
    proba[np.arange(test.n_rows), codes[test.kept]] -= 1
    n_outputs = len(coef)
    slope = with_ones(test.X, options).T @ (test.mu[:, None] * proba[:, -n_outputs:])
    is_free = np.vstack(
        [coef.T != 0, np.ones((int(options["fit_intercept"]), n_outputs))]
    )
    if options["l1_ratio"] == 0:
        is_free[:] = 1
    free = np.flatnonzero(is_free.ravel())
    _, proba = log_loss(train, codes[train.kept], coef, intercept)
    hessian = logistic_hessian(train, proba[:, -n_outputs:], options)[
        np.ix_(free, free)
    ]
    scale = np.sqrt(np.maximum(np.diagonal(hessian), np.finfo(float).tiny))
    slope = slope.ravel()[free].astype(np.float64)
    influence = linalg.lstsq(hessian / scale / scale[:, None], slope / scale)[0] / scale
    room = max(float(verdict.optimality), float(verdict.optimality_error))
    return score, np.abs(influence).sum() * room


def is_only_prediction(train, test, codes, fitted, options):
    """Whether all optimal fits without an L2 term predict held-out rows alike.

    They predict training rows alike, and their coefficients differ only where slopes
    are as large as the penalty allows. A change of these that no training row sees must
    not be seen by held-out rows either. Nearly dependent columns count as dependent.
    """
    _, proba = log_loss(train, codes[train.kept], *fitted)
    proba[np.arange(train.n_rows), codes[train.kept]] -= 1
    n_outputs = len(fitted[0])
    slope = train.X.T @ (train.mu[:, None] * proba[:, -n_outputs:])
    l1 = 1 / (options["C"] * float(train.total))
    noise = sum_error(train.n_rows) * np.sqrt(train.mu @ train.X**2)
    is_tied = np.abs(slope) >= l1 * (1 - 1e-6) - noise[:, None]
    if options["fit_intercept"]:
        is_tied = np.vstack([is_tied, np.ones((1, n_outputs), dtype=bool)])
    seen = [effects(with_ones(rows.X, options), is_tied) for rows in (train, test)]
    return numerical_rank(seen[0]) >= numerical_rank(np.vstack(seen))


def effects(X, is_tied):
    """How predictions change with each tied coordinate, up to common constants."""
    features, outputs = np.nonzero(is_tied)
    changes = np.zeros((len(X), is_tied.shape[1], len(features)))
    changes[:, outputs, np.arange(len(features))] = X[:, features]
    if is_tied.shape[1] > 1:
        changes -= changes.mean(axis=1, keepdims=True)
    return changes.reshape(-1 if len(features) else 0, len(features))


def numerical_rank(columns):
    """Rank of columns of any scale."""
    norms = np.linalg.norm(columns, axis=0)
    columns = columns[:, norms > 0] / norms[norms > 0]
    if columns.size == 0:
        return 0
    values = np.linalg.svd(np.linalg.qr(columns, mode="r"), compute_uv=False)
    return np.count_nonzero(values > 8 * np.sqrt(len(values) * EPS))


def with_ones(X, options):
    if not options["fit_intercept"]:
        return X
    return np.hstack([X, np.ones((len(X), 1), dtype=X.dtype)])


def logistic_hessian(rows, proba, options):
    """Hessian of the mean objective, coordinates ``feature * n_outputs + output``."""
    X = with_ones(rows.X, options).astype(np.float64)
    proba, mu = proba.astype(np.float64), rows.mu.astype(np.float64)
    n_params, n_outputs = X.shape[1], proba.shape[1]
    hessian = np.zeros((n_params, n_outputs, n_params, n_outputs))
    for a in range(n_outputs):
        for b in range(n_outputs):
            weight = mu * proba[:, a] * ((a == b) - proba[:, b])
            hessian[:, a, :, b] = X.T @ (weight[:, None] * X)
    hessian = hessian.reshape(n_params * n_outputs, -1)
    strength = (1 - options["l1_ratio"]) / (options["C"] * float(rows.total))
    penalised = rows.n_columns * n_outputs
    hessian[np.arange(penalised), np.arange(penalised)] += strength
    return hessian
