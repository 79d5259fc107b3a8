"""PathDisplay: coefficients against the penalty."""

from typing import Self

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from skcara.plotting._penalty_axis import (
    check_penalties,
    mark_chosen,
    set_penalty_axis,
)
from skcara.plotting._run import import_pyplot

# Ticks of the axis that counts coefficients: as many as fit above a panel.
_N_COUNTS = 7


class PathDisplay:
    """Coefficients of a linear model against its penalty.

    Strong penalties are on the left. Circles on the zero line mark where a coefficient
    enters, leaves or changes its sign, and the axis above counts those that are not
    zero. The curves that reach furthest are coloured and named. Make it with
    :meth:`from_path` or :meth:`from_estimator`.

    Parameters
    ----------
    penalties : array-like of shape (n_penalties,)
        Values of ``alpha`` or ``C``, positive, in ascending or descending order.
    coefs : array-like of shape (n_outputs, n_penalties, n_features)
        Coefficients without intercepts; an output is a target or a class.
    penalty_name : {"alpha", "C"}, default="alpha"
        What the penalties are.
    feature_names : list of str, default=None
        Names of the columns; None numbers them.
    output_names : list of str, default=None
        Titles of the panels; None gives none.
    chosen : float, default=None
        A penalty to mark.
    coef_label : str, default="coefficient"
        Label of the vertical axis.

    Attributes
    ----------
    axes_ : ndarray of shape (n_outputs,)
        The matplotlib axes, one panel per output.
    figure_ : matplotlib figure
        The figure that contains them.
    lines_ : ndarray of shape (n_outputs, n_features)
        The curves.
    crossings_ : ndarray of shape (n_outputs, n_features)
        The circles on the zero line.

    See Also
    --------
    ValidationDisplay : Scores of cross-validation against the penalty.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import lasso_path
    >>> from skcara import PathDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> alphas, coefs, _ = lasso_path(X, y - y.mean())
    >>> PathDisplay.from_path(alphas, coefs, feature_names=X.columns)
    <...>
    >>> plt.show()
    """

    def __init__(
        self,
        penalties,
        coefs,
        *,
        penalty_name="alpha",
        feature_names=None,
        output_names=None,
        chosen=None,
        coef_label="coefficient",
    ):
        self.penalties = penalties
        self.coefs = coefs
        self.penalty_name = penalty_name
        self.feature_names = feature_names
        self.output_names = output_names
        self.chosen = chosen
        self.coef_label = coef_label

    @classmethod
    def from_path(
        cls,
        penalties,
        coefs,
        *,
        penalty_name="alpha",
        fit_intercept=True,
        feature_names=None,
        output_names=None,
        chosen=None,
        n_named=6,
        ax=None,
        **line_kw,
    ) -> Self:
        """Draw what a path function returned.

        Parameters
        ----------
        penalties : array-like of shape (n_penalties,)
            The values of ``alpha`` or ``C``.
        coefs : array-like
            Of ``lasso_path`` with shape (n_features, n_alphas) or (n_targets,
            n_features, n_alphas); of ``logistic_path`` with shape (n_cs, n_classes or
            1, n_features), with one column more for the intercept.
        penalty_name : {"alpha", "C"}, default="alpha"
            Which of the two functions it was.
        fit_intercept : bool, default=True
            As given to ``logistic_path``: the last column is then the intercept, which
            is not penalised and not drawn. The other function returns none.
        feature_names, output_names : list of str, default=None
            Names of the columns and titles of the panels.
        chosen : float, default=None
            A penalty to mark.
        n_named : int, default=6
            How many curves to colour and name.
        ax : matplotlib axes or array of them, default=None
            Where to draw, one panel per target or class; None makes a new figure.
        **line_kw : dict
            Passed on to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : PathDisplay
        """
        coefs = np.asarray(coefs, dtype=np.float64)
        if penalty_name == "C":
            coefs = np.moveaxis(coefs, 1, 0)
            coefs = coefs[..., :-1] if fit_intercept else coefs
        else:
            coefs = np.moveaxis(np.atleast_3d(coefs.T), -1, 0)
        display = cls(
            penalties,
            coefs,
            penalty_name=penalty_name,
            feature_names=feature_names,
            output_names=output_names,
            chosen=chosen,
        )
        return display.plot(ax, n_named=n_named, **line_kw)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        y=None,
        *,
        sample_weight=None,
        n_named=6,
        ax=None,
        **line_kw,
    ) -> Self:
        """Draw the path along which a search has chosen.

        Parameters
        ----------
        estimator : fitted CaLassoCV or CaLogisticRegressionCV
            Of the second, the mean over the folds of ``coefs_paths_`` is drawn, at the
            chosen ``l1_ratio_``.
        X, y, sample_weight : array-like, default=None
            The data of the fit. CaLassoCV keeps no path, so one is computed from them
            at its ``alphas_``; they are not needed otherwise.
        n_named, ax, **line_kw
            As in :meth:`from_path`.

        Returns
        -------
        display : PathDisplay
        """
        check_is_fitted(estimator)
        names = getattr(estimator, "feature_names_in_", None)
        if hasattr(estimator, "coefs_paths_"):
            display = cls(**_mean_path(estimator), feature_names=names)
        elif hasattr(estimator, "mse_path_"):
            path = _lasso_path(estimator, X, y, sample_weight)
            display = cls(**path, feature_names=names)
        else:
            raise TypeError(
                f"{cls.__name__} needs a fitted CaLassoCV or CaLogisticRegressionCV, "
                f"got {type(estimator).__name__}. Of a pipeline pass its last step, "
                "pipeline[-1]; for any other path use from_path."
            )
        return display.plot(ax, n_named=n_named, **line_kw)

    def plot(self, ax=None, *, n_named=6, **line_kw) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax, n_named, **line_kw
            As in :meth:`from_path`.

        Returns
        -------
        display : PathDisplay
            With the attributes that are set by drawing.
        """
        penalties = check_penalties(self.penalties, self.penalty_name)
        coefs = np.asarray(self.coefs, dtype=np.float64)
        n_outputs, _, n_features = coefs.shape
        self.axes_ = self._make_axes(ax, n_outputs)
        self.figure_ = self.axes_[0].figure
        self.lines_ = np.empty((n_outputs, n_features), dtype=object)
        self.crossings_ = np.empty_like(self.lines_)
        styles = self._styles(np.abs(coefs).max(axis=(0, 1)), n_named)
        for output, axes in enumerate(self.axes_):
            axes.axhline(0, color="0.3", linewidth=0.8)
            for feature, style in enumerate(styles):
                curve = coefs[output, :, feature]
                (line,) = axes.plot(penalties, curve, **{**style, **line_kw})
                self.lines_[output, feature] = line
                self.crossings_[output, feature] = _mark_zeros(
                    axes, zero_crossings(penalties, curve), line
                )
            set_penalty_axis(axes, penalties, self.penalty_name)
            if (coefs[output] == 0).any():
                _count_nonzero(axes, penalties, coefs[output])
            if self.chosen is not None:
                mark_chosen(axes, self.chosen, self.penalty_name)
            if self.output_names is not None:
                axes.set_title(self.output_names[output])
        self.axes_[0].set_ylabel(self.coef_label)
        self.axes_[-1].legend(fontsize="small")
        return self

    def _make_axes(self, ax, n_outputs):
        if ax is None:
            plt = import_pyplot(type(self).__name__)
            _, ax = plt.subplots(
                1,
                n_outputs,
                sharey=True,
                figsize=(6 if n_outputs == 1 else 3.6 * n_outputs, 4.5),
                layout="constrained",
            )
        axes = np.atleast_1d(np.array(ax, dtype=object)).ravel()
        if len(axes) != n_outputs:
            raise ValueError(
                f"{type(self).__name__} needs {n_outputs} axes, one per target or "
                f"class, got {len(axes)}."
            )
        return axes

    def _styles(self, reach, n_named):
        """Keywords of every curve: colours and names for those that reach furthest."""
        n_features = len(reach)
        names = self.feature_names
        if names is None:
            names = [f"column {feature}" for feature in range(n_features)]
        styles = [
            {"color": "0.75", "linewidth": 1, "zorder": 1} for _ in range(n_features)
        ]
        furthest = np.argsort(-reach, kind="stable")[:n_named]
        for rank, feature in enumerate(furthest):
            styles[feature] = {
                "color": f"C{rank}",
                "label": str(names[feature]),
                "zorder": 2,
            }
        return styles


def zero_crossings(penalties, curve):
    """Penalties at which a coefficient enters, leaves or changes its sign.

    Between two penalties of the grid the curve is taken as a line over the logarithm
    of the penalty; where it is exactly zero at one of the two, that one is returned.

    Parameters
    ----------
    penalties : ndarray of shape (n_penalties,)
        Positive.
    curve : ndarray of shape (n_penalties,)
        The coefficient at each of them.

    Returns
    -------
    crossings : ndarray of shape (n_crossings,)
    """
    before, after = curve[:-1], curve[1:]
    crosses = (before != after) & (np.sign(before) * np.sign(after) <= 0)
    before, after = before[crosses], after[crosses]
    share = before / (before - after)
    logs = np.log(penalties)
    return np.exp(logs[:-1][crosses] + share * np.diff(logs)[crosses])


def _mark_zeros(axes, crossings, line):
    (marks,) = axes.plot(
        crossings,
        np.zeros_like(crossings),
        linestyle="none",
        marker="o",
        markersize=4,
        markerfacecolor="white",
        markeredgecolor=line.get_color(),
        zorder=line.get_zorder() + 1,
    )
    return marks


def _count_nonzero(axes, penalties, coefs):
    """Axis above the panel: how many coefficients are not zero."""
    shown = np.linspace(0, len(penalties) - 1, _N_COUNTS).round().astype(int)
    shown = np.unique(shown)
    counts = axes.secondary_xaxis("top")
    counts.set_xticks(penalties[shown], np.count_nonzero(coefs[shown], axis=1))
    counts.tick_params(which="minor", top=False)
    counts.set_xlabel("coefficients that are not zero", fontsize="small")


def _mean_path(estimator):
    """Mean over folds of the path at the chosen ``l1_ratio_``."""
    paths = np.asarray(estimator.coefs_paths_)
    ratio = np.argmin(np.abs(np.asarray(estimator.l1_ratios_) - estimator.l1_ratio_))
    mean = paths[:, ratio].mean(axis=0)
    if estimator.fit_intercept:
        mean = mean[..., :-1]
    n_outputs = mean.shape[1]
    return {
        "penalties": estimator.Cs_,
        "coefs": np.moveaxis(mean, 1, 0),
        "penalty_name": "C",
        "output_names": None
        if n_outputs == 1
        else [f"class {label}" for label in estimator.classes_],
        "chosen": estimator.C_,
        "coef_label": f"coefficient, mean of {len(paths)} folds",
    }


def _lasso_path(estimator, X, y, sample_weight):
    """Path on all data, at the penalties among which the search has chosen."""
    if X is None or y is None:
        raise ValueError(
            f"{type(estimator).__name__} keeps no coefficients of its path: pass X and "
            "y of the fit, from_estimator(estimator, X, y)."
        )
    # At the call: the package imports this module while it is being imported.
    from skcara import lasso_path

    ratios = np.atleast_1d(getattr(estimator, "l1_ratio", 1.0))
    l1_ratio = float(getattr(estimator, "l1_ratio_", 1.0))
    alphas = np.reshape(estimator.alphas_, (len(ratios), -1))
    alphas = alphas[np.argmin(np.abs(ratios - l1_ratio))]
    scale = 1.0
    if getattr(estimator, "standardize", False):
        scaler = StandardScaler(with_mean=False).fit(X, sample_weight=sample_weight)
        X, scale = scaler.transform(X), scaler.scale_[:, None]
    _, coefs, _ = lasso_path(
        X,
        y,
        l1_ratio=l1_ratio,
        alphas=alphas,
        fit_intercept=estimator.fit_intercept,
        positive=estimator.positive,
        sample_weight=sample_weight,
        tol=estimator.tol,
    )
    return {
        "penalties": alphas,
        "coefs": (coefs / scale).T[None],
        "penalty_name": "alpha",
        "chosen": estimator.alpha_,
    }
