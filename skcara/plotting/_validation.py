"""ValidationDisplay: scores of cross-validation against the penalty."""

from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skcara.plotting._penalty_axis import (
    check_penalties,
    mark_chosen,
    set_penalty_axis,
)
from skcara.plotting._run import make_axes


class ValidationDisplay:
    """Scores of a cross-validation against the penalty.

    A line is the mean over the folds, its band one standard deviation over the folds
    to both sides; there is one line per ``l1_ratio``. The penalty that was chosen is
    marked. Strong penalties are on the left. Make it with :meth:`from_estimator`.

    Parameters
    ----------
    penalties : array-like of shape (n_l1_ratios, n_penalties)
        Values of ``alpha`` or ``C``, positive.
    scores : array-like of shape (n_l1_ratios, n_penalties, n_folds)
        Score of every fold at each of them.
    penalty_name : {"alpha", "C"}, default="alpha"
        What the penalties are.
    l1_ratios : array-like of shape (n_l1_ratios,), default=(1.0,)
        Labels of the lines.
    chosen : pair of (penalty, l1_ratio), default=None
        What to mark.
    score_name : str, default="score"
        Label of the vertical axis.

    Attributes
    ----------
    ax_ : matplotlib axes
        Where the curves are drawn.
    figure_ : matplotlib figure
        The figure that contains them.
    lines_ : list of matplotlib lines
        The means, one per l1_ratio.
    bands_ : list of matplotlib collections
        The spreads.
    chosen_ : matplotlib line or None
        The mark on the mean at the chosen penalty.

    See Also
    --------
    PathDisplay : Coefficients against the penalty.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LassoCV
    >>> from skcara import ValidationDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ValidationDisplay.from_estimator(LassoCV().fit(X, y))
    <...>
    >>> plt.show()
    """

    def __init__(
        self,
        penalties,
        scores,
        *,
        penalty_name="alpha",
        l1_ratios=(1.0,),
        chosen=None,
        score_name="score",
    ):
        self.penalties = penalties
        self.scores = scores
        self.penalty_name = penalty_name
        self.l1_ratios = l1_ratios
        self.chosen = chosen
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator, *, score_name=None, ax=None, **line_kw) -> Self:
        """Draw the scores of a fitted search.

        Parameters
        ----------
        estimator : fitted CaLassoCV or CaLogisticRegressionCV
            Or a twin in scikit-learn with the same attributes.
        score_name : str, default=None
            Label of the vertical axis; None takes it from the estimator.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        **line_kw : dict
            Passed on to :meth:`matplotlib.axes.Axes.plot` for the means.

        Returns
        -------
        display : ValidationDisplay
        """
        check_is_fitted(estimator)
        if hasattr(estimator, "mse_path_"):
            validation = _squared_errors(estimator)
        elif hasattr(estimator, "scores_"):
            validation = _scores(estimator)
        else:
            raise TypeError(
                f"{cls.__name__} needs a fitted CaLassoCV or CaLogisticRegressionCV, "
                f"got {type(estimator).__name__}. Of a pipeline pass its last step, "
                "pipeline[-1]."
            )
        if score_name is not None:
            validation["score_name"] = score_name
        return cls(**validation).plot(ax, **line_kw)

    def plot(self, ax=None, **line_kw) -> Self:
        """Draw the scores.

        Parameters
        ----------
        ax, **line_kw
            As in :meth:`from_estimator`.

        Returns
        -------
        display : ValidationDisplay
            With the attributes that are set by drawing.
        """
        penalties = check_penalties(self.penalties, self.penalty_name)
        scores = np.asarray(self.scores, dtype=np.float64)
        n_folds = scores.shape[2]
        means, spreads = scores.mean(axis=2), scores.std(axis=2)
        self.ax_ = make_axes(type(self).__name__, ax)
        self.figure_ = self.ax_.figure
        self.lines_, self.bands_ = [], []
        for ratio, grid, mean, spread in zip(
            self.l1_ratios, penalties, means, spreads, strict=True
        ):
            name = f"mean of {n_folds} folds"
            if len(self.l1_ratios) > 1:
                name = f"l1_ratio={ratio:g}"
            style = {"label": name, **line_kw}
            (line,) = self.ax_.plot(grid, mean, **style)
            band = self.ax_.fill_between(
                grid,
                mean - spread,
                mean + spread,
                color=line.get_color(),
                alpha=0.15,
                linewidth=0,
            )
            self.lines_.append(line)
            self.bands_.append(band)
        self.bands_[-1].set_label(f"± standard deviation of {n_folds} folds")
        set_penalty_axis(self.ax_, penalties, self.penalty_name)
        self.ax_.set_ylabel(self.score_name)
        self.chosen_ = self._mark_chosen(penalties, means)
        self.ax_.legend(fontsize="small")
        return self

    def _mark_chosen(self, penalties, means):
        """Dashed line at the chosen penalty, and a star on its own curve."""
        if self.chosen is None:
            return None
        penalty, l1_ratio = self.chosen
        mark_chosen(self.ax_, penalty, self.penalty_name)
        curve = np.argmin(np.abs(np.asarray(self.l1_ratios) - l1_ratio))
        place = np.argmin(np.abs(np.log(penalties[curve]) - np.log(penalty)))
        (mark,) = self.ax_.plot(
            penalties[curve, place],
            means[curve, place],
            marker="*",
            markersize=12,
            color=self.lines_[curve].get_color(),
            markeredgecolor="white",
            zorder=3,
        )
        return mark


def _squared_errors(estimator):
    """What CaLassoCV, LassoCV and ElasticNetCV keep."""
    ratios = np.atleast_1d(getattr(estimator, "l1_ratio", 1.0))
    alphas = np.reshape(estimator.alphas_, (len(ratios), -1))
    return {
        "penalties": alphas,
        "scores": np.reshape(estimator.mse_path_, (*alphas.shape, -1)),
        "penalty_name": "alpha",
        "l1_ratios": ratios,
        "chosen": (estimator.alpha_, float(getattr(estimator, "l1_ratio_", 1.0))),
        "score_name": "mean squared error on the held-out fold",
    }


def _scores(estimator):
    """What CaLogisticRegressionCV keeps."""
    scores = np.moveaxis(np.asarray(estimator.scores_), 0, -1)
    scoring = estimator.scoring
    if scoring is None:
        scoring = "neg_log_loss"
    elif callable(scoring):
        scoring = getattr(scoring, "__name__", "score")
    return {
        "penalties": np.broadcast_to(estimator.Cs_, scores.shape[:2]),
        "scores": scores,
        "penalty_name": "C",
        "l1_ratios": np.asarray(estimator.l1_ratios_, dtype=np.float64),
        "chosen": (float(estimator.C_), float(estimator.l1_ratio_)),
        "score_name": f"{scoring} on the held-out fold",
    }
