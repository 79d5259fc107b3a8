"""Named problems of the benchmarks: data, loss and penalty, nothing about solvers.

Every problem is written in mean form, so that one judge serves all rivals::

    mean_i loss(y_i, x_i @ coef + intercept) + l1 * |coef|_1 + l2 / 2 * |coef|^2

with an intercept that is never penalised. The adapters translate ``l1`` and ``l2``
into the parameters of each library. Synthetic data come from a fixed seed; real data
are read from ``.npz`` files in a folder that the user names, and a problem without its
file raises :class:`MissingDataError`, which the benchmarks report instead of hiding.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

CHUNK_ROWS = 16_384


class MissingDataError(Exception):
    """The problem needs a real data file that is not in the data folder."""


@dataclass(frozen=True)
class BenchProblem:
    """One optimisation problem, in mean form.

    Attributes
    ----------
    name : str
        Identifies data and penalty together; keys the cache of reference optima.
    loss : {"squared", "logistic", "multinomial"}
    X : ndarray or csr_array of shape (n_rows, n_features)
        Dense arrays are C-ordered, as users have them.
    y : ndarray of shape (n_rows,)
        Real targets, or class codes 0, 1, ...
    l1, l2 : float
        Penalty strengths in mean form.
    """

    name: str
    loss: str
    X: object
    y: np.ndarray
    l1: float = 0.0
    l2: float = 0.0

    @property
    def n_rows(self):
        """Rows of X."""
        return self.X.shape[0]

    @property
    def n_features(self):
        """Columns of X."""
        return self.X.shape[1]

    @property
    def n_outputs(self):
        """Margins per row: the number of classes for the multinomial loss, else 1."""
        return int(self.y.max()) + 1 if self.loss == "multinomial" else 1

    @property
    def inverse_strength(self):
        """scikit-learn's C: its objective is C * sum(loss) + penalty of strength 1."""
        total = self.l1 + self.l2
        return 1.0 / (self.n_rows * total) if total else np.inf

    @property
    def l1_ratio(self):
        """Share of the L1 term in the penalty."""
        total = self.l1 + self.l2
        return self.l1 / total if total else 0.0


def correlated_gaussian(n_rows, n_features, rng, correlation=0.5):
    """Unit-variance columns, neighbours correlated; filled by chunks."""
    X = np.empty((n_rows, n_features))
    innovation = np.sqrt(1.0 - correlation**2)
    for start in range(0, n_rows, CHUNK_ROWS):
        rows = X[start : start + CHUNK_ROWS]
        rng.standard_normal(out=rows)
        for j in range(1, n_features):
            rows[:, j] *= innovation
            rows[:, j] += correlation * rows[:, j - 1]
    return X


def sparse_truth(n_features, rng, zero_share=1 / 3):
    """Coefficients of alternating size, a share of them exactly zero."""
    truth = rng.standard_normal(n_features) / np.sqrt(n_features)
    truth[rng.permutation(n_features)[: round(zero_share * n_features)]] = 0.0
    return truth


def bernoulli(margin, rng):
    return (rng.random(margin.shape[0]) < 1.0 / (1.0 + np.exp(-margin))).astype(float)


def logistic_gaussian(n_rows, n_features, *, penalty="l2", scale_spread=0.0, seed=0):
    """Binary labels from a logistic model with a third of its coefficients zero.

    ``scale_spread`` is the standard deviation of the logarithm of the column scales:
    0 for standardised columns, 0.5 for scales that differ by factors up to ten.
    """
    rng = np.random.default_rng(seed)
    X = correlated_gaussian(n_rows, n_features, rng)
    y = bernoulli(X @ (3 * sparse_truth(n_features, rng)) - 0.5, rng)
    X *= np.exp(scale_spread * rng.standard_normal(n_features))
    units = "-raw" if scale_spread else ""
    name = f"logistic-{penalty}-{n_rows:.0e}x{n_features}{units}-seed{seed}"
    if penalty == "l2":
        return BenchProblem(name, "logistic", X, y, l2=1.0 / n_rows)
    # About three standard deviations of a null coordinate's gradient: the coefficients
    # that are zero in the model are then zero at the optimum as well.
    return BenchProblem(name, "logistic", X, y, l1=1.2 / np.sqrt(n_rows))


def weak_logistic(n_rows, n_features, *, seed=0):
    """Independent standardised columns, each with a little to say: well conditioned."""
    rng = np.random.default_rng(seed)
    X = correlated_gaussian(n_rows, n_features, rng, correlation=0.0)
    y = bernoulli(X @ (0.7 * sparse_truth(n_features, rng)), rng)
    name = f"logistic-weak-{n_rows:.0e}x{n_features}-seed{seed}"
    return BenchProblem(name, "logistic", X, y, l2=1.0 / n_rows)


def rare_logistic(n_rows=300_000, n_features=30, positive_share=0.0017, *, seed=0):
    """Two positives in a thousand: gradients are small long before the optimum."""
    rng = np.random.default_rng(seed)
    X = correlated_gaussian(n_rows, n_features, rng)
    margin = X @ (3 * sparse_truth(n_features, rng))
    y = bernoulli(margin - np.quantile(margin, 1 - positive_share) - 2.0, rng)
    name = f"logistic-rare-{n_rows:.0e}x{n_features}-seed{seed}"
    return BenchProblem(name, "logistic", X, y, l2=1.0 / n_rows)


def multinomial_gaussian(n_rows, n_features, n_classes, *, seed=0):
    """Class codes from a softmax model with Gumbel noise."""
    rng = np.random.default_rng(seed)
    X = correlated_gaussian(n_rows, n_features, rng)
    truth = np.stack([2 * sparse_truth(n_features, rng) for _ in range(n_classes)])
    score = X @ truth.T + rng.gumbel(size=(n_rows, n_classes))
    name = f"multinomial-l2-{n_rows:.0e}x{n_features}x{n_classes}-seed{seed}"
    y = score.argmax(axis=1).astype(float)
    return BenchProblem(name, "multinomial", X, y, l2=1.0 / n_rows)


def squared_gaussian(n_rows, n_features, *, alpha=0.01, seed=0):
    """Linear model with unit noise; ``alpha = 0`` is ordinary least squares."""
    rng = np.random.default_rng(seed)
    X = correlated_gaussian(n_rows, n_features, rng)
    y = X @ (3 * sparse_truth(n_features, rng)) + rng.standard_normal(n_rows) + 2.0
    kind = "lasso" if alpha else "least-squares"
    name = f"{kind}-{n_rows:.0e}x{n_features}-seed{seed}"
    return BenchProblem(name, "squared", X, y, l1=alpha)


def one_hot(n_rows, n_columns, n_variables, rng, decay=2.5):
    """Indicators of all levels of some variables, as ``OneHotEncoder`` makes them."""
    sizes = np.full(n_variables, 2)
    # A few variables own most of the levels, as occupation and country do in a census.
    shares = rng.dirichlet(np.full(n_variables, 0.5))
    sizes += rng.multinomial(n_columns - sizes.sum(), shares)
    columns = np.empty((n_rows, n_variables), dtype=np.int32)
    first = 0
    for variable, size in enumerate(sizes):
        frequency = 1.0 / np.arange(1, size + 1) ** decay
        columns[:, variable] = first + rng.choice(
            size, n_rows, p=frequency / frequency.sum()
        )
        first += size
    indptr = np.arange(0, n_rows * n_variables + 1, n_variables, dtype=np.int32)
    values = np.ones(n_rows * n_variables)
    return sp.csr_array((values, columns.ravel(), indptr), shape=(n_rows, n_columns))


def one_hot_squared(n_rows, n_columns, n_variables=8, *, alpha=0.0, seed=0):
    """Linear model on indicators; those of one variable add up to the intercept."""
    rng = np.random.default_rng(seed)
    X = one_hot(n_rows, n_columns, n_variables, rng, decay=1.0)
    y = X @ rng.standard_normal(n_columns) + rng.standard_normal(n_rows) + 2.0
    kind = "lasso" if alpha else "least-squares"
    name = f"one-hot-{kind}-{n_rows:.0e}x{n_columns}-seed{seed}"
    return BenchProblem(name, "squared", X, y, l1=alpha)


def one_hot_logistic(n_rows, n_columns, n_variables=8, *, seed=0):
    """Binary labels from a logistic model on indicators."""
    rng = np.random.default_rng(seed)
    X = one_hot(n_rows, n_columns, n_variables, rng, decay=1.0)
    y = bernoulli(X @ (0.5 * rng.standard_normal(n_columns)), rng)
    name = f"one-hot-logistic-{n_rows:.0e}x{n_columns}-seed{seed}"
    return BenchProblem(name, "logistic", X, y, l2=1.0 / n_rows)


def text_like(n_rows, n_columns, n_words=50, *, counts=False, seed=0):
    """Bags of words of Zipf frequencies; rows of unit length, or plain counts."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / (np.arange(n_columns) + 10.0)
    words = rng.choice(n_columns, n_rows * n_words, p=frequency / frequency.sum())
    rows = np.repeat(np.arange(n_rows), n_words)
    X = sp.coo_array(
        (np.ones(len(words)), (rows, words)), shape=(n_rows, n_columns)
    ).tocsr()
    margin = X @ (0.3 * rng.standard_normal(n_columns))
    y = bernoulli(margin - np.median(margin), rng)
    if not counts:
        norms = np.sqrt(X.multiply(X).sum(axis=1))
        X.data /= np.repeat(norms, np.diff(X.indptr))
    kind = "counts" if counts else "unit-rows"
    name = f"text-like-{kind}-{n_rows:.0e}x{n_columns}-seed{seed}"
    return BenchProblem(name, "logistic", X, y, l2=1.0 / n_rows)


def census_like(n_rows=300_000, n_columns=500, n_variables=40, *, seed=0):
    """One-hot categories with Zipf frequencies and 6 % positives, as CSR.

    The rarest levels have a handful of rows; level effects are large, so a default
    first-order solver stops far from the optimum.
    """
    rng = np.random.default_rng(seed)
    X = one_hot(n_rows, n_columns, n_variables, rng)
    margin = X @ (0.8 * rng.standard_normal(n_columns))
    # Shift the margin so that about 6 % of the labels are positive.
    margin -= np.quantile(margin, 0.94) + 0.7
    y = bernoulli(margin, rng)
    name = f"census-like-{n_rows:.0e}x{n_columns}-seed{seed}"
    return BenchProblem(name, "logistic", X, y, l2=1.0 / n_rows)


def load_arrays(data_dir, file_name):
    """Arrays of one ``.npz`` file as a dict; :class:`MissingDataError` without it."""
    if data_dir is None:
        raise MissingDataError(f"needs {file_name} (name its folder with --data-dir)")
    path = Path(data_dir) / file_name
    if not path.exists():
        raise MissingDataError(f"{file_name} is not in the data folder")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def standardise(X):
    """Zero mean and unit variance in place; constant columns stay zero."""
    X -= X.mean(axis=0)
    scale = X.std(axis=0)
    X /= np.where(scale > 0, scale, 1.0)
    return X


def monomials(X, degree):
    """All monomials of total degree 1 .. ``degree``, each once, C-ordered."""
    from sklearn.preprocessing import PolynomialFeatures

    expand = PolynomialFeatures(degree, include_bias=False).fit(X[:1])
    out = np.empty((X.shape[0], expand.n_output_features_))
    for start in range(0, X.shape[0], CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        out[rows] = expand.transform(X[rows])
    return out


def covtype(data_dir=None, *, binary=True, max_rows=None):
    """Forest cover types, standardised columns, C = 1."""
    arrays = load_arrays(data_dir, "covtype.npz")
    X = standardise(np.ascontiguousarray(arrays["X"][:max_rows], dtype=float))
    labels = arrays["y"][:max_rows]
    if binary:
        y, loss = (labels == 2).astype(float), "logistic"
    else:
        y, loss = labels - 1.0, "multinomial"
    kind = "binary" if binary else "7-classes"
    return BenchProblem(f"covtype-{kind}-{len(y)}", loss, X, y, l2=1.0 / len(y))


def household(data_dir=None, *, alpha=0.005, max_rows=None):
    """Voltage from all monomials up to degree 5 of three standardised measurements.

    The 55 standardised columns have a condition number near 7e8. ``alpha = 0.005`` is
    the article's penalty 0.01 on a squared loss without the factor one half.
    """
    arrays = load_arrays(data_dir, "household_power.npz")
    X = standardise(arrays["X"][:max_rows] / arrays["X_scale"])
    y = arrays["y"][:max_rows] / arrays["y_scale"]
    kind = "lasso" if alpha else "least-squares"
    X = standardise(monomials(X, 5))
    return BenchProblem(f"household-{kind}-{len(y)}", "squared", X, y, l1=alpha)


def flights(data_dir=None, *, alpha=0.05, max_rows=None):
    """Arrival delay from 7 standardised numbers and 123 carrier/origin/dest levels."""
    arrays = load_arrays(data_dir, "nycflights13.npz")
    numbers = standardise(arrays["X"][:max_rows].astype(float))
    codes = arrays["cat"][:max_rows]
    sizes = [len(arrays[key]) for key in ("carrier", "origin", "dest")]
    X = np.zeros((len(numbers), 7 + sum(sizes)))
    X[:, :7] = numbers
    rows = np.arange(len(X))
    for column, first in enumerate(7 + np.cumsum([0, *sizes[:-1]])):
        X[rows, first + codes[:, column]] = 1.0
    y = arrays["y"][:max_rows].astype(float)
    return BenchProblem(f"flights-lasso-{len(y)}", "squared", X, y, l1=alpha)


TALL_PROBLEMS = {
    "logistic-l2-n10": partial(logistic_gaussian, 1_000_000, 10, scale_spread=0.5),
    "logistic-l2-n50": partial(logistic_gaussian, 1_000_000, 50, scale_spread=0.5),
    "logistic-l2-n50-std": partial(logistic_gaussian, 1_000_000, 50),
    "logistic-l1-n50": partial(logistic_gaussian, 1_000_000, 50, penalty="l1"),
    "multinomial-5": partial(multinomial_gaussian, 300_000, 20, 5),
    "lasso-n20": partial(squared_gaussian, 1_000_000, 20),
    "lasso-n100": partial(squared_gaussian, 1_000_000, 100),
    "lasso-n500": partial(squared_gaussian, 300_000, 500),
    "least-squares-n50": partial(squared_gaussian, 1_000_000, 50, alpha=0.0),
    "census-like": census_like,
}
"""Synthetic tall problems, built without arguments."""

REAL_PROBLEMS = {
    "covtype": covtype,
    "covtype-7": partial(covtype, binary=False),
    "household": household,
    "household-ls": partial(household, alpha=0.0),
    "flights": flights,
}
"""Real tall problems, built from ``data_dir``."""

ADVERSE_PROBLEMS = {
    "small-logistic": partial(logistic_gaussian, 2_000, 20),
    "small-lasso": partial(squared_gaussian, 2_000, 20),
    "square-logistic": partial(logistic_gaussian, 20_000, 300),
    "weak-logistic-n300": partial(weak_logistic, 200_000, 300),
    "weak-logistic-n1000": partial(weak_logistic, 200_000, 1_000),
    "rare-logistic": rare_logistic,
    "one-hot-ls-n365": partial(one_hot_squared, 300_000, 365),
    "one-hot-ls-n493": partial(one_hot_squared, 1_000_000, 493),
    "one-hot-ls-n1997": partial(one_hot_squared, 1_000_000, 1_997),
    "one-hot-lasso-n1997": partial(one_hot_squared, 1_000_000, 1_997, alpha=0.001),
    "one-hot-logistic-n1997": partial(one_hot_logistic, 1_000_000, 1_997),
    "text-logistic-n5000": partial(text_like, 20_000, 5_000),
    "text-logistic-n20000": partial(text_like, 30_000, 20_000),
    "text-counts-n5000": partial(text_like, 20_000, 5_000, counts=True),
    "text-counts-n20000": partial(text_like, 30_000, 20_000, counts=True),
    "wide-lasso": partial(squared_gaussian, 500, 2_000, alpha=0.1),
    "wide-logistic-l1": partial(logistic_gaussian, 500, 2_000, penalty="l1"),
}
"""Shapes off the promise: few rows, hundreds of columns, one-hot, text, wide data."""

QUICK_PROBLEMS = {
    "quick-logistic-l2": partial(logistic_gaussian, 20_000, 10),
    "quick-logistic-l1": partial(logistic_gaussian, 20_000, 20, penalty="l1"),
    "quick-multinomial": partial(multinomial_gaussian, 10_000, 10, 3),
    "quick-lasso": partial(squared_gaussian, 20_000, 20),
    "quick-least-squares": partial(squared_gaussian, 20_000, 20, alpha=0.0),
    "quick-census": partial(census_like, 10_000, 60, 8),
    "quick-one-hot": partial(one_hot_squared, 5_000, 40, 4),
    "quick-text": partial(text_like, 1_000, 300, 20),
}
"""Small versions of the same shapes for smoke tests."""

GROUPS = {
    "tall": (*TALL_PROBLEMS, *REAL_PROBLEMS),
    "adverse": tuple(ADVERSE_PROBLEMS),
    "quick": tuple(QUICK_PROBLEMS),
}


def make_problem(name, data_dir=None):
    """Build a problem by name; :class:`MissingDataError` if its file is not there."""
    if name in REAL_PROBLEMS:
        return REAL_PROBLEMS[name](data_dir)
    return {**TALL_PROBLEMS, **ADVERSE_PROBLEMS, **QUICK_PROBLEMS}[name]()
