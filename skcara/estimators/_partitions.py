"""Folds of the plain K-fold splitters, as labels of the rows.

The test sets of a K-fold are disjoint and contain all rows, and each training set is
the rest. One small integer for each row says everything; the row numbers of the
training sets, which ``split`` would make, take longer to write than ``X`` to read.
"""

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from skcara._sklearn_compat import kfold_test_sets
from skcara.data import ContiguousLabels

# Class codes are dealt out in parts, so that masks of all rows are never made.
_CHUNK_ROWS = 2**16


def partition_labels(splitter, n_rows: int, codes):
    """Fold that each row is tested in, None for splitters of other kinds.

    Parameters
    ----------
    splitter : splitter of scikit-learn
    n_rows : int
    codes : ndarray of int of shape (n_rows,) or None
        Class of each row; None if there are no classes.

    Returns
    -------
    labels : labels or None
    """
    n_folds = getattr(splitter, "n_splits", n_rows + 1)
    if n_folds > n_rows:
        return None
    if type(splitter) is KFold:
        if not splitter.shuffle:
            return ContiguousLabels(_shares(n_rows, n_folds))
        labels = np.empty(n_rows, dtype=np.min_scalar_type(n_folds))
        for fold, rows in enumerate(kfold_test_sets(splitter, n_rows)):
            labels[rows] = fold
        return labels
    if type(splitter) is StratifiedKFold and not splitter.shuffle and codes is not None:
        return _stratified_labels(codes, n_folds)
    return None


def _shares(n_rows, n_folds):
    """Rows of each fold, the first ones one more if they do not divide evenly."""
    return [(n_rows - fold - 1) // n_folds + 1 for fold in range(n_folds)]


def _stratified_labels(codes, n_folds):
    """Labels of a stratified K-fold; None if a class has fewer rows than folds.

    The rows are sorted by class, the classes by their first rows, and dealt out one by
    one; that says how many rows of a class a fold gets. In the order of the rows, the
    first of a class go to the first fold.
    """
    parts = [
        slice(start, start + _CHUNK_ROWS) for start in range(0, len(codes), _CHUNK_ROWS)
    ]
    counts, order = np.zeros(int(codes.max()) + 1, dtype=np.int64), []
    for part in parts:
        found = np.bincount(codes[part], minlength=len(counts))
        new = np.flatnonzero((counts == 0) & (found > 0))
        first = [np.argmax(codes[part] == code) for code in new]
        order += new[np.argsort(first)].tolist()
        counts += found
    if counts[order].min() < n_folds:
        # scikit-learn has words for this.
        return None
    folds_of, dealt = {}, 0
    for code in order:
        shares = np.array(_shares(int(counts[code]), n_folds))
        folds_of[code] = ContiguousLabels(np.roll(shares, dealt % n_folds))
        dealt += int(counts[code])
    labels = np.empty(len(codes), dtype=np.min_scalar_type(n_folds))
    n_seen = dict.fromkeys(order, 0)
    for part in parts:
        own = labels[part]
        for code in order:
            rows = np.flatnonzero(codes[part] == code)
            seen = n_seen[code]
            own[rows] = folds_of[code][seen : seen + len(rows)]
            n_seen[code] = seen + len(rows)
    return labels
