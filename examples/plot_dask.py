"""
Rows on a Dask cluster
======================

Dask collections are given to ``fit`` as they are. The partitions stay where they are;
coefficients and sums travel. The result does not depend on the workers, not even in the
last bit, and survives the death of one of them.

The cluster of this script consists of threads in one process, so that it starts at
once; with ``Client("tcp://scheduler:8786")`` the same lines run on many machines.
``client.dashboard_link`` is the address of a page that shows the passes while they run.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client

from skcara import CaLogisticRegression

# %%
# A collection
# ------------
# Partitions are computed where they are needed, here from random numbers, usually from
# files. Nothing is computed yet.

n_parts, part_rows, n_features = 20, 20_000, 10
slope = np.linspace(-1, 1, n_features)


def load(number):
    """Rows of a partition with their label behind them."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((part_rows, n_features))
    return np.column_stack([X, X @ slope + rng.logistic(size=part_rows) > 0])


table = da.concatenate(
    [
        da.from_delayed(dask.delayed(load)(k), (part_rows, n_features + 1), float)
        for k in range(n_parts)
    ]
)
X, y = table[:, :n_features], table[:, n_features].astype(int)
print(X)

# %%
# Fits with one, two and four workers
# -----------------------------------

models = []
for n_workers in (1, 2, 4):
    with Client(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
    ):
        models.append(CaLogisticRegression().fit(X, y))
same = [np.array_equal(model.coef_, models[0].coef_) for model in models]
print("same bits:", same)

# %%
# Without a cluster, Dask's threads in this process do the work, with the same bits.

local = CaLogisticRegression().fit(X, y)
print("same bits:", np.array_equal(local.coef_, models[0].coef_))

# %%
# Predictions
# -----------
# They are lazy, with the type and shape of what they will be.

proba = local.predict_proba(X)
print(proba)
positive = proba[:, 1].reshape(n_parts, part_rows)
shares = dask.compute(positive.mean(axis=1), y.reshape(n_parts, part_rows).mean(axis=1))

# %%
# What the model expects in each partition, and what is there; the band is two standard
# deviations of chance.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
expected, found = (100 * share for share in shares)
chance = 200 * np.sqrt(0.25 / part_rows)
parts = np.arange(n_parts)
axes.fill_between(parts, expected - chance, expected + chance, alpha=0.3)
axes.plot(parts, expected, label="expected")
axes.plot(parts, found, "k.", label="found")
axes.set(xlabel="partition", ylabel="positive rows, %", xticks=parts[::5])
axes.legend()
plt.show()
