"""
======================================
Three points that stand for a thousand
======================================

Any cloud of points in the plane has three of its own points that, with suitable
weights, have the same total mass and the same mean. :func:`skcara.recombine` finds
them. This example shows which points survive and with what weights, what happens
when more of them may stay, and that other averages come for free when they are added as
columns.
"""

# %%
# A cloud and its mean
# --------------------
# The points are anything but symmetric: a banana with a heavy tail.

import matplotlib.pyplot as plt
import numpy as np

from skcara import recombine

rng = np.random.default_rng(0)
angle = rng.normal(0.0, 0.8, size=1000)
radius = 1.0 + 0.15 * rng.exponential(size=1000)
points = np.column_stack([radius * np.sin(angle), radius * np.cos(angle)])
mean = points.mean(axis=0)

# %%
# Every method finds a solution, and not the same one
# ---------------------------------------------------
# The support is not unique. What all of them share is the mean, to rounding.

methods = ("auto", "cone", "tree")
figure, axes = plt.subplots(
    1, 3, figsize=(12, 4.8), sharex=True, sharey=True, layout="constrained"
)
for axis, method in zip(axes, methods, strict=True):
    indices, weights = recombine(points, method=method, random_state=0)
    axis.scatter(*points.T, s=4, color="0.8")
    axis.fill(*points[indices].T, color="tab:orange", alpha=0.15)
    axis.scatter(*points[indices].T, s=600 * weights, color="tab:orange", alpha=0.8)
    for index, weight in zip(indices, weights, strict=True):
        axis.annotate(f"{weight:.2f}", points[index], ha="center", va="center")
    axis.scatter(*mean, marker="+", s=150, color="black", label="mean of all points")
    axis.scatter(
        *(weights @ points[indices]),
        marker="o",
        s=150,
        facecolors="none",
        edgecolors="tab:blue",
        label="mean of the survivors",
    )
    axis.set_title(f'method="{method}"')
    axis.set_aspect("equal")
    error = np.abs(weights @ points[indices] - mean).max()
    print(f"{method:>5}: {len(indices)} points, error of the mean {error:.0e}")
axes[0].legend(loc="lower center")

# %%
# Stopping early
# --------------
# With a larger ``target_size`` the survivors keep more of the shape of the cloud. The
# mean is still exact, and the weights are nearly equal.

figure, axes = plt.subplots(
    1, 3, figsize=(12, 4.8), sharex=True, sharey=True, layout="constrained"
)
for axis, target_size in zip(axes, (3, 30, 200), strict=True):
    indices, weights = recombine(points, target_size=target_size, random_state=0)
    axis.scatter(*points.T, s=4, color="0.8")
    axis.scatter(
        *points[indices].T,
        s=600 * weights * (len(indices) / 30 + 1),
        color="tab:orange",
        alpha=0.7,
    )
    axis.scatter(*mean, marker="+", s=150, color="black")
    axis.scatter(
        *(weights @ points[indices]),
        s=150,
        facecolors="none",
        edgecolors="tab:blue",
    )
    axis.set_title(f"target_size={target_size}: {len(indices)} points")
    axis.set_aspect("equal")

# %%
# More averages
# -------------
# Columns are whatever should be averaged exactly. With all products of two
# coordinates beside the coordinates, six points have the mean *and* the covariance of
# the thousand: a least-squares fit on them is the fit on all points.

first, second = points.T
statistics = np.column_stack([points, first**2, first * second, second**2])
indices, weights = recombine(statistics)
covariance = np.cov(points[indices].T, aweights=weights, ddof=0)
print(f"{len(indices)} points")
print("covariance of all points:\n", np.cov(points.T, ddof=0))
print("covariance of the survivors:\n", covariance)

# %%
# Parts add up
# ------------
# Reductions of parts can be merged: nobody ever needs all points at once.

from skcara import merge  # noqa: E402

halves = [np.arange(500), np.arange(500, 1000)]
parts = []
for rows in halves:
    part = recombine(points[rows], np.full(500, 1 / 1000))
    parts.append((rows[part.indices], part.weights))
merged = merge(points, parts)
print("mean of all points:", mean)
print("mean of the merged:", merged.weights @ points[merged.indices])
plt.show()
