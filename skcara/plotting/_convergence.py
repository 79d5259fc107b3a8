"""ConvergenceDisplay: how a fit went, against reads of the data and seconds."""

from typing import Self

import numpy as np

from skcara.plotting._run import as_list, import_pyplot, read_run

_AGAINST = {"passes": "reads of the full data", "seconds": "seconds"}
_QUANTITIES = ("gap", "criterion", "optimality")
_LABELS = {
    "criterion": "what is compared with tol",
    "optimality": "largest KKT violation",
}
_EPS = np.finfo(np.float64).eps
# The default colours repeat after ten; more lines than that share one.
_MOST_COLORS = 10
# A decade is as high as a word where the axis spans ten of them, more than most do.
_LABEL_ROOM = 10.0


class ConvergenceDisplay:
    """Objective gap and stopping criterion of a fit, round by round.

    All numbers are those of the full data: what was recorded in ``history_`` when the
    stopping rule looked at it. A fit on several targets is drawn with one line each.
    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    history : structured ndarray or list of them
        The attribute ``history_`` of a fitted estimator, one entry per target.
    reference : float or list of float, default=None
        What the objective is compared with, in mean form as ``objective_``. None takes
        the lowest objective of the run, whose own gap is then not known and not drawn.
    reference_name : str, default="minimum"
        What the reference is, for the label of the axis.
    tol : float, default=None
        Drawn where the criterion is drawn.
    name : str, default=None
        Label of the lines.

    Attributes
    ----------
    axes_ : ndarray of shape (n_quantities, n_against)
        The matplotlib axes.
    figure_ : matplotlib figure
        The figure that contains them.
    lines_ : ndarray of shape (n_quantities, n_against) or \
(n_quantities, n_against, n_targets)
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

    def __init__(
        self,
        history,
        *,
        reference=None,
        reference_name="minimum",
        tol=None,
        name=None,
    ):
        self.history = history
        self.reference = reference
        self.reference_name = reference_name
        self.tol = tol
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        reference=None,
        against=("passes", "seconds"),
        quantities=("gap", "criterion"),
        name=None,
        ax=None,
        **line_kw,
    ) -> Self:
        """Draw the run of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of skcara
            Fitted on one target or on several.
        reference : float or list of float, default=None
            Minimum of the objective, in mean form as ``objective_``, one per target.
            None takes the certified lower bound ``objective_ - dual_gap_`` where there
            is one, and otherwise the lowest objective of the run; the label of the
            axis says which.
        against : tuple of {"passes", "seconds"}, default=("passes", "seconds")
            Horizontal axes, one column of panels each.
        quantities : tuple of {"gap", "criterion", "optimality"}, \
default=("gap", "criterion")
            Vertical axes, one row of panels each: the objective minus the reference,
            the number that is compared with ``tol``, and the largest violation of the
            optimality conditions.
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
        reference_name = "minimum"
        if reference is None:
            reference, reference_name = _lower_bound(estimator), "dual bound"
        if name is None:
            name = f"{type(estimator).__name__}, {estimator.solver_}"
        display = cls(
            history,
            reference=reference,
            reference_name=reference_name,
            tol=estimator.tol,
            name=name,
        )
        return display.plot(ax, against=against, quantities=quantities, **line_kw)

    def plot(
        self,
        ax=None,
        *,
        against=("passes", "seconds"),
        quantities=("gap", "criterion"),
        name=None,
        **line_kw,
    ) -> Self:
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
        histories = as_list(self.history)
        _check_names("quantities", quantities, _QUANTITIES)
        _check_names("against", against, _AGAINST)
        self.axes_ = self._make_axes(ax, (len(quantities), len(against)))
        self.figure_ = self.axes_[0, 0].figure
        styles = _styles(self.name if name is None else name, len(histories), line_kw)
        lines = np.empty((*self.axes_.shape, len(histories)), dtype=object)
        for row, quantity in enumerate(quantities):
            values, label = self._values(histories, quantity)
            first = self.axes_[row, 0]
            first.set_ylabel(_common_label(first.get_ylabel(), label))
            for column, horizontal in enumerate(against):
                axes = self.axes_[row, column]
                for target, history in enumerate(histories):
                    (lines[row, column, target],) = axes.plot(
                        history[horizontal], values[target], **styles[target]
                    )
                axes.set(yscale="log")
                if quantity == "criterion" and self.tol:
                    _draw_tol(axes, self.tol)
        for axes, horizontal in zip(self.axes_[-1], against, strict=True):
            axes.set_xlabel(_AGAINST[horizontal])
        self.lines_ = lines if isinstance(self.history, list) else lines[:, :, 0]
        if styles[0]["label"] is not None:
            self.axes_[0, -1].legend()
        if all(len(history) == 1 for history in histories):
            _explain_single_round(self.axes_, histories)
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

    def _values(self, histories, quantity):
        """Return the curve of every target, and the label of their axis."""
        if quantity != "gap":
            return [history[quantity] for history in histories], _LABELS[quantity]
        objectives = [history["objective"] for history in histories]
        if self.reference is None:
            gaps = [objective - objective.min() for objective in objectives]
            drawn = [np.where(gap > 0, gap, np.nan) for gap in gaps]
            return drawn, "objective − lowest of the run"
        references = np.broadcast_to(self.reference, len(histories))
        # What is left of a gap below the rounding of the objective is noise.
        rounding = _EPS * np.maximum(np.abs(references), np.finfo(np.float64).tiny)
        gaps = [
            np.maximum(objective - reference, floor)
            for objective, reference, floor in zip(
                objectives, references, rounding, strict=True
            )
        ]
        return gaps, f"objective − {self.reference_name}"


def _lower_bound(estimator):
    """Certified lower bound of the objective, one per target; None without one."""
    gaps = np.array(as_list(getattr(estimator, "dual_gap_", np.nan)))
    if not np.isfinite(gaps).all():
        return None
    return list(np.array(as_list(estimator.objective_)) - gaps)


def _styles(name, n_targets, line_kw):
    """Keywords of the line of every target."""
    common = {"marker": "o", "markersize": 4}
    if n_targets == 1:
        return [{**common, "label": name, **line_kw}]
    prefix = "" if name is None else f"{name}, "
    if n_targets <= _MOST_COLORS:
        return [
            {**common, "label": f"{prefix}target {target}", **line_kw}
            for target in range(n_targets)
        ]
    common |= {"color": "C0", "alpha": 0.5, "linewidth": 1, "markersize": 3}
    labels = [f"{prefix}{n_targets} targets"] + [None] * (n_targets - 1)
    return [{**common, "label": label, **line_kw} for label in labels]


def _draw_tol(axes, tol):
    """Dotted line at ``tol``; once, however many runs share the axes."""
    if any(line.get_gid() == f"tol {tol}" for line in axes.lines):
        return
    axes.axhline(tol, color="0.5", linestyle=":", linewidth=1, gid=f"tol {tol}")
    axes.annotate(
        "tol",
        (0, tol),
        (2, 1),  # on the left: the runs come down to it on the right
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="left",
        va="bottom",
        color="0.5",
    )
    # Room for the word where the line would be the topmost thing in the axes.
    axes.update_datalim([(0, _LABEL_ROOM * tol)], updatex=False)
    axes.autoscale_view()


def _common_label(old, new):
    """Label of an axis that two runs share, true for both."""
    if old in ("", new):
        return new
    return "objective − its reference"


def _explain_single_round(axes, histories):
    """Say that a lone dot is the whole story, and show how far it is from the start."""
    passes = max(history["passes"][0] for history in histories)
    times = "once" if passes == 1 else f"{passes:.3g} times"
    for panel in axes.flat:
        panel.set_xlim(left=0)
    axes[0, 0].annotate(
        f"a single round: data read {times}, no curve to draw",
        (0.5, 0.5),
        xycoords="axes fraction",
        ha="center",
        va="center",
        fontsize="small",
        color="0.4",
    )


def _check_names(parameter, names, valid):
    unknown = [name for name in names if name not in valid]
    if isinstance(names, str) or unknown or not len(names):
        raise ValueError(
            f"{parameter} must be a tuple of names from {tuple(valid)}, got {names!r}."
        )
