"""MeasureDisplay: the rows that carry the gradient of all rows."""

from typing import Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from skcara.plotting._run import as_list, make_axes, read_run

# Area of all survivors together, in square points: few are drawn large, many small.
# The usual panel has about 100 000 of them, so that dots of this total do not hide one
# another.
_TOTAL_AREA = 3000.0
_LARGEST_MEAN_AREA = 120.0
# Below this mean area light rows would be invisible; their weight becomes a colour,
# which is not seen either on dots of less than about two pixels.
_SMALLEST_MEAN_AREA = 6.0
_SMALLEST_AREA = 2.5
# Dots of a legend stand alone, and are found from here on.
_SMALLEST_LEGEND_AREA = 20.0


class MeasureDisplay:
    """Rows and weights of the last reduced measure in a plane.

    The area of a row is proportional to its weight; from some hundred rows on, where
    such dots would hide one another, all are small and the colour shows the weight. A
    part of all rows is drawn behind them. Make it with :meth:`from_estimator`.

    Parameters
    ----------
    points : ndarray of shape (n_support, 2)
        Coordinates of the rows of the measure.
    weights : ndarray of shape (n_support,)
        Their weights.
    cloud : ndarray of shape (n_drawn, 2)
        Coordinates of the rows that are drawn behind them.
    n_rows : int
        Number of all rows, for the legend.
    labels : tuple of str
        Labels of the two axes.

    Attributes
    ----------
    ax_ : matplotlib axes
        Where the measure is drawn.
    figure_ : matplotlib figure
        The figure that contains it.
    cloud_scatter_ : matplotlib collection
        The rows behind.
    support_scatter_ : matplotlib collection
        The rows of the measure.
    colorbar_ : matplotlib colorbar or None
        Scale of the weights, where the colour shows them.

    See Also
    --------
    ConvergenceDisplay : How the fit went.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skcara import CaLogisticRegression, MeasureDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X[:, :2])
    >>> model = CaLogisticRegression(solver="cagd").fit(X, y)
    >>> MeasureDisplay.from_estimator(model, X, features=(0, 1))
    <...>
    >>> plt.show()
    """

    def __init__(self, points, weights, *, cloud, n_rows, labels):
        self.points = points
        self.weights = weights
        self.cloud = cloud
        self.n_rows = n_rows
        self.labels = labels

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        features=None,
        target=0,
        max_cloud=10_000,
        ax=None,
        cloud_kw=None,
        **support_kw,
    ) -> Self:
        """Draw the last reduced measure of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of skcara
            Its last fit has reduced a measure, so that ``support_`` is not None.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data of the fit, in the same order.
        features : pair of int or of str, default=None
            The two columns to show. None shows the first two principal components of
            the rows that are drawn.
        target : int, default=0
            Whose measure to show, if the estimator was fitted on several targets.
        max_cloud : int, default=10_000
            About how many of all rows are drawn behind the measure, at equal steps.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        cloud_kw : dict, default=None
            Passed on to :meth:`matplotlib.axes.Axes.scatter` for the rows behind.
        **support_kw : dict
            Passed on to the same for the rows of the measure.

        Returns
        -------
        display : MeasureDisplay
        """
        supports = as_list(read_run(estimator, "support_", cls.__name__))
        if not 0 <= target < len(supports):
            raise ValueError(
                f"target must be below {len(supports)}, the number of targets of the "
                f"fit, got {target}."
            )
        support = supports[target]
        if support is None:
            raise ValueError(
                f"The last fit of this {type(estimator).__name__} reduced nothing, so "
                "there is no measure to show: support_ is None. Small data and the "
                "squared loss with few columns are solved directly; solver='cagd' and "
                "solver='cabcd' reduce always, unless recombination=None."
            )
        X = validate_data(
            estimator, X, accept_sparse="csr", dtype="numeric", reset=False
        )
        n_rows = X.shape[0]
        if support.max() >= n_rows:
            raise ValueError(
                f"X has {n_rows} rows, but the measure contains row {support.max()}: "
                "pass the X of the fit."
            )
        step = -(-n_rows // max_cloud)
        project, labels = _projection(estimator, X[::step], features)
        display = cls(
            project(X[support]),
            as_list(estimator.support_weights_)[target],
            cloud=project(X[::step]),
            n_rows=n_rows,
            labels=labels,
        )
        return display.plot(ax, cloud_kw=cloud_kw, **support_kw)

    def plot(self, ax=None, *, cloud_kw=None, **support_kw) -> Self:
        """Draw the measure.

        Parameters
        ----------
        ax, cloud_kw, **support_kw
            As in :meth:`from_estimator`.

        Returns
        -------
        display : MeasureDisplay
            With the attributes that are set by drawing.
        """
        ax = make_axes(type(self).__name__, ax)
        cloud_kw = {
            "s": 4,
            "color": "0.8",
            "linewidths": 0,
            "rasterized": True,
            "label": f"{self.n_rows:,} rows",
            **(cloud_kw or {}),
        }
        self.ax_, self.figure_ = ax, ax.figure
        self.cloud_scatter_ = ax.scatter(*self.cloud.T, **cloud_kw)
        is_crowded = _TOTAL_AREA / len(self.weights) < _SMALLEST_MEAN_AREA
        points, style = self._crowd() if is_crowded else self._dots()
        self.support_scatter_ = ax.scatter(*points.T, **{**style, **support_kw})
        has_scale = self.support_scatter_.get_array() is not None
        self.colorbar_ = self._draw_scale() if has_scale else None
        ax.set(xlabel=self.labels[0], ylabel=self.labels[1])
        handles = ax.legend(loc="best").legend_handles
        if has_scale:
            # Otherwise that of the heaviest row, in a colour that no other has.
            typical = self.support_scatter_.to_rgba(np.median(self.weights))
            handles[-1].set_array(None)
            handles[-1].set_facecolor(typical)
        for handle in handles:
            # Dots of a crowd are too small to be recognised in the legend.
            handle.set_sizes(np.maximum(handle.get_sizes(), _SMALLEST_LEGEND_AREA))
        return self

    def _draw_scale(self):
        """Colour bar of the weights, in plain numbers."""
        # At the call: the package is imported without matplotlib.
        from matplotlib.ticker import LogFormatter

        scale = self.figure_.colorbar(
            self.support_scatter_, ax=self.ax_, label="weight", format=LogFormatter()
        )
        scale.ax.yaxis.set_minor_formatter(LogFormatter())
        return scale

    def _dots(self):
        """Return points and style: the area is the weight."""
        mean_area = min(_TOTAL_AREA / len(self.weights), _LARGEST_MEAN_AREA)
        return self.points, {
            "s": mean_area * self.weights / self.weights.mean(),
            "color": "C1",
            "alpha": 0.7,
            "edgecolors": "none",
            "label": f"the {len(self.weights):,} of the measure, area = weight",
        }

    def _crowd(self):
        """Return points and style: small dots, the colour is the weight."""
        # Light rows are those that were kept for their own sake: few, and drawn last.
        order = np.argsort(-self.weights, kind="stable")
        return self.points[order], {
            "s": max(_TOTAL_AREA / len(self.weights), _SMALLEST_AREA),
            "c": self.weights[order],
            "norm": "log",
            "cmap": "viridis",
            "linewidths": 0,
            "rasterized": True,
            "label": f"the {len(self.weights):,} of the measure, colour = weight",
        }


def _projection(estimator, sample, features):
    """Return a function from rows to the plane, and the labels of its axes."""
    if features is not None:
        columns, labels = _check_features(estimator, features)
        return lambda rows: _dense(rows[:, columns]), labels
    if sample.shape[1] < 2:
        raise ValueError("X has one column; a plane needs two.")
    sample = _dense(sample)
    centre = sample.mean(axis=0)
    _, _, directions = np.linalg.svd(sample - centre, full_matrices=False)
    plane = directions[:2].T
    labels = "first principal component", "second principal component"
    return lambda rows: (_dense(rows) - centre) @ plane, labels


def _check_features(estimator, features):
    """Return two column numbers and their names."""
    names = getattr(estimator, "feature_names_in_", None)
    n_features = estimator.n_features_in_
    columns = []
    for feature in features:
        if isinstance(feature, str) and names is not None and feature in names:
            columns.append(int(np.flatnonzero(names == feature)[0]))
        elif not isinstance(feature, str) and 0 <= feature < n_features:
            columns.append(int(feature))
        else:
            raise ValueError(
                f"features contains {feature!r}, which is neither a column number "
                f"below {n_features} nor a name in feature_names_in_."
            )
    if len(columns) != 2:
        raise ValueError(f"features must be a pair, got {len(columns)} of them.")
    if names is None:
        return columns, tuple(f"column {column}" for column in columns)
    return columns, tuple(names[columns])


def _dense(rows):
    rows = rows.toarray() if sparse.issparse(rows) else rows
    return np.asarray(rows, dtype=np.float64)
