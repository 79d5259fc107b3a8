"""Sources of the campaign: the fits of `campaign_problems`, read from elsewhere.

The rows are cut at random into chunks, empty ones and single rows included, and each
chunk may come in a format of its own; or they are in parquet files. What comes out is
judged as if the rows had been in memory.
"""

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from campaign_fits import examine
from campaign_problems import chance, draw_fit, pick
from campaign_report import Report
from scipy import sparse

from skcara.io import from_chunks, from_parquet

# Keeps the numbers of sources apart from those of other kinds.
SOURCES = 3
# Rows are written to files in one of this many problems: it takes longer.
FILES_SHARE = 0.1


def draw_cuts(rng, n_rows):
    """Ascending row numbers from 0 to ``n_rows``, some of them twice."""
    inner = rng.integers(0, n_rows + 1, pick(rng, [0, 1, 3, 10]))
    return [0, *sorted(inner.tolist()), n_rows]


def as_chunks(rng, fit):
    """A function that yields the rows of a fit in chunks."""
    X = fit.X.tocsr() if sparse.issparse(fit.X) else fit.X
    columns = [X, fit.y, fit.sample_weight][: 2 if fit.sample_weight is None else 3]
    cuts = draw_cuts(rng, X.shape[0])
    is_mixed = sparse.issparse(X) and chance(rng, 0.3)

    def open_chunks():
        for number, (first, last) in enumerate(pairwise(cuts)):
            rows, *others = (column[first:last] for column in columns)
            if is_mixed and number % 2:
                rows = rows.tocsc()
            yield rows, *others

    return open_chunks


def write_files(rng, fit, folder):
    """The rows in parquet files; returns what to read them with."""
    import pandas as pd

    frame = pd.DataFrame({f"x{j}": fit.X[:, j] for j in range(fit.X.shape[1])})
    frame["target"] = fit.y
    if fit.sample_weight is not None:
        frame["weight"] = fit.sample_weight
    cuts = draw_cuts(rng, len(frame))
    for number, (first, last) in enumerate(pairwise(cuts)):
        part = frame.iloc[first:last]
        size = pick(rng, [1000, 100_000])
        part.to_parquet(Path(folder, f"{number:02d}.parquet"), row_group_size=size)
    return {
        "paths": folder,
        "target": "target",
        "weight": None if fit.sample_weight is None else "weight",
        "cache": pick(rng, ["auto", True, False]),
    }


def fits_into_files(fit):
    """Whether parquet has types for all of it."""
    return not sparse.issparse(fit.X) and fit.X.dtype.itemsize <= 8 and fit.y.ndim == 1


def examine_source(seed) -> Report:
    """Draw a fit, cut its rows, fit and judge."""
    rng = np.random.default_rng([SOURCES, seed])
    fit = draw_fit(seed)
    if fits_into_files(fit) and chance(rng, FILES_SHARE):
        with tempfile.TemporaryDirectory() as folder:
            return examine(fit, from_parquet(**write_files(rng, fit, folder)))
    return examine(fit, from_chunks(as_chunks(rng, fit)))
