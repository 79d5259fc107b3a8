"""ConvergenceDisplay: how a fit went, against reads of the data and seconds."""

import numpy as np

from skcara.plotting._run import import_pyplot, read_run

_AGAINST = {"passes": "reads of the full data", "seconds": "seconds"}
_QUANTITIES = ("gap", "optimality")
_EPS = np.finfo(np.float64).eps


class ConvergenceDisplay:
    """Objective gap and optimality of a fit, round by round.

    Both are those of the full data: what was recorded in ``history_`` when the stopping
    rule looked at it. Make it with :meth:`from_estimator`.

    Parameters
    ----------
    history : structured ndarray
        The attribute ``history_`` of a fitted estimator.
    reference : float, default=None
        Minimum of the objective, in mean form as ``objective_``. None takes the lowest
        objective of the run, whose own gap is then not known and not drawn.
    name : str, default=None
        Label of the lines.

    Attributes
    ----------
    axes_ : ndarray of shape (n_quantities, n_against)
        The matplotlib axes.
    figure_ : matplotlib figure
        The figure that contains them.
    lines_ : ndarray of shape (n_quantities, n_against)
        The curves.

    See Also
    --------
    MeasureDisplay : The rows and weights of the last reduced measure.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skcara import CaLogisticRegression, ConvergenceDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CaLogisticRegression(solver="cagd").fit(scale(X), y)
    >>> ConvergenceDisplay.from_estimator(model)
    <...>
    >>> plt.show()
    """

    def __init__(self, history, *, reference=None, name=None):
        self.history = history
        self.reference = reference
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        reference=None,
        against=("passes", "seconds"),
        quantities=("gap", "optimality"),
        name=None,
        ax=None,
        **line_kw,
    ):
        """Draw the run of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of skcara
            Fitted on one target.
        reference : float, default=None
            Minimum of the objective, in mean form as ``objective_``. None takes the
            certified lower bound ``objective_ - dual_gap_`` where there is one, and
            otherwise the lowest objective of the run.
        against : tuple of {"passes", "seconds"}, default=("passes", "seconds")
            Horizontal axes, one column of panels each.
        quantities : tuple of {"gap", "optimality"}, default=("gap", "optimality")
            Vertical axes, one row of panels each.
        name : str, default=None
            Label of the lines; None takes class and solver.
        ax : matplotlib axes or array of them, default=None
            Where to draw: the ``axes_`` of another display to compare two runs. None
            makes a new figure.
        **line_kw : dict
            Passed on to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ConvergenceDisplay
        """
        history = read_run(estimator, "history_", cls.__name__)
        if reference is None:
            gap = getattr(estimator, "dual_gap_", np.nan)
            reference = estimator.objective_ - gap if np.isfinite(gap) else None
        if name is None:
            name = f"{type(estimator).__name__}, {estimator.solver_}"
        display = cls(history, reference=reference, name=name)
        return display.plot(ax, against=against, quantities=quantities, **line_kw)

    def plot(
        self,
        ax=None,
        *,
        against=("passes", "seconds"),
        quantities=("gap", "optimality"),
        name=None,
        **line_kw,
    ):
        """Draw the run.

        Parameters
        ----------
        ax, against, quantities, name, **line_kw
            As in :meth:`from_estimator`.

        Returns
        -------
        display : ConvergenceDisplay
            With the attributes that are set by drawing.
        """
        _check_names("against", against, _AGAINST)
        _check_names("quantities", quantities, _QUANTITIES)
        self.axes_ = self._make_axes(ax, (len(quantities), len(against)))
        self.figure_ = self.axes_[0, 0].figure
        line_kw = {
            "marker": "o",
            "markersize": 4,
            "label": self.name if name is None else name,
            **line_kw,
        }
        self.lines_ = np.empty(self.axes_.shape, dtype=object)
        for row, quantity in enumerate(quantities):
            values, label = self._values(quantity)
            for column, horizontal in enumerate(against):
                axes = self.axes_[row, column]
                (line,) = axes.plot(self.history[horizontal], values, **line_kw)
                self.lines_[row, column] = line
                axes.set(yscale="log")
                if row == len(quantities) - 1:
                    axes.set_xlabel(_AGAINST[horizontal])
                if column == 0:
                    axes.set_ylabel(label)
        if line_kw["label"] is not None:
            self.axes_[0, -1].legend()
        return self

    def _make_axes(self, ax, shape):
        if ax is None:
            plt = import_pyplot(type(self).__name__)
            n_rows, n_columns = shape
            _, ax = plt.subplots(
                n_rows,
                n_columns,
                sharex="col",
                sharey="row",
                squeeze=False,
                figsize=(4.2 * n_columns, 2.6 * n_rows + 0.4),
                layout="constrained",
            )
        axes = np.atleast_2d(np.array(ax, dtype=object))
        if axes.size != shape[0] * shape[1]:
            raise ValueError(
                f"{type(self).__name__} needs {shape[0]} x {shape[1]} axes for the "
                f"chosen quantities and horizontal axes, got {axes.size}."
            )
        return axes.reshape(shape)

    def _values(self, quantity):
        if quantity == "optimality":
            return self.history["optimality"], "largest KKT violation"
        objective = self.history["objective"]
        if self.reference is None:
            gap = objective - objective.min()
            return np.where(gap > 0, gap, np.nan), "objective − lowest of the run"
        # What is left of a gap below the rounding of the objective is noise.
        rounding = _EPS * max(abs(self.reference), np.finfo(np.float64).tiny)
        return np.maximum(objective - self.reference, rounding), "objective − minimum"


def _check_names(parameter, names, valid):
    unknown = [name for name in names if name not in valid]
    if isinstance(names, str) or unknown or not len(names):
        raise ValueError(
            f"{parameter} must be a tuple of names from {tuple(valid)}, got {names!r}."
        )
