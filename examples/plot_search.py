"""
Choosing a penalty
==================

:class:`~skcara.CaLassoCV` and :class:`~skcara.CaLogisticRegressionCV` choose a penalty
by cross-validation. All folds and all penalties share their reads of the data, so that
a search reads hardly more often than a fit. Two pictures show how the choice was made.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_sample_image
from sklearn.linear_model import LassoCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skcara import (
    CaLassoCV,
    CaLogisticRegressionCV,
    PathDisplay,
    ValidationDisplay,
    lasso_path,
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
# The more rows, the more it matters that they are read once. A photograph that
# scikit-learn ships is a table of 271 150 rows: the blue of a pixel is predicted from
# the red and the green of the nine pixels around it. Both searches try 100 penalties on
# five folds.

photo = load_sample_image("flower.jpg") / 255
windows = np.lib.stride_tricks.sliding_window_view(photo, (3, 3), axis=(0, 1))
windows = windows.reshape(-1, 3, 9)
X, y = windows[:, :2].reshape(-1, 18), windows[:, 2, 4]
names = [f"{color} {place}" for color in ("red", "green") for place in range(1, 10)]
for search in (LassoCV(cv=5, max_iter=10_000), CaLassoCV(cv=5)):
    start = time.perf_counter()
    search.fit(X, y)
    seconds = time.perf_counter() - start
    print(f"{type(search).__name__:<9} {seconds:5.2f} s, alpha {search.alpha_:.5f}")

# %%
# Which folds? A number means blocks of rows, here bands of the photograph. Shuffled
# folds hold out single pixels whose neighbours, almost their copies, stay among the
# training rows. They promise a smaller error and want hardly any penalty; a part of the
# photograph that was not seen is another matter.

folds = {"bands": 5, "shuffled pixels": KFold(5, shuffle=True, random_state=0)}
fig, axes = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained")
for ax, (title, cv) in zip(axes, folds.items(), strict=False):
    search = CaLassoCV(cv=cv, eps=1e-5).fit(X, y)
    ValidationDisplay.from_estimator(search, ax=ax)
    ax.set(title=title, ylim=(0.002, 0.006))
    if title == "bands":
        PathDisplay.from_path(
            *lasso_path(X, y, alphas=search.alphas_, fit_intercept=True)[:2],
            feature_names=names,
            chosen=search.alpha_,
            n_named=3,
            ax=axes[2],
        )
    error = search.mse_path_.mean(axis=1).min()
    print(f"{title}: alpha {search.alpha_:.1e}, error {error:.5f}")
axes[2].set_title("path on all rows")
plt.show()
