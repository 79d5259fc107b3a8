"""Random problems for the campaign: nasty but valid, one integer describes each.

A problem is drawn in steps (shape, columns, adversities, target, weights, storage,
options), each from a small table. The names of what was drawn are its ``traits``; they
are printed with a failure, and the adversities among them decide how strict the judge
can be about warnings.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from skcara import CaLasso, CaLeastSquares, CaLogisticRegression
from skcara.blocks import DIRECTIONS, PARTITIONS, SELECTIONS, is_valid_rule
from skcara.recombination import RECOMBINATION_METHODS
from skcara.solvers import CONTROLS

# Keeps the numbers of fits apart from those of other kinds.
FITS = 1

# Codes of missing values in meteorological and satellite data.
FILL_VALUES = (1e15, 9.97e36)

# The textbook method eliminates groups of so many rows one by one, and solves a linear
# system for each. With more operations than these it takes more than some seconds: it
# is documented to be for a thousand rows.
GROUP_ROWS, MOST_OPERATIONS = 32, 2e9

# Most rows, most columns, most entries; how often.
SIZES = {
    "tiny": (30, 10, 300, 0.5),
    "small": (2000, 60, 20_000, 0.35),
    "medium": (30_000, 80, 400_000, 0.125),
    "large": (200_000, 120, 2_000_000, 0.024),
    "huge": (600_000, 20, 12_000_000, 0.001),
}


class Fit(NamedTuple):
    """An estimator and the data to fit it to."""

    seed: int
    estimator: object
    X: object
    y: np.ndarray
    sample_weight: np.ndarray | None
    traits: tuple

    @property
    def is_benign(self):
        """Whether nothing about the data or the options is out of the ordinary."""
        return not ADVERSE.intersection(self.traits)

    def __str__(self):
        shape = "x".join(str(size) for size in self.X.shape)
        call = " ".join(str(self.estimator).split())
        return f"{call} on {shape} {' '.join(self.traits)}"


def chance(rng, probability):
    return rng.random() < probability


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def decades(rng, low, high, size=None):
    """Numbers of all magnitudes, log-uniform."""
    return 10.0 ** rng.uniform(low, high, size)


# ---- columns --------------------------------------------------------------------


def draw_shape(rng):
    """Name of the size, number of rows, number of columns."""
    name = rng.choice(list(SIZES), p=[size[-1] for size in SIZES.values()])
    most_rows, most_columns, most_entries, _ = SIZES[name]
    if name == "huge":
        return name, most_rows, most_columns
    least = 1 if name == "tiny" else most_rows / 15
    n_rows = int(decades(rng, np.log10(least), np.log10(most_rows)))
    most_columns = min(most_columns, max(1, most_entries // n_rows))
    n_columns = int(decades(rng, 0, np.log10(most_columns + 0.99)))
    return name, n_rows, n_columns


def size_of(seed):
    """Name of the size of a fit, without drawing the rest of it."""
    return draw_shape(np.random.default_rng([FITS, seed]))[0]


COLUMNS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy-tailed": lambda rng, shape: rng.standard_t(1.5, shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 1.5, shape),
    "counts": lambda rng, shape: rng.poisson(1.0, shape).astype(float),
    "signs": lambda rng, shape: rng.choice([-0.3, 0.3], shape),
    "rare-indicators": lambda rng, shape: (rng.random(shape) < 0.03).astype(float),
    "correlated": lambda rng, shape: (
        0.1 * rng.standard_normal(shape) + rng.standard_normal((shape[0], 1))
    ),
}


def _scale(rng, X):
    X *= decades(rng, -8, 8, X.shape[1])


def _offset(rng, X):
    X += decades(rng, 0, 8) * rng.standard_normal(X.shape[1])


def _duplicate_column(rng, X):
    X[:, rng.integers(X.shape[1])] = pick(rng, [1.0, -3.0]) * X[:, 0]


def _constant_column(rng, X):
    X[:, rng.integers(X.shape[1])] = pick(rng, [0.0, 1.0, -1e6])


def _nearly_dependent_column(rng, X):
    noise = decades(rng, -12, -4) * rng.standard_normal(len(X))
    X[:, rng.integers(X.shape[1])] = X.sum(axis=1) + noise


def _outlier(rng, X):
    X[rng.integers(len(X)), rng.integers(X.shape[1])] *= decades(rng, 2, 20)


def _duplicate_rows(rng, X):
    X[:] = X[rng.integers(0, max(1, len(X) // 5), len(X))]


def _sort_rows(rng, X):
    X[:] = X[np.argsort(X[:, 0])]


ADVERSITIES = {
    "scaled": _scale,
    "offset": _offset,
    "duplicated-column": _duplicate_column,
    "constant-column": _constant_column,
    "nearly-dependent": _nearly_dependent_column,
    "outlier": _outlier,
    "duplicated-rows": _duplicate_rows,
    "sorted": _sort_rows,
}

ADVERSE = {
    *ADVERSITIES,
    *("heavy-tailed", "lognormal", "rare-indicators"),
    *("separable", "perfect-fit", "constant-target", "fill-values", "many-decades"),
    *("rare-class", "many-classes", "extreme-penalty"),
}


def draw_columns(rng, shape):
    """A matrix in double precision, and its traits."""
    kind = pick(rng, list(COLUMNS))
    X, traits = COLUMNS[kind](rng, shape), [kind]
    if chance(rng, 0.2):
        X *= rng.random(shape) < 0.2
        traits.append("many-zeros")
    if chance(rng, 0.6):
        for name in rng.permutation(list(ADVERSITIES))[: rng.integers(1, 3)]:
            ADVERSITIES[name](rng, X)
            traits.append(str(name))
    return X, traits


# ---- targets --------------------------------------------------------------------


def draw_scores(rng, X, n_outputs):
    """Linear scores of order one, whatever the scale of the columns."""
    size = np.abs(X).max(axis=0)
    coef = rng.standard_normal((X.shape[1], n_outputs)) * (rng.random() < 0.9)
    coef[rng.random(X.shape[1]) < 0.4] = 0.0
    scores = X @ (coef / np.where(size > 0, size, 1.0)[:, None])
    return scores / max(np.sqrt(np.mean(scores**2)), 1e-300) * (np.abs(scores) > 0)


def draw_regression(rng, X):
    n_targets = 1 if chance(rng, 0.93) else int(rng.integers(2, 4))
    kind = pick(rng, ["noisy", "noisy", "noisy", "perfect-fit", "constant-target"])
    y = draw_scores(rng, X, n_targets)
    if kind == "noisy":
        y = y + decades(rng, -6, 1) * rng.standard_normal(y.shape)
    elif kind == "constant-target":
        y = np.full(y.shape, rng.standard_normal())
    y = y * decades(rng, -6, 6) if chance(rng, 0.3) else y
    y = y + decades(rng, 0, 6) if chance(rng, 0.3) else y
    return (y[:, 0] if n_targets == 1 else y), [kind]


def draw_labels(rng, X):
    n_rows, traits = len(X), []
    n_classes = pick(rng, [2, 2, 2, 3, 4, 7])
    if chance(rng, 0.05):
        n_classes = min(n_rows, int(rng.integers(8, 60)))
        traits.append("many-classes")
    scores = draw_scores(rng, X, n_classes)
    if chance(rng, 0.2):
        traits.append("separable")
    else:
        scores = scores + decades(rng, -1, 1) * rng.gumbel(size=scores.shape)
    codes = scores.argmax(axis=1)
    if chance(rng, 0.1):
        codes = np.where(rng.random(n_rows) < 2 / n_rows, codes, 0)
        traits.append("rare-class")
    if len(np.unique(codes)) < 2:
        codes[0] = 1 - min(codes[-1], 1)
    names = pick(rng, [np.arange(60), np.arange(60.0) - 1, np.arange(60).astype(str)])
    return names[codes], traits


# ---- weights and storage --------------------------------------------------------


def draw_weights(rng, n_rows):
    kind = pick(rng, [None] * 4 + ["uniform", "zeros", "many-decades", "first-zero"])
    if kind is None:
        return None, []
    weights = rng.random(n_rows)
    if kind == "zeros":
        weights = rng.integers(0, 3, n_rows).astype(float)
    elif kind == "many-decades":
        weights = decades(rng, -12, 0, n_rows)
    elif kind == "first-zero":
        weights[: rng.integers(1, n_rows // 2 + 2)] = 0.0
    if not weights.any():
        weights[-1] = 1.0
    return weights * (decades(rng, -9, 9) if chance(rng, 0.2) else 1.0), [kind]


def fill_missing(rng, X, y, weights):
    """Write codes of missing values into the rows of weight zero."""
    missing = weights == 0
    X[missing] = pick(rng, FILL_VALUES)
    if y.dtype.kind == "f":
        y[missing] = pick(rng, FILL_VALUES)


def cast(rng, X):
    """Nearly the same values in another type."""
    dtype = pick(rng, ["f8"] * 6 + ["f4", "f4", "i1", "?", "g", "i8"])
    if dtype == "i1":
        X = np.clip(np.round(20 * X), -128, 127)
    elif dtype == "i8":
        X = np.clip(np.round(1000 * X), -(2**53), 2**53)
    elif dtype == "?":
        X = X > 0
    X = X.astype(dtype)
    return X, [X.dtype.name]


def lay_out(rng, X):
    """The same values in another format or memory layout."""
    layout = pick(rng, ["C"] * 4 + ["F", "strided", "read-only", "csr", "csr", "csc"])
    if layout == "F":
        X = np.asfortranarray(X)
    elif layout == "strided":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    elif layout == "read-only":
        X.flags.writeable = False
    elif layout in ("csr", "csc"):
        container = pick(rng, [sparse.csr_array, sparse.csr_matrix])
        X = container(X).asformat(layout)
    return X, [layout]


# ---- options --------------------------------------------------------------------


def draw_least_squares(rng):
    return CaLeastSquares(positive=chance(rng, 0.35)), []


def draw_lasso(rng):
    alpha, traits = decades(rng, -5, 0.5), []
    if chance(rng, 0.12):
        alpha = pick(rng, [0.0, *decades(rng, [-33, -20, 20, 90], [-20, -8, 60, 120])])
        traits = ["extreme-penalty"]
    return CaLasso(
        alpha=float(alpha),
        l1_ratio=pick(rng, [1.0, 1.0, 1.0, 0.5, 0.99, 0.001, 0.0]),
        positive=chance(rng, 0.25),
    ), traits


def draw_logistic(rng):
    C, traits = decades(rng, -4, 4), []
    if chance(rng, 0.2):
        C, traits = pick(rng, [np.inf, np.inf, 3e-8, 1e12]), ["extreme-penalty"]
    return CaLogisticRegression(
        C=float(C),
        l1_ratio=pick(rng, [0.0, 0.0, 0.0, 0.5, 1.0]),
        class_weight=pick(rng, [None, None, None, "balanced"]),
    ), traits


def draw_block_options(rng):
    rules = [
        (partition, selection)
        for partition in PARTITIONS
        for selection in SELECTIONS
        if is_valid_rule(partition, selection)
    ]
    partition, selection = pick(rng, rules)
    options = {"partition": partition, "selection": selection}
    options["block_size"] = pick(rng, [1, 2, 2, 3, 5, 8])
    options["direction"] = pick(rng, ["auto", "auto", *DIRECTIONS])
    if (partition, selection) in (("VB", "GS"), ("VB", "Random")):
        options["fraction"] = pick(rng, ["auto", None, 0.3, 1.0])
    return options


def draw_solver(rng, n_rows):
    """Solver and its options; the solvers of the article get few rounds."""
    options = {
        "solver": pick(rng, ["auto"] * 6 + ["canewton", "cabcd", "cabcd", "cagd"])
    }
    if chance(rng, 0.4):
        options["recombination"] = pick(rng, [*RECOMBINATION_METHODS, None])
    is_of_article = options["solver"] in ("cabcd", "cagd")
    if options["solver"] == "cabcd":
        options |= draw_block_options(rng)
    if is_of_article and chance(rng, 0.3):
        options["momentum"] = pick(rng, [0.5, 0.9])
    if is_of_article and chance(rng, 0.3):
        options["control"] = pick(rng, ["auto", *CONTROLS])
    if is_of_article and chance(rng, 0.2):
        options["step_size"] = float(decades(rng, -4, 0))
    if is_of_article and chance(rng, 0.3):
        options["max_inner_iter"] = pick(rng, [1, 10, 100])
    if is_of_article or chance(rng, 0.2):
        most = 200 if n_rows < 1000 else 20
        options["max_iter"] = int(decades(rng, 0, np.log10(most)))
    if chance(rng, 0.7):
        options["tol"] = pick(rng, [0.0, *decades(rng, -10, -1, 40).tolist()])
    return options


def affordable_method(method, n_rows, n_coords):
    """The method that was drawn, unless it takes minutes by definition."""
    is_long = n_rows / GROUP_ROWS * float(n_coords) ** 3 > MOST_OPERATIONS
    return "auto" if method == "davis" and is_long else method


# ---- problems -------------------------------------------------------------------


def draw_fit(seed) -> Fit:
    """The fit of this number, always the same."""
    rng = np.random.default_rng([FITS, seed])
    size, n_rows, n_columns = draw_shape(rng)
    draw_estimator = pick(rng, [draw_least_squares, draw_lasso, draw_logistic])
    is_classifier = draw_estimator is draw_logistic
    if is_classifier:
        n_rows = max(n_rows, 2)
    X, traits = draw_columns(rng, (n_rows, n_columns))
    X, more = cast(rng, X)
    traits += more
    draw_target = draw_labels if is_classifier else draw_regression
    y, more = draw_target(rng, X.astype(np.float64))
    traits += more
    sample_weight, more = draw_weights(rng, n_rows)
    traits += more
    if "first-zero" in more and X.dtype.kind == "f" and chance(rng, 0.7):
        fill_missing(rng, X, y, sample_weight)
        traits.append("fill-values")
    X, more = lay_out(rng, X)
    traits += more
    estimator, more = draw_estimator(rng)
    traits += more
    options = draw_solver(rng, n_rows)
    options |= {"fit_intercept": chance(rng, 0.8), "random_state": int(seed % 2**31)}
    if chance(rng, 0.1):
        options["n_jobs"] = 2
    estimator.set_params(**options)
    n_outputs = len(np.unique(y)) if is_classifier else 1
    method = affordable_method(
        estimator.recombination, n_rows, n_columns * max(n_outputs - 1, 1)
    )
    estimator.set_params(recombination=method)
    return Fit(seed, estimator, X, y, sample_weight, (size, *traits))
