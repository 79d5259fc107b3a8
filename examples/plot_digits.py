"""
Ten classes: handwritten digits
===============================

The digits of scikit-learn are small data, 1797 rows: nothing needs to be reduced, and
the estimator takes ordinary Newton steps on all rows. What stays is the same objective,
the same attributes as in scikit-learn, and a certificate on what was reached.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skcara import CaLogisticRegression

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# An L1 penalty on a multinomial model
# ------------------------------------
# scikit-learn has one solver for this problem, ``"saga"``, which stops at its limit of
# rounds here and warns.

theirs = LogisticRegression(l1_ratio=1, solver="saga", max_iter=50, random_state=0)
ours = CaLogisticRegression(l1_ratio=1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    theirs.fit(X_train, y_train)
ours.fit(X_train, y_train)
print(
    f"CaLogisticRegression: optimality {ours.optimality_:.0e}, rows reduced: ", end=""
)
print("none" if ours.support_ is None else len(ours.support_))


def objective(model):
    """Mean objective with C=1, computed here and not by a solver."""
    log_probability = model.predict_log_proba(X_train)
    loss = -log_probability[np.arange(len(y_train)), y_train].mean()
    return loss + np.abs(model.coef_).sum() / len(y_train)


for model in (theirs, ours):
    print(
        f"{type(model).__name__:<21} objective {objective(model):.6f}, "
        f"{np.mean(model.coef_ == 0):.0%} zeros, "
        f"accuracy on new digits {model.score(X_test, y_test):.3f}"
    )

# %%
# Which strokes speak for a digit
# -------------------------------
# Red pixels speak for the digit, blue ones against it, white ones are exact zeros.

fig, axes = plt.subplots(2, 10, figsize=(11, 2.6), layout="constrained")
for digit in range(10):
    axes[0, digit].imshow(X[y == digit].mean(axis=0).reshape(8, 8), cmap="gray_r")
    axes[1, digit].imshow(
        ours.coef_[digit].reshape(8, 8), cmap="RdBu_r", vmin=-5, vmax=5
    )
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("mean")
axes[1, 0].set_ylabel("coefficients")
plt.show()
