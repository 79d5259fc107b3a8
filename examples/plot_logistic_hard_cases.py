"""
Logistic regression on sorted and imbalanced data
=================================================

Two things that hurt methods which look at samples of the rows: tables that are sorted
by their label, and classes with very few members. A reduced measure has the gradient of
all rows whatever their order, and the stopping rule always looks at all of them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier

from skcara import CaLogisticRegression

rng = np.random.default_rng(0)
n_rows, n_features = 200_000, 15
X = rng.standard_normal((n_rows, n_features))
X[:, 0] = np.exp(X[:, 0])  # a heavy tail
coef = rng.standard_normal(n_features) / 3


def labels(share):
    """Labels with about this share of ones."""
    score = X @ coef
    shift = np.quantile(score, 1 - share) + (share < 0.5)
    return rng.random(n_rows) < 1 / (1 + np.exp(shift - score))


def objective(model, X, y):
    """Mean objective of logistic regression with C=1, over all rows."""
    margin = np.where(y, 1, -1) * (X @ model.coef_[0] + model.intercept_)
    return np.logaddexp(0, -margin).mean() + (model.coef_**2).sum() / (2 * len(y))


# %%
# Four data sets: shuffled and sorted by label, balanced and with few ones. The
# suboptimality is relative to the best objective known, computed on all rows by the
# function above.

cases = {}
for share, share_name in ((0.5, "balanced"), (0.002, "rare")):
    y = labels(share)
    order = np.argsort(y, kind="stable")
    cases[f"{share_name}, shuffled"] = X, y
    cases[f"{share_name}, sorted"] = X[order], y[order]

models = {
    "CaLogisticRegression": lambda n: CaLogisticRegression(random_state=0),
    "CaLogisticRegression, tol=1e-7": lambda n: CaLogisticRegression(
        tol=1e-7, random_state=0
    ),
    "LogisticRegression": lambda n: LogisticRegression(),
    "SGDClassifier, not shuffled": lambda n: SGDClassifier(
        loss="log_loss", alpha=1 / n, shuffle=False
    ),
}
gaps = {name: [] for name in models}
print(f"{'CaLogisticRegression':<28} {'n_passes_':>15} {'optimality_':>12}")
for case, (rows, y) in cases.items():
    values = {}
    for name, make in models.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = make(n_rows).fit(rows, y)
        values[name] = objective(fitted, rows, y)
        if isinstance(fitted, CaLogisticRegression):
            print(
                f"{case:<18} tol={fitted.tol:.0e} {fitted.n_passes_:9.1f} reads "
                f"{fitted.optimality_:12.1e} {len(caught):9} warnings"
            )
    exact = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(rows, y)
    best = min(objective(exact, rows, y), *values.values())
    for name, value in values.items():
        gaps[name].append(max((value - best) / best, 1e-15))

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
positions = np.arange(len(cases))
markers = dict(zip(gaps, "osD^", strict=True))
for shift, (name, gap) in enumerate(gaps.items()):
    places = positions + 0.12 * (shift - 1.5)
    ax.scatter(places, gap, s=60, marker=markers[name], label=name, zorder=2)
ones = [f"{case}\n{y.sum():,} ones" for case, (_, y) in cases.items()]
ax.set_xticks(positions, ones)
ax.set(yscale="log", ylabel="relative suboptimality on all rows")
ax.grid(axis="y", color="0.9", zorder=0)
fig.legend(ncols=2, loc="outside upper center")
plt.show()

# %%
# With rare classes the gradient of the mean objective is small everywhere, and a rule
# that looks at nothing else stops early. The default solver also asks its model how
# much the objective can still fall.

# %%
# Where do the rare rows go?
# --------------------------
# A random sample of the same size would contain a handful of the ones. The measure
# keeps what carries the gradient.

rows, y = cases["rare, shuffled"]
model = CaLogisticRegression(tol=1e-7, random_state=0).fit(rows, y)
in_measure = y[model.support_].sum()
in_sample = y.mean() * len(model.support_)
print(f"rows in the measure: {len(model.support_)} of {n_rows}")
print(f"ones in the measure: {in_measure} of {y.sum()}")
print(f"ones in a random sample of that size: about {in_sample:.0f}")
print(f"weight of the ones:  {model.support_weights_[y[model.support_]].sum():.1f}")

# %%
# ``class_weight="balanced"`` is folded into the sample weights before anything else, so
# that it costs nothing.

balanced = CaLogisticRegression(class_weight="balanced", random_state=0).fit(rows, y)
print(f"share predicted as one, as they are: {model.predict(rows).mean():.4f}")
print(f"share predicted as one, balanced:    {balanced.predict(rows).mean():.4f}")
