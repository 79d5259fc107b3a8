"""
Quick start: the same model, fewer reads
========================================

The estimators of skcara minimise the objectives of their twins in scikit-learn. Here
both fit a logistic regression to 300 000 rows; the coefficients agree, and the
attributes of the fit tell how often the data were read.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcara import CaLogisticRegression, ConvergenceDisplay, MeasureDisplay

rng = np.random.default_rng(0)
n_rows, n_features = 300_000, 20
X = rng.standard_normal((n_rows, n_features)) @ (
    np.eye(n_features) + 0.3 * rng.standard_normal((n_features, n_features))
)
score = X @ rng.standard_normal(n_features) / 5 - 1
y = rng.random(n_rows) < 1 / (1 + np.exp(-score))

# %%
# Drop-in replacement
# -------------------
# Same parameters, same meaning of ``C``, same attributes. scikit-learn's
# ``newton-cholesky`` is the best of its solvers for many rows and few columns.

start = time.perf_counter()
theirs = LogisticRegression(solver="newton-cholesky", tol=1e-6).fit(X, y)
middle = time.perf_counter()
ours = CaLogisticRegression(tol=1e-6, random_state=0).fit(X, y)
end = time.perf_counter()

print(f"scikit-learn: {middle - start:.2f} s")
print(f"skcara:       {end - middle:.2f} s, {ours.n_passes_:.1f} reads of the data")
difference = abs(ours.coef_ - theirs.coef_).max()
print(f"largest difference of a coefficient: {difference:.1e}")

# %%
# The fit says what it reached, judged on all rows: the largest entry of the gradient of
# the mean objective is below ``tol``.

print(f"objective_  {ours.objective_:.9f}")
print(f"optimality_ {ours.optimality_:.1e}, asked for {ours.tol:.1e}")
print(f"solver_     {ours.solver_}")
print(f"rows in the last reduced measure: {len(ours.support_)} of {n_rows}")

fig, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
ax.axline((0, 0), slope=1, color="0.8", zorder=0)
ax.scatter(theirs.coef_, ours.coef_)
ax.set(
    xlabel="coefficient of LogisticRegression",
    ylabel="coefficient of CaLogisticRegression",
    aspect="equal",
)
plt.show()

# %%
# How the fit went
# ----------------
# One dot per read of the full data.

ConvergenceDisplay.from_estimator(ours)
plt.show()

# %%
# What it worked on between two reads: the rows of the last reduced measure among all
# rows, in the plane of two columns.

MeasureDisplay.from_estimator(ours, X, features=(0, 1))
plt.show()

# %%
# Inside pipelines and searches
# -----------------------------
# The estimators pass scikit-learn's own checks, so everything composes.

search = GridSearchCV(
    make_pipeline(StandardScaler(), CaLogisticRegression(random_state=0)),
    {"calogisticregression__C": [1e-4, 1e-2, 1.0]},
    cv=3,
)
search.fit(X, y)
print(search.best_params_, f"accuracy {search.best_score_:.4f}")
