"""
Which rows carry the gradient?
==============================

A mean of a million vectors in the plane is also a weighted mean of three of them: that
is Carathéodory's theorem, and it is exact. Applied to the gradients of all rows it says
that a handful of rows, with suitable weights, have the gradient of the whole data set.
This example shows such rows for logistic regression with two columns.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcara import CaLogisticRegression, MeasureDisplay, recombine

rng = np.random.default_rng(3)
n_rows = 50_000
y = rng.random(n_rows) < 0.5
X = rng.standard_normal((n_rows, 2)) + np.where(y, 0.8, -0.8)[:, None] * [1.0, 0.5]


def objective(theta, rows, labels, weights):
    """Weighted mean of the logistic loss."""
    margin = np.where(labels, 1, -1) * (rows @ theta)
    return weights @ np.logaddexp(0, -margin)


def row_gradients(theta):
    """Gradient of the loss of every row: one point of the plane each."""
    probability = 1 / (1 + np.exp(-X @ theta))
    return (probability - y)[:, None] * X


# %%
# From all rows to three
# ----------------------
# Every row pulls the coefficients with its own gradient. The mean of these pulls, the
# cross, lies inside a triangle of three of them.

theta = np.array([-0.5, 1.0])
gradients = row_gradients(theta)
support, weights = recombine(gradients)
gradient = gradients.mean(axis=0)
print("gradient of all rows:     ", gradient)
print("gradient of the measure:  ", weights @ gradients[support])
print("rows", support, "with weights", weights.round(3))

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
shown = slice(0, 3000)
colors = np.where(y[shown], "C0", "C3")

axes[0].scatter(*X[shown].T, s=3, c=colors, alpha=0.4, linewidths=0)
axes[0].scatter(*X[support].T, s=400 * weights, c="k", edgecolors="white", zorder=3)
axes[0].set(title=f"{n_rows:,} rows, three survive", xlabel="column 0")
axes[0].set_ylabel("column 1")

axes[1].scatter(*gradients[shown].T, s=3, c=colors, alpha=0.4, linewidths=0)
axes[1].fill(*gradients[support].T, facecolor="none", edgecolor="k", linewidth=1)
axes[1].scatter(*gradients[support].T, s=400 * weights, c="k", edgecolors="white")
axes[1].plot(*gradient, "x", color="k", markersize=10, markeredgewidth=2)
axes[1].set(title="their gradients have the same mean", xlabel="gradient, column 0")
axes[1].set_ylabel("gradient, column 1")

steps = np.linspace(-1.5, 3.5, 101)
equal = np.full(n_rows, 1 / n_rows)
full = [objective(theta - t * gradient, X, y, equal) for t in steps]
few = [objective(theta - t * gradient, X[support], y[support], weights) for t in steps]
anchor = np.argmin(abs(steps))
axes[2].plot(steps, full, color="0.6", linewidth=4, label="all rows")
axes[2].plot(steps, np.array(few) - few[anchor] + full[anchor], "k", label="three rows")
axes[2].plot(0, full[anchor], "kx", markersize=10, markeredgewidth=2)
axes[2].set(title="so the objectives touch", xlabel="step along the negative gradient")
axes[2].set_ylabel("objective (shifted)")
axes[2].legend()
plt.show()

# %%
# Away from the cross the two curves part: three rows have the right slope, but not the
# right curvature. A solver may trust them for a short way only.
#
# More rows, more trust
# ---------------------
# The default solver keeps a few thousand rows instead of three. They have exactly the
# same gradient and nearly the same curvature, so it can minimise their objective to the
# end and needs to read the full data only a few times. Here are the rows of the last
# measure of a fit to more rows and columns, in the plane of two of them.

y_more = np.tile(y, 4)
X_more = rng.standard_normal((len(y_more), 20))
X_more[:, :2] += np.where(y_more, 0.8, -0.8)[:, None] * [1.0, 0.5]
model = CaLogisticRegression(tol=1e-6, random_state=0).fit(X_more, y_more)
display = MeasureDisplay.from_estimator(model, X_more, features=(0, 1))
display.ax_.set_title(f"{model.solver_}: {model.n_passes_:.1f} reads")
plt.show()

# %%
# The solver of the original article, ``"cagd"``, keeps the smallest support: at most
# one row more than there are coefficients.

model = CaLogisticRegression(solver="cagd", random_state=0).fit(X_more, y_more)
display = MeasureDisplay.from_estimator(model, X_more, features=(0, 1))
display.ax_.set_title(f"{model.solver_}: {model.n_passes_:.1f} reads")
plt.show()
