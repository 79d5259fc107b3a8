"""Observer of a search: printed lines and scikit-learn's callbacks."""

import time

import numpy as np

from skcara.estimators._progress import FitObserver

# Reads of a search, see :mod:`skcara.solvers.paths`.
_MAX_READS = 3
_HEADER = (
    f"{'fold':>9} {'reads':>6} {'seconds':>9} {'best alpha':>13} {'l1_ratio':>9} "
    f"{'mean error':>14}"
)
_READ_HEADER = f"{'reads':>6} {'seconds':>9} {'fits done':>17} {'optimality':>11}"


class SearchObserver(FitObserver):
    """Passes the steps of a search on to ``verbose`` and to callbacks.

    One leaf of scikit-learn's task tree is a read of the data or a fold.

    Parameters
    ----------
    estimator : estimator
        Has the parameters ``verbose`` and ``max_iter``.
    X, y, sample_weight
        What ``fit`` was given.
    n_folds : int
    """

    def __init__(self, estimator, X, y, sample_weight, *, n_folds):
        super().__init__(estimator, X, y, sample_weight, n_problems=1)
        self._n_folds, self._started = n_folds, time.perf_counter()
        self._max_rounds = n_folds + _MAX_READS
        if estimator.verbose:
            print(_HEADER)

    def on_step(self, state, passes: float, attributes) -> bool:
        """Tell everybody about a read or a fold; return whether somebody asks to stop.

        Parameters
        ----------
        state : SearchState
        passes : float
            Reads so far.
        attributes : callable
            Returns the fitted attributes with which the estimator could predict as if
            the search stopped here.
        """
        n_done = len(state.errors)
        if self._estimator.verbose and n_done:
            ratio, place = state.best()
            l1_ratio, alphas = state.grids[ratio]
            error = np.mean(state.errors, axis=0)[ratio, place]
            seconds = time.perf_counter() - self._started
            print(
                f"{n_done:>4d} / {self._n_folds:<2d} {passes:>6.0f} {seconds:>9.3f} "
                f"{alphas[place]:>13.6g} {l1_ratio:>9.4g} {error:>14.8g}"
            )
        return self._tell_callbacks("fold" if n_done else "read", attributes)


class ReadObserver(FitObserver):
    """Passes the reads of a search on to ``verbose`` and to callbacks.

    One leaf of scikit-learn's task tree is a read of the data, during the search or
    during the final fit.
    """

    def __init__(self, estimator, X, y, sample_weight):
        # One round for each read of the search, and those of the final fit.
        super().__init__(estimator, X, y, sample_weight, n_problems=2)
        self._n_problems, self._started = 1, time.perf_counter()
        if estimator.verbose:
            print(_READ_HEADER)

    def on_read(self, current, passes: float, attributes) -> bool:
        """Tell everybody about a read; return whether somebody asks to stop.

        Parameters
        ----------
        current : SearchRound
        passes : float
            Reads so far.
        attributes : callable
            Returns the fitted attributes with which the estimator could predict as if
            the search stopped here.
        """
        if self._estimator.verbose:
            seconds = time.perf_counter() - self._started
            print(
                f"{passes:>6.0f} {seconds:>9.3f} {current.n_done:>7d} / "
                f"{len(current.columns):<7d} {current.optimality:>11.3e}"
            )
        return self._tell_callbacks("read", attributes)
