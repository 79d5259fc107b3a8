"""
A scaler that has seen the held-out rows
========================================

A penalty needs columns of similar scale, so columns are standardised first. Done before
the folds are cut, that tells the training rows something about the held-out ones, and
the scores are too good. ``standardize=True`` standardises inside the folds, at no
price: the sums of the shared read know the means and deviations of every fold.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcara import CaLasso, CaLassoCV

# %%
# Heavy tails
# -----------
# Sums of money, lengths of stay and counts of visits look like this: most rows are
# small, a few are very large. What they say about the target saturates.


def draw_table(n_rows, rng):
    X = rng.lognormal(sigma=1.25, size=(n_rows, 30))
    y = np.log1p(X[:, :8]).sum(axis=1) + rng.standard_normal(n_rows)
    return X, y


rng = np.random.default_rng(0)
X, y = draw_table(150, rng)

# %%
# The same numbers as from a pipeline inside the folds, from one read:

search = CaLassoCV(standardize=True, cv=5).fit(X, y)
grid = GridSearchCV(
    make_pipeline(StandardScaler(), CaLasso(tol=1e-10)),
    {"calasso__alpha": search.alphas_},
    scoring="neg_mean_squared_error",
    cv=5,
).fit(X, y)
errors = -grid.cv_results_["mean_test_score"]
difference = np.abs(errors / search.mse_path_.mean(axis=1) - 1).max()
print(f"largest relative difference of the scores: {difference:.0e}")

# %%
# A large entry in a held-out row makes the deviation of its column large and the
# standardised column small everywhere else: the training rows are warned not to trust
# it. New rows will give no such warning. Sixty tables of 150 rows, each with 20 000 new
# rows, show by how much the scores are too good.

promised, kept = {"outside": [], "inside": []}, {"outside": [], "inside": []}
for _ in range(60):
    X, y = draw_table(150, rng)
    X_new, y_new = draw_table(20_000, rng)
    scaler = StandardScaler().fit(X)
    outside = CaLassoCV(cv=5).fit(scaler.transform(X), y)
    inside = CaLassoCV(standardize=True, cv=5).fit(X, y)
    predictions = {
        "outside": outside.predict(scaler.transform(X_new)),
        "inside": inside.predict(X_new),
    }
    for name, model in (("outside", outside), ("inside", inside)):
        promised[name].append(model.mse_path_.mean(axis=1).min())
        kept[name].append(np.mean((y_new - predictions[name]) ** 2))

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
limits = (1.4, 4.2)
for name, color in (("outside", "C1"), ("inside", "C0")):
    axes[0].plot(promised[name], kept[name], "o", color=color, alpha=0.6, label=name)
axes[0].plot(limits, limits, color="0.6", linewidth=1)
axes[0].set(xlim=limits, ylim=limits, aspect="equal")
axes[0].set_xlabel("error that the search promises")
axes[0].set_ylabel("error on new rows")
axes[0].legend(title="scaler and folds")

too_good = {
    name: 100 * (np.array(kept[name]) / np.array(promised[name]) - 1)
    for name in ("inside", "outside")
}
boxes = axes[1].boxplot(
    list(too_good.values()), orientation="horizontal", widths=0.5, patch_artist=True
)
for box, color in zip(boxes["boxes"], ("C0", "C1"), strict=True):
    box.set(facecolor=color, alpha=0.6)
plt.setp(boxes["medians"], color="black")
axes[1].axvline(0, color="0.6", linewidth=1)
axes[1].set_yticks([1, 2], list(too_good))
axes[1].set_ylabel("scaler and folds")
axes[1].set_xlabel("error on new rows above the promised one (per cent)")
plt.show()
for name, values in too_good.items():
    print(f"{name:<8} median {np.median(values):+.0f} per cent")
