"""
Convergence against reads and seconds
=====================================

All solvers minimise the same objective and are judged on the same full data. What
differs is how often they read it. ``recombination=None`` switches the reduction off and
turns each solver into its classical relative: Newton's method or gradient descent on
all rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from skcara import CaLogisticRegression, ConvergenceDisplay

rng = np.random.default_rng(0)
n_rows, n_features = 200_000, 20
X = rng.standard_normal((n_rows, n_features))
X[:, 1:] += 0.7 * X[:, :-1]
score = X @ rng.standard_normal(n_features) / 4
y = rng.random(n_rows) < 1 / (1 + np.exp(-score))

# %%
# A reference makes the gaps comparable: the minimum of the objective, from a fit that
# goes as far as rounding allows.

reference = CaLogisticRegression(tol=1e-12, recombination=None).fit(X, y).objective_

settings = {
    "canewton": {"solver": "canewton"},
    "Newton on all rows": {"solver": "canewton", "recombination": None},
    "cagd": {"solver": "cagd"},
    "gradient descent on all rows": {"solver": "cagd", "recombination": None},
}
axes = None
for color, (name, parameters) in enumerate(settings.items()):
    model = CaLogisticRegression(tol=1e-5, max_iter=200, **parameters)
    model.set_params(random_state=0).fit(X, y)
    display = ConvergenceDisplay.from_estimator(
        model,
        reference=reference,
        name=name,
        ax=axes,
        color=f"C{color // 2}",
        linestyle="--" if parameters.get("recombination", "auto") is None else "-",
        markersize=3,
    )
    axes = display.axes_
    print(f"{name:<30} {model.n_passes_:6.1f} reads, {len(model.history_)} rounds")
axes[0, 1].get_legend().remove()
for ax in axes[1]:
    ax.set_xscale("log")
display.figure_.legend(handles=axes[0, 0].lines, ncols=4, loc="outside upper center")
plt.show()

# %%
# Solid lines work on a reduced measure between two reads, dashed lines do not. The
# gradient methods take one step per read unless they have a measure to walk on;
# Newton's method needs few reads but each of them also sums up the Hessian matrix,
# which costs about as much as several reads of the gradient.
#
# The numbers behind the curves are in ``history_``:

print(model.history_.dtype.names)
print(model.history_[:3])
