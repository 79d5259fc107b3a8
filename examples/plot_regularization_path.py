"""
A regularisation path
=====================

With the squared loss one read of the data collects all that matters for every penalty.
:func:`skcara.lasso_path` then follows the solution from one change of its zeros to the
next, and certifies it at each of the penalties.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skcara import CaLasso, PathDisplay, lasso_path

# %%
# The diabetes data with all pairwise products, repeated with noise until they are tall.

X, y = load_diabetes(return_X_y=True)
products = PolynomialFeatures(2, include_bias=False)
X = products.fit_transform(X)
names = products.get_feature_names_out(load_diabetes().feature_names)
X = StandardScaler().fit_transform(X)
rng = np.random.default_rng(0)
rows = rng.integers(len(y), size=100_000)
X = X[rows] + 0.3 * rng.standard_normal((len(rows), X.shape[1]))
y = y[rows] + 20 * rng.standard_normal(len(rows))

start = time.perf_counter()
alphas, coefs, gaps = lasso_path(X, y, alphas=100, fit_intercept=True)
seconds = time.perf_counter() - start
print(f"{len(alphas)} penalties of {X.shape[0]} x {X.shape[1]} in {seconds:.2f} s")

start = time.perf_counter()
CaLasso(alphas[-1]).fit(X, y)
seconds = time.perf_counter() - start
print(f"one fit in {seconds:.2f} s")

# %%
# Zeros are exact zeros: circles mark where a coefficient leaves or crosses zero, and
# the axis above counts those that are not. Every point of the path is certified on all
# rows: the duality gap bounds how far the objective can be from its minimum.

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
PathDisplay.from_path(alphas, coefs, feature_names=names, n_named=4, ax=axes[0])
axes[1].loglog(alphas, gaps / y.var(), "o", markersize=3)
axes[1].invert_xaxis()
axes[1].set(xlabel="alpha", ylabel="duality gap / variance of y", ylim=(1e-15, 1e-3))
axes[1].axhline(1e-4, color="0.5", linestyle=":")
axes[1].annotate("default tol", (alphas[0], 1e-4), (0, 3), textcoords="offset points")
plt.show()
