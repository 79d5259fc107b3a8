"""The three estimators beside their twins in scikit-learn, on data made on the spot.

Every estimator is fitted with its default tolerance. The objective at what it returns
is then computed on all rows by the few lines of :func:`logistic_objective` and
:func:`squared_objective`, which share nothing with any solver.

Run it with ``python examples/quickstart.py``; ``--rows`` changes the size.
"""

import argparse
import os
import platform
import statistics
import time
from dataclasses import dataclass

import numpy as np
import sklearn
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from threadpoolctl import threadpool_limits

import skcara
from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

N_FEATURES = 20
N_REPEATS = 3
ALPHA = 0.05


@dataclass(frozen=True)
class Fit:
    """What one estimator needed and reached."""

    name: str
    seconds: float
    objective: float
    passes: float | None
    support_size: int | None


def make_data(n_rows, seed=0):
    """Correlated columns in different units, a target and a rare class."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((N_FEATURES, N_FEATURES)) / 8 + np.eye(N_FEATURES)
    units = rng.uniform(0.5, 2.0, N_FEATURES)
    X = (rng.standard_normal((n_rows, N_FEATURES)) @ mixing) * units
    coef = rng.standard_normal(N_FEATURES) * (rng.random(N_FEATURES) < 0.5)
    signal = X @ coef
    target = signal + signal.std() * rng.standard_normal(n_rows) + 3.0
    odds = signal / signal.std() - 2.5
    label = rng.random(n_rows) < 1 / (1 + np.exp(-odds))
    return X, target, label.astype(int)


def logistic_objective(model, X, y):
    """Mean of the objective of logistic regression with C=1 over all rows."""
    margin = (2 * y - 1) * (X @ model.coef_.ravel() + model.intercept_)
    return np.logaddexp(0, -margin).mean() + (model.coef_**2).sum() / (2 * len(y))


def squared_objective(model, X, y, alpha=0.0):
    """Half the mean squared error plus the L1 penalty."""
    residual = y - X @ model.coef_ - model.intercept_
    return residual @ residual / (2 * len(y)) + alpha * np.abs(model.coef_).sum()


def lasso_objective(model, X, y):
    """Objective of the Lasso of this script."""
    return squared_objective(model, X, y, ALPHA)


def measure(name, model, X, y, objective):
    """Fit a few times; report the median time and what was reached."""
    seconds = []
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - start)
    support = getattr(model, "support_", None)
    return Fit(
        name,
        statistics.median(seconds),
        objective(model, X, y),
        getattr(model, "n_passes_", None),
        None if support is None else len(support),
    )


def compare(title, models, reference, X, y, objective):
    """Print one line per model; the first one is the unit of speed."""
    print(f"\n{title}")
    print(
        f"  {'':<36}{'seconds':>8}{'speed':>8}{'suboptimality':>15}"
        f"{'reads':>7}{'support':>9}"
    )
    fits = [measure(name, model, X, y, objective) for name, model in models.items()]
    best = min(objective(reference.fit(X, y), X, y), *(fit.objective for fit in fits))
    for fit in fits:
        passes = "" if fit.passes is None else f"{fit.passes:.1f}"
        support = "" if fit.support_size is None else f"{fit.support_size}"
        print(
            f"  {fit.name:<36}{fit.seconds:>8.3f}"
            f"{fits[0].seconds / fit.seconds:>7.1f}x"
            f"{(fit.objective - best) / best:>15.1e}{passes:>7}{support:>9}"
        )


def main():
    """Compare the three estimators with scikit-learn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    n_rows = parser.parse_args().rows
    X, target, label = make_data(n_rows)
    print(
        f"skcara {skcara.__version__}, scikit-learn {sklearn.__version__}, "
        f"NumPy {np.__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores"
    )
    print(
        f"{n_rows} rows, {N_FEATURES} columns, {label.mean():.1%} of class 1; "
        f"one thread, median of {N_REPEATS} fits"
    )

    compare(
        "Logistic regression, C=1",
        {
            "LogisticRegression()": LogisticRegression(),
            "LogisticRegression(newton-cholesky)": LogisticRegression(
                solver="newton-cholesky"
            ),
            "CaLogisticRegression()": CaLogisticRegression(random_state=0),
            "CaLogisticRegression(cagd)": CaLogisticRegression(
                solver="cagd", random_state=0
            ),
        },
        LogisticRegression(solver="newton-cholesky", tol=1e-10),
        X,
        label,
        logistic_objective,
    )
    compare(
        f"Lasso, alpha={ALPHA}",
        {
            "Lasso()": Lasso(ALPHA),
            "Lasso(precompute=True)": Lasso(ALPHA, precompute=True),
            "CaLasso()": CaLasso(ALPHA),
            "CaLasso(cabcd)": CaLasso(ALPHA, solver="cabcd", random_state=0),
        },
        Lasso(ALPHA, precompute=True, tol=1e-12, max_iter=100_000),
        X,
        target,
        lasso_objective,
    )
    compare(
        "Least squares",
        {
            "LinearRegression()": LinearRegression(),
            "CaLeastSquares()": CaLeastSquares(),
            "CaLeastSquares(cagd)": CaLeastSquares(solver="cagd", random_state=0),
        },
        LinearRegression(),
        X,
        target,
        squared_objective,
    )
    print(
        "\nspeed: how many times as fast as the first line of the table."
        "\nsuboptimality: (objective - lowest) / lowest, on all rows, by code that is"
        "\n    independent of the solvers. Every estimator uses its default tolerance."
        "\nreads: passes over the full data. support: rows of the last reduced measure;"
        "\n    none where one read collects all that matters."
    )


if __name__ == "__main__":
    # More BLAS threads than free cores can slow scikit-learn down many times over; one
    # for everybody is a fair start.
    with threadpool_limits(1):
        main()
