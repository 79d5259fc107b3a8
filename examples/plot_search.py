"""
Choosing a penalty
==================

:class:`~skcara.CaLassoCV` and :class:`~skcara.CaLogisticRegressionCV` choose a penalty
by cross-validation. All folds and all penalties share their reads of the data, so that
a search costs little more than a fit. Two pictures show how the choice was made.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LassoCV
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skcara import (
    CaLassoCV,
    CaLogisticRegressionCV,
    PathDisplay,
    ValidationDisplay,
    logistic_path,
)

# %%
# The Lasso
# ---------
# 442 patients, ten measurements and all of their products. The columns have the length
# one, as they come; times a constant, their entries are of order one.

X, y = load_diabetes(return_X_y=True, as_frame=True)
X *= np.sqrt(len(X))
products = PolynomialFeatures(2, include_bias=False).set_output(transform="pandas")
X = products.fit_transform(X)
search = CaLassoCV(cv=10).fit(X, y)
print(f"alpha {search.alpha_:.2f}, {np.count_nonzero(search.coef_)} of {X.shape[1]}")
print(f"reads of the table: {search.n_passes_:.0f}")

# %%
# The mean error on held-out rows falls as long as the penalty makes room for columns
# that matter, and rises when it makes room for chance; the band shows how much the
# folds differ. In both pictures the penalty is strongest on the left. Circles mark
# where a coefficient enters or leaves.

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
ValidationDisplay.from_estimator(search, ax=axes[0])
PathDisplay.from_estimator(search, X, y, n_named=4, ax=axes[1])
plt.show()

# %%
# Logistic regression
# -------------------
# 569 tumours, thirty measurements in their own units, an L1 penalty. With
# ``standardize=True`` every fold standardises its own training rows. For the picture of
# the path all rows are standardised, so that coefficients can be compared.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
search = CaLogisticRegressionCV(
    Cs=np.geomspace(3e-3, 30, 25), l1_ratios=(1.0,), standardize=True, cv=10
).fit(X, y)
print(f"C {search.C_:.2f}, {np.count_nonzero(search.coef_)} of {X.shape[1]} columns")

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
ValidationDisplay.from_estimator(search, ax=axes[0])
Cs, coefs, _ = logistic_path(
    StandardScaler().fit_transform(X), y, Cs=search.Cs_, l1_ratio=1.0
)
PathDisplay.from_path(
    Cs,
    coefs,
    penalty_name="C",
    feature_names=X.columns,
    chosen=search.C_,
    n_named=4,
    ax=axes[1],
)
plt.show()

# %%
# On a tall table
# ---------------
# The more rows, the more it matters that they are read once. Both searches try 100
# penalties on five folds, and choose the same.

rng = np.random.default_rng(0)
X = rng.standard_normal((200_000, 30))
y = X[:, :10] @ rng.standard_normal(10) + rng.standard_normal(200_000)
for search in (LassoCV(cv=5), CaLassoCV(cv=5)):
    start = time.perf_counter()
    search.fit(X, y)
    seconds = time.perf_counter() - start
    print(f"{type(search).__name__:<9} {seconds:5.2f} s, alpha {search.alpha_:.5f}")
