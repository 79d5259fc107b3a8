"""
Block rules of coordinate descent
=================================

``solver="cabcd"`` moves a few coordinates at a time. ``partition`` says how coordinates
are grouped, ``selection`` which group moves next and ``direction`` how. All
combinations of Nutini et al. are there, with and without reduced measures.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression, ConvergenceDisplay
from skcara.blocks import rule_params

rng = np.random.default_rng(0)
n_rows, n_features = 20_000, 40
X = rng.standard_normal((n_rows, n_features)) * np.geomspace(0.3, 3, n_features)
X[:, ::2] += 0.5 * X[:, 1::2]
coef = rng.standard_normal(n_features) * (rng.random(n_features) < 0.2)
y = X @ coef
y += rng.standard_normal(n_rows)
reference = CaLeastSquares().fit(X, y).objective_

# %%
# Which block moves next?
# -----------------------
# One block of five coordinates a round, all else equal.
# :func:`skcara.blocks.rule_params` translates the names of the literature,
# ``partition_selection_direction``.

fig, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for rule in (
    "Order_Cyclic_Hb",
    "Order_Perm_Hb",
    "VB_Random_Hb",
    "Sort_GS_Hb",
    "VB_GS_Hb",
    "VB_GSD_Hb",
):
    model = CaLeastSquares(
        solver="cabcd",
        block_size=5,
        fraction=None,
        tol=1e-6,
        random_state=0,
        **rule_params(rule),
    ).fit(X, y)
    ConvergenceDisplay.from_estimator(
        model,
        reference=reference,
        name=f"{rule}: {model.n_iter_} rounds",
        against=("passes",),
        quantities=("gap",),
        markersize=2,
        ax=ax,
    )
ax.set_ylim(1e-9, None)
plt.show()

# %%
# A fifth of the coefficients matter here. Rules that look at the gradient ("GS" and its
# relatives) find them in the first reads; rules that walk or draw have to come by.
# Looking costs nothing extra: a read of the data gives the gradient of all coordinates
# anyway.
#
# Several blocks at once
# ----------------------
# ``fraction`` moves several blocks in one round, each on its own few rows, in threads
# if ``n_jobs`` says so. The default is the article's: the coordinates that carry three
# quarters of the total absolute gradient. In this part all coefficients matter.

y = X @ rng.standard_normal(n_features) + rng.standard_normal(n_rows)
reference = CaLasso(0.01, tol=1e-12).fit(X, y).objective_
fig, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for fraction in (None, 0.25, 0.5, 0.75):
    model = CaLasso(
        0.01, solver="cabcd", fraction=fraction, tol=1e-8, random_state=0
    ).fit(X, y)
    ConvergenceDisplay.from_estimator(
        model,
        reference=reference,
        name=f"fraction={fraction}",
        against=("passes",),
        quantities=("gap",),
        markersize=2,
        ax=ax,
    )
    print(f"fraction={fraction}: {model.n_passes_:.0f} reads")
ax.set_ylim(1e-9, None)
plt.show()

# %%
# How long is a measure trusted?
# ------------------------------
# ``control`` predicts the change of the full objective while steps are taken on a few
# rows. ``"auto"`` is the best known for the loss: exact for the squared loss, a guess
# from the last two reads for the logistic one.

label = X @ rng.standard_normal(n_features) / 6 + rng.logistic(size=n_rows) > 0
problems = {
    "Lasso": (CaLasso(0.01, random_state=0), y),
    "logistic": (CaLogisticRegression(random_state=0), label),
}
print(f"{'reads until tol':<20}" + "".join(f"{name:>16}" for name in problems))
for solver in ("cagd", "cabcd"):
    for control in ("auto", "block-hessian", "lipschitz", "secant", "secant-bb"):
        reads = [
            model.set_params(solver=solver, control=control).fit(X, target).n_passes_
            for model, target in problems.values()
        ]
        line = "".join(f"{count:16.0f}" for count in reads)
        print(f"{solver + ', ' + control:<20}" + line)
