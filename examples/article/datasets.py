"""Data of the article's experiments: synthetic sets, and real ones preprocessed.

Real sets come from ``.npz`` files in a folder given by the user. Where the folder or a
file is missing, a synthetic stand-in of the same shape takes its place and says so in
its ``source``.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

CHUNK_ROWS = 65_536


# ----------------------------------------------------------------- logistic regression
def set_a(n_rows, rng):
    """Square [-1, 1]^2 cut by a sine curve."""
    X = rng.uniform(-1, 1, size=(n_rows, 2))
    return X, (X[:, 1] > np.sin(np.pi * X[:, 0])).astype(float)


def set_b(n_rows, rng, n_features=2):
    """Shifted exponentials, scale 2; positive where all coordinates are negative."""
    X = rng.exponential(2.0, size=(n_rows, n_features)) - 5.0
    return X, (X < 0).all(axis=1).astype(float)


def set_c_code(n_rows, rng):
    """The article's code: the labels are a half-plane, so no finite minimiser exists.

    Its formula 1 / (1 - exp(-z)) is negative or above one, hence the noise is lost.
    """
    X = rng.uniform(-1, 1, size=(n_rows, 2))
    return X, (X @ [-5.0, 2.0] < 0).astype(float)


def set_c_true(n_rows, rng):
    """The article's text: a logistic model with coefficients (5, -2)."""
    X = rng.uniform(-1, 1, size=(n_rows, 2))
    sigmoid = 1.0 / (1.0 + np.exp(-X @ [-5.0, 2.0]))
    return X, (rng.random(n_rows) > sigmoid).astype(float)


LOGISTIC_SETS = {
    "A": set_a,
    "B": set_b,
    "C_code": set_c_code,
    "C_true": set_c_true,
}


def uniform_start(n_features, rng):
    """The article's random starting point."""
    return rng.uniform(-1, 1, n_features) / np.sqrt(n_features)


# ------------------------------------------------------------- least squares, Dataset A
def sparse_least_squares(n_rows=1_000_000, n_features=500, seed=1):
    """Dataset A of Nutini et al. at the article's size, stored sparse.

    Entries are kept with probability ``10 ln(n_rows) / n_rows``, so that a dense array
    would hold 4 GB of zeros for 69 000 numbers. The article's generator is MATLAB's:
    this is the same distribution, not the same draw.
    """
    rng = np.random.default_rng(seed)
    density = 10 * np.log(n_rows) / n_rows
    counts = rng.binomial(n_rows, density, size=n_features)
    scales = 10 * rng.standard_normal(n_features)
    columns, rows, values = [], [], []
    for j, count in enumerate(counts):
        rows.append(rng.choice(n_rows, size=count, replace=False))
        columns.append(np.full(count, j))
        values.append(scales[j] * (1 + rng.standard_normal(count)))
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    X = sp.csr_array(entries, shape=(n_rows, n_features))
    truth = rng.standard_normal(n_features) * (rng.random(n_features) < 0.1)
    return X, X @ truth + rng.standard_normal(n_rows)


# -------------------------------------------------------------------------------- LASSO
@dataclass(frozen=True)
class LassoSet:
    """One LASSO problem of the article, ready to fit without intercept.

    Attributes
    ----------
    name, source : str
        ``source`` says which data these are.
    X : ndarray of shape (n_rows, n_components + 1)
        Principal components and, last, a column of ones.
    y : ndarray of shape (n_rows,)
    explained : float
        Share of the variance in the components.
    """

    name: str
    source: str
    X: np.ndarray
    y: np.ndarray
    explained: float


def monomial_exponents(n_features, degree):
    """Index tuples of the distinct monomials of degree 1 .. ``degree``."""
    return [
        chosen
        for power in range(1, degree + 1)
        for chosen in combinations_with_replacement(range(n_features), power)
    ]


def multiplicity(chosen):
    """How often a monomial occurs in the tensor power: orderings of its factors."""
    count = factorial(len(chosen))
    for feature in set(chosen):
        count //= factorial(chosen.count(feature))
    return count


def monomials(X, exponents):
    """Values of the monomials on the rows of X."""
    out = np.empty((X.shape[0], len(exponents)))
    for column, chosen in enumerate(exponents):
        np.prod(X[:, list(chosen)], axis=1, out=out[:, column])
    return out


def tensor_power_components(X, degree, n_components):
    r"""Principal components of the standardised tensor powers of X.

    The tensor powers :math:`X, X \otimes X, \dots` repeat every monomial once per
    ordering of its factors. Equal columns add up in the covariance, so one copy scaled
    by the square root of its multiplicity has the same principal components; neither
    the powers nor all monomials of all rows are ever in memory.

    Returns
    -------
    components : ndarray of shape (n_rows, n_components)
    explained : float
        Share of the variance that they carry.
    """
    exponents = monomial_exponents(X.shape[1], degree)
    copies = np.sqrt([multiplicity(chosen) for chosen in exponents])
    chunks = [slice(s, s + CHUNK_ROWS) for s in range(0, len(X), CHUNK_ROWS)]
    mean = sum(monomials(X[rows], exponents).sum(axis=0) for rows in chunks) / len(X)
    second = np.zeros((len(exponents), len(exponents)))
    for rows in chunks:
        centred = monomials(X[rows], exponents) - mean
        second += centred.T @ centred
    scale = copies / np.sqrt(np.diag(second) / len(X))
    values, vectors = np.linalg.eigh(second / len(X) * np.outer(scale, scale))
    leading = vectors[:, ::-1][:, :n_components]
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    largest = np.abs(leading).argmax(axis=0)
    leading = leading * np.sign(leading[largest, np.arange(n_components)])
    components = np.empty((len(X), n_components))
    for rows in chunks:
        components[rows] = (monomials(X[rows], exponents) - mean) @ (
            scale[:, None] * leading
        )
    return components, float(values[::-1][:n_components].sum() / values.sum())


def read_arrays(data_dir, file_name):
    """Arrays of a ``.npz`` file with their scales applied, or None without the file."""
    path = None if data_dir is None else Path(data_dir) / file_name
    if path is None or not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        X = archive["X"] / archive["X_scale"] if "X_scale" in archive else archive["X"]
        y = archive["y"] / archive["y_scale"] if "y_scale" in archive else archive["y"]
    return np.asarray(X, dtype=float), np.asarray(y, dtype=float)


@dataclass(frozen=True)
class LassoRecipe:
    """How one LASSO set is made: file, tensor power, components, target cut-off."""

    file_name: str
    degree: int
    n_components: int
    n_features: int
    n_rows: int
    largest_target: float = np.inf


LASSO_RECIPES = {
    "household": LassoRecipe("household_power.npz", 5, 7, 3, 2_049_258),
    "bathymetry": LassoRecipe("baja_bathymetry.npz", 5, 7, 2, 82_970),
    "taxi": LassoRecipe("nyc_yellow_taxi_sample.npz", 3, 8, 5, 354_221, 10_000.0),
}
"""``bathymetry`` (heights over longitude and latitude) stands for the article's road
network, ``taxi`` (zone centroids) for its trips with exact coordinates."""


def synthetic_measurements(recipe, n_rows, rng):
    """Correlated positive features and a target with a large mean, as the real sets."""
    factor = rng.gamma(2.0, size=(n_rows, 1))
    X = factor + 0.3 * rng.gamma(2.0, size=(n_rows, recipe.n_features))
    y = 240.0 - 1.5 * factor[:, 0] + rng.standard_normal(n_rows)
    return X, y


def make_lasso_set(name, data_dir=None, max_rows=None, seed=0):
    """A LASSO set by name, from its file or, without it, from a synthetic stand-in."""
    recipe = LASSO_RECIPES[name]
    arrays = read_arrays(data_dir, recipe.file_name)
    if arrays is None:
        n_rows = min(max_rows or recipe.n_rows, recipe.n_rows)
        X, y = synthetic_measurements(recipe, n_rows, np.random.default_rng(seed))
        source = "synthetic stand-in"
    else:
        X, y = arrays
        if max_rows is not None and max_rows < len(X):
            # Every k-th row: the files are ordered in time or space.
            stride = len(X) // max_rows
            X, y = X[::stride], y[::stride]
        source = recipe.file_name
    components, explained = tensor_power_components(
        X, recipe.degree, recipe.n_components
    )
    # The article removes outliers after the components were computed.
    kept = y <= recipe.largest_target
    X = np.hstack([components[kept], np.ones((int(kept.sum()), 1))])
    return LassoSet(name, source, X, y[kept], explained)
