"""Did a change make fits slower? Ratios of times against a stored table.

Seconds mean nothing on another machine, ratios nearly do. A tall fit is divided by
plain gradient evaluations on the same data, ``X @ w`` and ``X.T @ r``; a small fit,
which is all overhead, by the twin in scikit-learn. Both sides run in turns, on one
thread, in processor time, and the median ratio is compared with the table. A ratio that
has grown by more than ``--slack`` is printed as a warning; the exit code is zero
whatever is found, because a busy machine may do the same.

Examples
--------
::

    python bench_regression.py             # compare with the table
    python bench_regression.py --update    # write it, after a change that was meant
"""

import argparse
import csv
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from report import markdown_table, write_csv
from sklearn.base import clone
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from threadpoolctl import threadpool_limits

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression

TABLE = Path(__file__).parent / "results" / "regression" / "ratios.csv"
N_FEATURES = 20
N_TALL = 200_000
N_SMALL = 2_000
# One gradient evaluation is too short for the clock.
GRADIENTS_PER_UNIT = 10


@dataclass(frozen=True)
class Case:
    """A fit and what its time is divided by.

    Attributes
    ----------
    name : str
        Key in the table.
    fit, unit : callable
        Without arguments; what is timed.
    """

    name: str
    fit: Callable[[], object]
    unit: Callable[[], object]


def make_data(n_rows, seed=0):
    """Correlated columns, a real target, two classes and five."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, 1:] += 0.5 * X[:, :-1]
    scores = X @ rng.standard_normal((N_FEATURES, 5)) / 4
    scores += rng.gumbel(size=scores.shape)
    return X, scores[:, 0], scores[:, 0] > 0.5, scores.argmax(axis=1)


def fitting(estimator, X, y):
    """Return a function that makes a cold fit."""
    return lambda: clone(estimator).fit(X, y)


def make_cases(n_tall, n_small):
    """All fits, tall ones first."""
    X, target, label, classes = make_data(n_tall)
    residual = np.ones(n_tall)

    def gradients():
        for _ in range(GRADIENTS_PER_UNIT):
            X.T @ (residual - X @ X[0])

    tall = {
        "least squares": (CaLeastSquares(), target),
        "lasso": (CaLasso(0.01), target),
        "lasso, cabcd": (CaLasso(0.01, solver="cabcd", random_state=0), target),
        "logistic": (CaLogisticRegression(random_state=0), label),
        "logistic, L1": (CaLogisticRegression(l1_ratio=1, random_state=0), label),
        "logistic, cagd": (CaLogisticRegression(solver="cagd", random_state=0), label),
        "multinomial": (CaLogisticRegression(random_state=0), classes),
    }
    for name, (estimator, y) in tall.items():
        yield Case(f"tall {name}", fitting(estimator, X, y), gradients)
    X, target, label, classes = make_data(n_small)
    small = {
        "least squares": (CaLeastSquares(), LinearRegression(), target),
        "lasso": (CaLasso(0.01), Lasso(0.01), target),
        "logistic": (CaLogisticRegression(), LogisticRegression(), label),
        "multinomial": (CaLogisticRegression(), LogisticRegression(), classes),
    }
    for name, (estimator, twin, y) in small.items():
        yield Case(f"small {name}", fitting(estimator, X, y), fitting(twin, X, y))


def processor_seconds(function):
    """Return the processor time of one call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def measure_ratio(case, repeats):
    """Median of the ratios of calls in turns, after one of each to warm up."""
    case.fit(), case.unit()
    return float(
        np.median(
            [
                processor_seconds(case.fit) / processor_seconds(case.unit)
                for _ in range(repeats)
            ]
        )
    )


def read_table(path):
    """Return the stored ratio of every case."""
    with open(path, newline="") as stream:
        return {row["case"]: float(row["ratio"]) for row in csv.DictReader(stream)}


def compare(ratios, stored, slack):
    """Return the lines of a table, and the names of cases that became slower."""
    lines, slower = [], []
    for name, ratio in ratios.items():
        before = stored.get(name)
        change = "new" if before is None else f"{ratio / before:.2f}"
        if before is not None and ratio > (1 + slack) * before:
            slower.append(name)
        stored_ratio = "" if before is None else f"{before:.3g}"
        lines.append([name, f"{ratio:.3g}", stored_ratio, change])
    return markdown_table(["case", "ratio", "stored", "change"], lines), slower


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--repeats", type=int, default=7)
    # Medians of seven moved by up to a quarter from run to run on a shared machine.
    parser.add_argument("--slack", type=float, default=0.4)
    return parser.parse_args()


def main():
    """Measure all cases; compare them with the table or write it."""
    arguments = parse_arguments()
    sizes = (5_000, 300) if arguments.quick else (N_TALL, N_SMALL)
    with threadpool_limits(1):
        ratios = {
            case.name: measure_ratio(case, arguments.repeats)
            for case in make_cases(*sizes)
        }
    if arguments.update:
        arguments.table.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"case": name, "ratio": f"{ratios[name]:.4g}"} for name in ratios]
        write_csv(arguments.table, rows)
    lines, slower = compare(ratios, read_table(arguments.table), arguments.slack)
    print(measure.machine_description(), "", *lines, sep="\n")
    for name in slower:
        print(f"WARNING: {name} is slower than the stored ratio allows.")


if __name__ == "__main__":
    main()
