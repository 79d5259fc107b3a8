"""
Which photograph is this pixel from?
====================================

Two photographs that scikit-learn ships make half a million rows. A logistic regression
on polynomials of red, green and blue says which of the two a colour belongs to. Rows
are pixels here, so the rows of a reduced measure can be seen: their colours.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skcara import CaLogisticRegression, MeasureDisplay

photos = [load_sample_image(name) / 255 for name in ("china.jpg", "flower.jpg")]
colors = np.concatenate([photo.reshape(-1, 3) for photo in photos])
is_flower = np.repeat([False, True], [photo.size // 3 for photo in photos])
expand = make_pipeline(PolynomialFeatures(3, include_bias=False), StandardScaler())
X = expand.fit_transform(colors)
print(f"{X.shape[0]} rows, {X.shape[1]} columns")

# %%
# The monomials are strongly correlated. Newton steps do not mind, and the fit is
# certified on all pixels.

model = CaLogisticRegression(tol=1e-6, random_state=0).fit(X, is_flower)
twin = LogisticRegression(solver="newton-cholesky", tol=1e-6).fit(X, is_flower)
print(f"{model.n_passes_:.1f} reads, optimality {model.optimality_:.0e}")
print(f"share of pixels told apart: {model.score(X, is_flower):.3f}")
difference = np.abs(model.predict_proba(X) - twin.predict_proba(X)).max()
print(f"largest difference to LogisticRegression, of a probability: {difference:.0e}")

fig, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
for column, photo in enumerate(photos):
    probability = model.predict_proba(expand.transform(photo.reshape(-1, 3)))[:, 1]
    axes[0, column].imshow(photo)
    image = axes[1, column].imshow(
        probability.reshape(photo.shape[:2]), cmap="PuOr", vmin=0, vmax=1
    )
for ax in axes.flat:
    ax.set_axis_off()
fig.colorbar(image, ax=axes[1], label="probability of the flower", shrink=0.9)
plt.show()

# %%
# The pixels that stand for all
# -----------------------------
# ``solver="cagd"`` keeps the smallest measure: one pixel more than there are
# coefficients, with weights, has the gradient of half a million.

few = CaLogisticRegression(solver="cagd", max_iter=300, tol=1e-3, random_state=0)
few.fit(X, is_flower)
print(f"{len(few.support_)} pixels, {few.n_passes_:.0f} reads")
display = MeasureDisplay.from_estimator(few, X, max_cloud=5_000)
display.support_scatter_.set_facecolors(colors[few.support_])
display.support_scatter_.set(edgecolors="k", alpha=None)
display.cloud_scatter_.set_facecolors(colors[:: -(-len(X) // 5_000)])
plt.show()

# %%
# Every dot has the colour of its pixel; the large ones are the measure.
