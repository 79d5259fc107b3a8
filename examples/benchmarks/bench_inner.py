"""The costs of CaGD and CaBCD: inner step, outer pass, and CaGD against GD.

Three tables, each measured side by side in one process on one thread:

1. a step of the inner loop on six atoms against ``np.dot`` of two vectors of six;
2. a full-data evaluation against the two BLAS products that it contains;
3. CaGD against gradient descent with the same step size, on the article's set B.

In the third, gradient descent stops at a gradient norm of 1e-3 or after the article's
10 000 iterations, and CaGD at the norm that gradient descent reached.

Examples
--------
::

    python bench_inner.py --quick --output results
    python bench_inner.py --output results
"""

import argparse
import time
from functools import partial
from pathlib import Path

import measure  # before NumPy: it fixes the number of threads
import numpy as np
from report import markdown_table

from skcara.data import ArraySource, Coordinates, one_blas_thread
from skcara.objective import (
    KKTViolation,
    LogisticLoss,
    Problem,
    SeparablePenalty,
    SquaredLoss,
)
from skcara.passes import Evaluate
from skcara.solvers import answer_all, drive
from skcara.solvers.descent import CagdOptions, iterate_cagd
from skcara.solvers.descent._inner import BlockModel, ReducedGradient, run_inner_loop
from skcara.solvers.descent._steps import DiagonalStep

N_ATOMS, BLOCK_SIZE = 6, 2
MOST_ITERATIONS = 10_000
GRADIENT_NORM = 1e-3


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", default="results/inner", type=Path)
    return parser.parse_args()


def median_seconds(functions, repeats, n_calls=1):
    """Median processor seconds of one call, all functions taking turns."""
    seconds = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.process_time()
            for _ in range(n_calls):
                function()
            seconds[name].append((time.process_time() - started) / n_calls)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def make_problem(X, y, loss):
    """Problem without penalty and intercept, and the source of its rows."""
    zero = np.zeros((X.shape[1], 1))
    penalty = SeparablePenalty(zero, zero, zero > 0)
    source = ArraySource(X, y)
    coordinates = Coordinates.of_user(X.shape[1], fit_intercept=False)
    return Problem(source.facts, loss, penalty, KKTViolation(), coordinates), source


def inner_loop(loss, l1, n_steps):
    """Inner loop of `n_steps` steps on six atoms."""
    rng = np.random.RandomState(0)
    reduced = ReducedGradient(
        rows=rng.standard_normal((N_ATOMS, BLOCK_SIZE)),
        outputs=np.zeros(BLOCK_SIZE, dtype=int),
        target=rng.randint(0, 2, N_ATOMS),
        prediction=np.zeros((N_ATOMS, 1)),
        weights=np.full(N_ATOMS, 1 / N_ATOMS),
        loss=loss,
    )
    gradient, l1 = np.empty(BLOCK_SIZE), np.full(BLOCK_SIZE, l1)
    reduced(np.append(np.zeros(BLOCK_SIZE), 1.0), gradient)
    # Tiny steps and no curvature: the statistic decreases to the last step.
    model = BlockModel(
        anchor=np.ones(BLOCK_SIZE),
        gradient=gradient,
        control=np.zeros((BLOCK_SIZE, BLOCK_SIZE)),
        l1=l1,
        l2=np.zeros(BLOCK_SIZE),
    )
    step = DiagonalStep(np.full(BLOCK_SIZE, 1e-6), l1, np.zeros(BLOCK_SIZE, bool))

    def run():
        result = run_inner_loop(model, (step, step), reduced=reduced, max_iter=n_steps)
        assert result.accepted == n_steps

    return run


def inner_table(arguments):
    """Markdown lines: cost of a step in calls of ``np.dot``."""
    n_steps = 200 if arguments.quick else 5000
    left, right = np.arange(6.0), np.ones(6)

    def dots():
        for _ in range(n_steps):
            np.dot(left, right)

    functions = {"np.dot": dots}
    for loss in (SquaredLoss(), LogisticLoss()):
        for l1 in (0.0, 1e-3):
            name = f"{type(loss).__name__}, {'L1' if l1 else 'no L1'}"
            functions[name] = inner_loop(loss, l1, n_steps)
    seconds = median_seconds(functions, arguments.repeats)
    return markdown_table(
        ["inner step on 6 atoms", "microseconds", "calls of np.dot"],
        [
            [name, f"{1e6 * s / n_steps:.2f}", f"{s / seconds['np.dot']:.1f}"]
            for name, s in seconds.items()
        ],
    )


def pass_table(arguments):
    """Markdown lines: cost of an evaluation in pairs of BLAS products."""
    n_rows = 20_000 if arguments.quick else 500_000
    rows = []
    for n_features in (10, 50, 100):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, n_features))
        y = (X[:, 0] + rng.standard_normal(n_rows) > 0).astype(int)
        params = rng.standard_normal((n_features, 1))
        functions = {"X @ params and X.T @ residual": two_products(X, y, params)}
        for loss, target in ((SquaredLoss(), y.astype(float)), (LogisticLoss(), y)):
            problem, source = make_problem(X, target, loss)
            for label, group_rows in (("evaluation", None), ("with group sums", 512)):
                request = Evaluate(problem, params, group_rows)
                name = f"{type(loss).__name__}, {label}"
                functions[name] = partial(answer_all, source, [request])
        seconds = median_seconds(functions, arguments.repeats)
        baseline = next(iter(seconds.values()))
        rows += [
            [n_rows, n_features, name, f"{1e3 * s:.1f}", f"{s / baseline:.2f}"]
            for name, s in seconds.items()
        ]
    return markdown_table(["rows", "columns", "pass", "milliseconds", "ratio"], rows)


def two_products(X, y, params):
    """Return the two products of a gradient, without any loss."""

    def run():
        residual = X @ params
        return X.T @ residual

    return run


def set_b(n_rows, seed):
    """Return the article's set B: shifted exponentials, labels by orthant."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(2.0, (n_rows, 2)) - 5
    start = rng.uniform(-1, 1, (2, 1)) / np.sqrt(2)
    return X, (X < 0).all(axis=1).astype(int), start


def timed_descent(case, start, options, tol, max_iter):
    """Run to a gradient norm; return the result and the processor seconds."""
    problem, source = case

    def is_small(number, record, evaluation):
        return np.linalg.norm(evaluation.gradient) <= tol

    started = time.process_time()
    solver = iterate_cagd(problem, start, options, np.random.RandomState(0))
    [result] = drive([solver], source, tol=0.0, max_iter=max_iter, observer=is_small)
    return result, time.process_time() - started


def descent_table(arguments):
    """Markdown lines: CaGD against GD with the same step."""
    n_rows = 5000 if arguments.quick else 100_000
    max_iter = 300 if arguments.quick else MOST_ITERATIONS
    X, y, start = set_b(n_rows, seed=0)
    case = make_problem(X, y, LogisticLoss())
    # The logistic loss has a second derivative of at most one quarter.
    constant = 0.25 * np.linalg.eigvalsh(X.T @ X / n_rows)[-1]
    rows = []
    for label, rate in (("1e-4", 1e-4), ("1e-2", 1e-2), ("1/c", 1 / constant)):
        plain, plain_seconds = timed_descent(
            case, start, CagdOptions(None, rate), GRADIENT_NORM, max_iter
        )
        norm = max(np.linalg.norm(plain.evaluation.gradient), GRADIENT_NORM)
        rows.append(descent_row(label, n_rows, "GD", plain, plain_seconds, 1.0))
        for control in ("secant", "secant-bb", "block-hessian"):
            options = CagdOptions(step_size=rate, control=control)
            result, seconds = timed_descent(case, start, options, norm, max_iter)
            ratio = plain_seconds / seconds
            name = f"CaGD, {control}"
            rows.append(descent_row(label, n_rows, name, result, seconds, ratio))
    header = ["step", "rows", "solver", "rounds", "passes", "inner steps"]
    return markdown_table([*header, "norm", "seconds", "times faster"], rows)


def descent_row(label, n_rows, name, result, seconds, ratio):
    """Cells of one run."""
    return [
        label,
        n_rows,
        name,
        result.n_rounds,
        f"{result.passes:.1f}",
        int(result.history["inner_steps"].sum()),
        f"{np.linalg.norm(result.evaluation.gradient):.1e}",
        f"{seconds:.3f}",
        f"{ratio:.1f}",
    ]


def write_tables(sections, arguments, name):
    """Print and write the tables that functions of the arguments make, by title."""
    lines = [f"NumPy {np.__version__}, one thread, {measure.CLOCKS['cpu'].__name__}."]
    with one_blas_thread():
        for title, make_table in sections.items():
            lines += ["", f"## {title}", "", *make_table(arguments)]
    text = "\n".join(lines) + "\n"
    print(text)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / name).write_text(text)


def main():
    """Print and write the tables."""
    sections = {
        "Inner step": inner_table,
        "Outer pass": pass_table,
        "CaGD against GD, set B": descent_table,
    }
    write_tables(sections, parse_arguments(), "inner.md")


if __name__ == "__main__":
    main()
