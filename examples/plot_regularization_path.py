"""
A regularisation path
=====================

With the squared loss and few columns one read of the data collects all that matters, so
each penalty of a path costs little more than that read. With ``warm_start=True`` a fit
starts at the coefficients of the last one.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skcara import CaLasso

# %%
# The diabetes data with all pairwise products, repeated with noise until they are tall.

X, y = load_diabetes(return_X_y=True)
X = PolynomialFeatures(2, include_bias=False).fit_transform(X)
X = StandardScaler().fit_transform(X)
rng = np.random.default_rng(0)
rows = rng.integers(len(y), size=100_000)
X = X[rows] + 0.3 * rng.standard_normal((len(rows), X.shape[1]))
y = y[rows] + 20 * rng.standard_normal(len(rows))

alphas = np.geomspace(30, 0.05, 40)
model = CaLasso(warm_start=True, tol=1e-8)
path, gaps = [], []
start = time.perf_counter()
for alpha in alphas:
    model.set_params(alpha=alpha).fit(X, y)
    path.append(model.coef_)
    gaps.append(model.dual_gap_)
path = np.array(path)
seconds = time.perf_counter() - start
print(f"{len(alphas)} fits of {X.shape[0]} x {X.shape[1]} in {seconds:.1f} s")
print(f"each reads the data {model.n_passes_:.0f} time(s)")

# %%
# Zeros are exact zeros, and every fit is certified: the duality gap bounds how far the
# objective can be from its minimum.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
names = load_diabetes().feature_names
axes[0].plot(alphas, path, color="0.8", linewidth=1)
for column, shift in zip(np.argsort(-path[-1])[:3], (2, -10, -3), strict=True):
    axes[0].plot(alphas, path[:, column], linewidth=2)
    axes[0].annotate(
        names[column],
        (alphas[-1], path[-1, column]),
        (4, shift),
        textcoords="offset points",
    )
axes[0].set(xscale="log", xlabel="alpha", ylabel="coefficient")
axes[0].set_xlim(alphas[0], alphas[-1] / 2)

axes[1].plot(alphas, (path != 0).sum(axis=1), color="C0")
axes[1].set(xscale="log", xlabel="alpha", xlim=(alphas[0], alphas[-1]))
axes[1].set_ylabel("coefficients that are not zero", color="C0")
certificate = axes[1].twinx()
certificate.plot(alphas, np.array(gaps) / y.var(), "o", markersize=3, color="C1")
certificate.axhline(model.tol, color="C1", linestyle=":", linewidth=1)
certificate.set(yscale="log", ylim=(None, 10 * model.tol))
certificate.annotate("tol", (alphas[1], model.tol), (0, 3), textcoords="offset points")
certificate.set_ylabel("duality gap / variance of y", color="C1")
plt.show()
