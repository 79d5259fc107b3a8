"""
Recombination for other estimators
==================================

:func:`skcara.recombine` knows nothing of models: it reduces any weighted points to few
of them with the same weighted sum. If the columns of the points are the moments that an
estimator depends on, the estimator fitted on the few rows *is* the estimator fitted on
all rows, to rounding.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge

from skcara import CaLogisticRegression, merge, recombine

rng = np.random.default_rng(0)
n_rows, n_features = 200_000, 6
X = rng.standard_normal((n_rows, n_features))
X[:, 1] += X[:, 0] ** 2
y = X @ rng.standard_normal(n_features) + np.abs(rng.standard_normal(n_rows))

# %%
# Exact coresets for the squared loss
# -----------------------------------
# Least squares, ridge and the Lasso see the data through the second moments of ``(1, x,
# y)``. Matching them takes at most one row more than there are moments, and serves
# every penalty and every estimator that takes ``sample_weight``.


def second_moments(X, y):
    """All products of two of the columns ``1, x, y``."""
    rows = np.column_stack([np.ones(len(y)), X, y])
    left, right = np.triu_indices(rows.shape[1])
    return rows[:, left] * rows[:, right]


moments = second_moments(X, y)
coreset = recombine(moments, np.ones(n_rows), random_state=0)
rows, weights = coreset
print(f"{n_rows} rows -> {len(rows)}, {moments.shape[1]} moments")
print(f"largest relative error of a moment: {coreset.residual:.1e}")

for model in (LinearRegression(), Ridge(alpha=10.0), Lasso(alpha=0.1, tol=1e-10)):
    full = model.fit(X, y).coef_
    few = model.fit(X[rows], y[rows], sample_weight=weights).coef_
    print(f"{model!s:<30} difference of the coefficients {abs(full - few).max():.1e}")

# %%
# A random sample is another matter: its error shrinks with the square root of its size.

full = LinearRegression().fit(X, y).coef_
few = LinearRegression().fit(X[rows], y[rows], sample_weight=weights).coef_
sizes = np.geomspace(len(rows), n_rows / 2, 12).astype(int)
errors = []
for size in sizes:
    sample = rng.choice(n_rows, size, replace=False)
    errors.append(abs(LinearRegression().fit(X[sample], y[sample]).coef_ - full).max())

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(sizes, errors, "o-", color="0.6", label="random sample")
ax.plot(len(rows), abs(few - full).max(), "*", markersize=16, label="exact coreset")
ax.set(xscale="log", yscale="log", ylim=(1e-17, 10))
ax.set(xlabel="rows kept", ylabel="largest error of a coefficient")
ax.legend(loc="center right")
plt.show()

# %%
# Parts add up
# ------------
# Reductions compose, so data may come in parts: from files, from machines, from a
# stream. Each part is reduced where it is, and the few survivors are merged.

parts = np.array_split(np.arange(n_rows), 8)
measures = []
for part in parts:
    kept, kept_weights = recombine(moments[part], np.ones(len(part)), random_state=0)
    measures.append((part[kept], kept_weights))
merged = merge(moments, measures, random_state=0)
few = LinearRegression().fit(
    X[merged.indices], y[merged.indices], sample_weight=merged.weights
)
print(f"8 parts -> {len(merged.indices)} rows")
print(f"difference of the coefficients {abs(full - few.coef_).max():.1e}")

# %%
# A start for any other loss
# --------------------------
# For other losses no finite list of moments is enough. But the measure that a fit of
# skcara ends with has the gradient of all rows at the optimum: another estimator for
# the same objective, fitted on these rows with these weights, finds nearly the same
# coefficients, and its cross-validation, bootstrap or posterior sampling becomes cheap.

label = rng.random(n_rows) < 1 / (1 + np.exp(-(X @ rng.standard_normal(n_features))))
ours = CaLogisticRegression(tol=1e-8, random_state=0).fit(X, label)
other = LogisticRegression(tol=1e-8).fit(
    X[ours.support_], label[ours.support_], sample_weight=ours.support_weights_
)
difference = abs(ours.coef_ - other.coef_).max()
print(f"{len(ours.support_)} rows; difference of the coefficients {difference:.1e}")
