"""
Which neighbours predict a pixel?
=================================

A photograph is a tall table: one row per pixel, the brightness of the pixels around it
as columns. The Lasso chooses among 48 neighbours, and its zeros are exact. The picture
is the one that scikit-learn ships.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.linear_model import Lasso

from skcara import CaLasso

# %%
# The table
# ---------
# Every pixel that has three others on each side is a row; the 48 pixels of its 7 by 7
# window without the middle are the columns.

photo = load_sample_image("china.jpg").mean(axis=2) / 255
windows = np.lib.stride_tricks.sliding_window_view(photo, (7, 7)).reshape(-1, 49)
middle = 24
X = np.delete(windows, middle, axis=1)
y = windows[:, middle]
print(f"{X.shape[0]} rows, {X.shape[1]} columns")

# %%
# Neighbours are almost copies of each other, so coordinate descent needs thousands of
# rounds. With the Gram matrix, ``precompute=True``, they are cheap, but the table is
# copied first; CaLasso reads it.

theirs = Lasso(alpha=1e-5, precompute=True, max_iter=20_000)
for model in (theirs, CaLasso(alpha=1e-5)):
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    print(
        f"{type(model).__name__:<8} {seconds:5.2f} s, R² {model.score(X, y):.5f}, "
        f"{np.count_nonzero(model.coef_)} neighbours"
    )
print(f"CaLasso is at most {model.dual_gap_:.0e} above the minimum")

# %%
# From few neighbours to many
# ---------------------------
# A strong penalty leaves the nearest pixels. As it falls, the prediction becomes an
# interpolation with negative weights further out, as in good resampling filters.

alphas = [1e-2, 1e-3, 1e-4, 1e-5]
fig, axes = plt.subplots(1, 5, figsize=(11, 2.7), layout="constrained")
axes[0].imshow(photo[::4, ::4], cmap="gray")
axes[0].set_title("the photograph")
axes[0].set_axis_off()
for ax, alpha in zip(axes[1:], alphas, strict=True):
    model = CaLasso(alpha).fit(X, y)
    filter_ = np.insert(model.coef_, middle, np.nan).reshape(7, 7)
    image = ax.imshow(filter_, cmap="RdBu_r", vmin=-0.6, vmax=0.6)
    row, column = np.where(filter_ == 0)
    ax.plot(column, row, ".", color="0.6", markersize=3)
    ax.set_title(f"alpha = {alpha:g}\nR² = {model.score(X, y):.4f}", fontsize=10)
    ax.set(xticks=[], yticks=[])
fig.colorbar(image, ax=axes[-1], label="coefficient")
plt.show()

# %%
# Dots are exact zeros; the middle is the pixel itself and is left white.
