"""Observers of the rounds of a fit: printed lines and scikit-learn's callbacks."""

from skcara._sklearn_compat import has_callbacks

_HEADER = (
    f"{'round':>6} {'passes':>9} {'seconds':>9} {'objective':>16} "
    f"{'optimality':>11} {'criterion':>11} {'support':>8} {'steps':>7}"
)


def print_round(record, number: int | None = None) -> None:
    """Print one aligned line per round; ``number`` is that of the target, if any."""
    if record["round"] == 0 and not number:
        print(_HEADER if number is None else f"{'target':>6} {_HEADER}")
    print(
        "" if number is None else f"{number:>6d} ",
        f"{record['round']:>6d} {record['passes']:>9.2f} {record['seconds']:>9.3f} "
        f"{record['objective']:>16.9g} {record['optimality']:>11.3e} "
        f"{record['criterion']:>11.3e} {record['support_size']:>8d} "
        f"{record['inner_steps']:>7d}",
        sep="",
    )


class FitObserver:
    """Passes the rounds of one fit on to ``verbose`` and to callbacks.

    One leaf of scikit-learn's task tree is one round, because a round is what reads
    all the data; callbacks that ask to stop are obeyed after the round.

    Parameters
    ----------
    estimator : estimator
        Has the parameters ``verbose`` and ``max_iter``.
    X, y, sample_weight
        What ``fit`` was given.
    n_problems : int
        Number of problems that this fit solves.
    """

    def __init__(self, estimator, X, y, sample_weight, *, n_problems):
        self._estimator = estimator
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._n_problems = n_problems
        self._max_rounds = n_problems * (estimator.max_iter + 1)
        self._context = None
        # Those of the last round, for whoever asks after it.
        self._attributes = dict

    def __enter__(self):
        if has_callbacks(self._estimator):
            self._context = self._estimator._init_callback_context(
                max_subtasks=self._max_rounds
            )
            self._context.call_on_fit_task_begin(**self._data)
        return self

    def __exit__(self, exception_type, exception, traceback):
        if self._context is not None and exception_type is None:
            self._context.call_on_fit_task_end(
                **self._data, reconstruction_attributes=self._attributes
            )

    @property
    def is_heard(self) -> bool:
        """Whether anybody wants to know of rounds: to tell nobody takes time, too."""
        return bool(self._estimator.verbose) or self._context is not None

    def on_round(self, number, record, attributes) -> bool:
        """Tell everybody about a round; return whether somebody asks to stop.

        ``number`` is that of the problem, ``record`` an entry of the history, and
        ``attributes`` is a callable that returns the fitted attributes with which the
        estimator could predict as if the fit stopped here.
        """
        if self._estimator.verbose:
            print_round(record, number if self._n_problems > 1 else None)
        return self._tell_callbacks("round", attributes)

    def _tell_callbacks(self, task_name, attributes) -> bool:
        if self._context is None:
            return False
        self._attributes = attributes
        leaf = self._context.subcontext(task_name=task_name)
        leaf.call_on_fit_task_begin(**self._data)
        return bool(
            leaf.call_on_fit_task_end(
                **self._data, reconstruction_attributes=attributes
            )
        )
