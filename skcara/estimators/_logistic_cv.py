"""CaLogisticRegressionCV: drop-in for scikit-learn's LogisticRegressionCV."""

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MethodMapping, process_routing
from sklearn.utils.validation import column_or_1d

from skcara._sklearn_compat import (
    Interval,
    StrOptions,
    fit_context,
    raise_for_params,
    routing_enabled,
)
from skcara.data import ArraySource, FoldSets, most_atoms
from skcara.estimators._base import LinearModel, all_or_nothing
from skcara.estimators._class_weight import ClassWeights
from skcara.estimators._classifier import LinearClassifierMixin, linear_attributes
from skcara.estimators._docstrings import fill_docstring
from skcara.estimators._folds import CrossValidatedMixin
from skcara.estimators._held_out import FoldScoring, score_held_out, score_on_rows
from skcara.estimators._logistic_grid import LogisticGrid, check_cs, check_ratios
from skcara.estimators._search_progress import ReadObserver
from skcara.estimators._validation import (
    check_sample_weight,
    check_training_data,
    encode_labels,
)
from skcara.passes import FoldMoments
from skcara.solvers import SolverFactory, SolverResult, Status, drive
from skcara.solvers.paths import (
    MAX_SCORE_ERROR,
    Column,
    SearchRound,
    answer_search,
    search_folds,
)

_DEFAULT_SCORING = "neg_log_loss"


@fill_docstring
class CaLogisticRegressionCV(CrossValidatedMixin, LinearClassifierMixin, LinearModel):
    r"""Logistic regression whose penalty is chosen by cross-validation.

    The objective is that of :class:`CaLogisticRegression`. Every read of the data
    serves all folds and all penalties, and their number does not depend on how many
    there are. Rows of a fold are never copied out of `X`, however scattered they are.

    Parameters
    ----------
    Cs : int or array-like, default=10
        Inverse strengths of the penalty, or how many of them on a logarithmic grid
        between 1e-4 and 1e4.
    l1_ratios : array-like of floats in [0, 1], default=(0.0,)
        Shares of the L1 term; the best of them is chosen along with the penalty.
    fit_intercept : bool, default=True
        Whether to fit the intercept, which is never penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the fits, not in the scores. "balanced" gives every
        class the same total weight on all rows, as in the twin.
    standardize : bool, default=False
        Whether every fold, and the final fit, divides the features by their standard
        deviation on its own training rows, as a
        :class:`~sklearn.preprocessing.StandardScaler` in a pipeline inside the folds
        would. The penalty acts on the standardised coefficients; `coef_` is in the
        units of `X`. Costs one read more.
    cv : int, splitter or iterable, default=None
        Folds, as in scikit-learn: None means five, stratified, without shuffling.
        Groups reach a splitter by metadata routing.
    scoring : str, callable or None, default=None
        What is best; None means "neg_log_loss". Scores of other names, and of scorers
        of :func:`~sklearn.metrics.make_scorer`, come from the predictions of the
        held-out rows, which takes one more read, or a few if these predictions take
        more than a tenth of the memory of `X`. Other callables are given the held-out
        rows.
    refit : bool, default=True
        Whether to fit all rows with the best penalty. If not, `coef_` is the mean over
        the folds of the coefficients that score best on each.
    tol : float, default=1e-4
        A fit has converged when the largest violation of the optimality conditions of
        the mean objective, on its own training rows, is at most `tol`.
    max_iter : int, default=100
        Most rounds, each of which reads the data once for all folds and penalties.
    n_jobs : int, default=None
        Threads that read the data, as in joblib. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of the rows in a sample.
    verbose : int, default=0
        Print one line per read.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    Cs_ : ndarray of shape (n_cs,)
        Inverse penalties.
    l1_ratios_ : ndarray of shape (n_l1_ratios,)
        Shares of the L1 term.
    C_, l1_ratio_ : float
        The best of them; without `refit`, the mean of the best of each fold.
    scores_ : ndarray of shape (n_folds, n_l1_ratios, n_cs)
        Scores on the held-out rows.
    coefs_paths_ : ndarray of shape (n_folds, n_l1_ratios, n_cs, n_outputs, n_params)
        Coefficients, with the intercept behind them if there is one: `n_outputs` is the
        number of classes, one for two of them.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, exactly zero where an L1 penalty says so.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, zero without one.
    n_iter_ : ndarray of shape (n_folds, n_l1_ratios, n_cs)
        Reads after which each fit was done.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if all are strings.
    n_passes_ : float
        Full reads of the data, the final fit included.
    objective_, optimality_ : float
        Mean loss plus penalty on all rows at the returned coefficients, and the largest
        distance of its gradient to what is optimal; NaN without `refit`.
    history_ : ndarray with named fields or None
        Rounds of the final fit, see :class:`CaLogisticRegression`; None without.

    See Also
    --------
    CaLogisticRegression : For a given penalty.
    logistic_path : The path on all rows.
    sklearn.linear_model.LogisticRegressionCV : The twin in scikit-learn, which has
        these attributes with ``use_legacy_attributes=False``.

    Notes
    -----
    The scores are certified, not only the fits: a fold is done when what is left to its
    solution changes its log loss by less than 1e-6 of it, and that change is already
    part of the score.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skcara import CaLogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CaLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], standardize=True).fit(X, y)
    >>> print(model.C_, model.scores_.mean(axis=0).round(3))
    1.0 [[-0.106 -0.081 -0.102]]
    """

    Cs_: np.ndarray
    l1_ratios_: np.ndarray
    C_: float
    l1_ratio_: float
    scores_: np.ndarray
    coefs_paths_: np.ndarray
    n_iter_: np.ndarray
    n_passes_: float
    objective_: float
    optimality_: float
    history_: np.ndarray | None

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **LinearModel._parameter_constraints,
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "l1_ratios": ["array-like"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "standardize": ["boolean"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        *,
        Cs=10,
        l1_ratios=(0.0,),
        fit_intercept=True,
        class_weight=None,
        standardize=False,
        cv=None,
        scoring=None,
        refit=True,
        tol=1e-4,
        max_iter=100,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.standardize = standardize
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---- metadata and scores -----------------------------------------------------

    def _get_scorer(self):
        return get_scorer(self.scoring or _DEFAULT_SCORING)

    def get_metadata_routing(self):
        """Get metadata routing of this object.

        Returns
        -------
        routing : MetadataRouter
            What ``fit`` and ``score`` take themselves, and what they hand to the
            splitter and the scorer.
        """
        mapping = MethodMapping().add(caller="score", callee="score")
        return (
            super()
            .get_metadata_routing()
            .add(
                scorer=self._get_scorer(),
                method_mapping=mapping.add(caller="fit", callee="score"),
            )
        )

    def _route_fit_params(self, sample_weight, params: dict) -> Bunch:
        routed = super()._route_fit_params(sample_weight, params)
        if not routing_enabled():
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            routed.scorer = Bunch(score=weights)
        return routed

    def score(self, X, y, *, sample_weight=None, **score_params) -> float:
        """Score by the parameter `scoring`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        **score_params : dict
            Passed to the scorer, if metadata routing is enabled.

        Returns
        -------
        score : float
        """
        raise_for_params(score_params, self, "score")
        if sample_weight is not None:
            score_params["sample_weight"] = sample_weight
        if routing_enabled():
            score_params = process_routing(self, "score", **score_params).scorer.score
        return self._get_scorer()(self, X, y, **score_params)

    # ---- fit ---------------------------------------------------------------------

    @fit_context
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose a penalty by cross-validation and fit all rows with it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Dense arrays and CSR matrices of any numeric type are read
            as they are, in chunks; CSC matrices are converted to CSR.
        y : array-like of shape (n_samples,)
            Class labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the losses, in the fits and in the scores.
        **params : dict
            Passed to the splitter and the scorer, if metadata routing is enabled and
            they request them.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        Cs, ratios = check_cs(self.Cs), check_ratios(self.l1_ratios)
        with all_or_nothing(self, X):
            fit_data = {"X": X, "y": y, "sample_weight": sample_weight}
            routed = self._route_fit_params(sample_weight, params)
            X, y = check_training_data(self, X, y)
            y = column_or_1d(y, warn=True)
            classes, codes = encode_labels(y)
            weights = check_sample_weight(sample_weight, X.shape[0])
            batches = self._fold_batches(
                X, y, routed.splitter.split, most_atoms(*X.shape)
            )
            sets = FoldSets(batches)
            train_weights = weights
            if self.class_weight is not None:
                train_weights = ClassWeights(self.class_weight, classes, codes, weights)
            source = ArraySource(
                X, codes, train_weights, atom=sets.labels, n_jobs=self.n_jobs
            )
            scoring = FoldScoring(
                self._get_scorer(), classes, y, sets, routed.scorer.score
            )
            data = _SearchData(source, sets, classes, weights, scoring)
            grid = LogisticGrid(Cs, ratios, len(classes), self.fit_intercept)
            self._fit_data(data, grid, fit_data)
        return self

    def _fit_data(self, data, grid, fit_data):
        with ReadObserver(self, **fit_data) as observer:
            found = self._search(data, grid, observer)
            self.classes_ = data.classes
            self.Cs_, self.l1_ratios_ = grid.Cs, grid.ratios
            self.scores_ = found.scores.reshape(-1, *grid.shape)
            self.coefs_paths_ = found.paths.reshape(
                -1, *grid.shape, *found.paths.shape[2:]
            )
            n_iter = np.array([column.n_reads for column in found.columns])
            self.n_iter_ = n_iter.reshape(-1, *grid.shape).astype(np.int32)
            self.n_passes_ = float(found.n_reads)
            best = _best_numbers(found.scores, grid.shape, self.refit)
            result = None
            if self.refit and not found.is_interrupted:
                result = self._refit(data, grid, best[0], found, observer)
            else:
                self._average(grid, best, found)
        self._warn_unless_converged(found, result)

    def _search(self, data, grid, observer) -> "_Found":
        """Solve all folds and penalties, and score them."""
        source, sets = data.source, data.sets
        scales, n_reads = self._scales(data)
        factors = None
        if self.class_weight is not None:
            factors = source.weights.factors
        uses_losses = self._scores_are_losses(data, factors)
        problems = grid.fold_problems(
            source,
            sets,
            data.set_weights,
            scales[:-1],
            test_factors=None if factors is None or not uses_losses else 1 / factors,
        )
        search = search_folds(
            problems,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=self._random_state(),
        )

        def on_round(current: SearchRound):
            return observer.on_read(
                current, lambda: self._attributes_so_far(grid, problems, current)
            )

        last, is_interrupted = answer_search(search, source, on_round)
        columns, n_reads = last.columns, n_reads + last.n_reads
        params = np.array([column.anchor.params for column in columns])
        params = params.reshape(sets.n_folds, -1, *params.shape[1:])
        paths = _paths(problems.coordinates, params, self.fit_intercept)
        if uses_losses:
            scores = -np.array([column.score_loss for column in columns])
            scores = scores.reshape(params.shape[:2])
        elif data.scoring.is_plain:
            scores, score_reads = score_held_out(
                source, sets, problems.coordinates, params, data.scoring
            )
            n_reads += score_reads
        else:
            scores = score_on_rows(
                source.X, data.classes, paths, self.fit_intercept, data.scoring
            )
            n_reads += 1
        return _Found(
            columns, params, paths, scores, scales[-1], n_reads, is_interrupted
        )

    def _scales(self, data):
        """What features are divided by, in each fold and on all rows; and reads."""
        n_features = data.source.facts.n_features
        if not self.standardize:
            return [np.ones(n_features)] * (data.sets.n_folds + 1), 0
        factors = None
        if self.class_weight is not None:
            factors = data.source.weights.factors
            factors = np.divide(1.0, factors, where=factors > 0, out=0.0 * factors)
        task = FoldMoments(data.source.facts, data.sets.with_all_rows(), factors)
        [moments] = data.source.run([task])
        spreads = [np.sqrt(one.variance) for one in moments]
        return [np.where(spread > 0, spread, 1.0) for spread in spreads], 1

    def _scores_are_losses(self, data, factors) -> bool:
        """Whether scores are the mean losses that the search knows anyway."""
        if self.scoring not in (None, _DEFAULT_SCORING):
            return False
        if factors is not None and not factors.all():
            return False
        names = set(data.scoring.params)
        return names == (set() if data.sample_weight is None else {"sample_weight"})

    def _attributes_so_far(self, grid, problems, current) -> dict:
        """Fitted attributes with which the estimator could predict after a read."""
        columns = current.columns
        losses = np.array([column.score_loss for column in columns])
        losses = losses.reshape(problems.sets.n_folds, -1)
        [number] = _best_numbers(-losses, grid.shape, True)
        params = [one.anchor.params for one in columns if one.number == number]
        point = problems.coordinates.to_user(np.mean(params, axis=0))
        return {**linear_attributes(*point), **_chosen(grid, [number])}

    def _refit(self, data, grid, number, found, observer) -> SolverResult:
        """Fit all rows, from the mean of the folds."""
        source = data.source
        factory = SolverFactory(
            "canewton", {"recombination": "auto"}, source, self.fit_intercept
        )
        start = found.paths[:, number].mean(axis=0)
        n_features = source.facts.n_features
        intercept = np.zeros(len(start))
        if self.fit_intercept:
            intercept = start[:, -1]
        problem = grid.full_problem(source, number, found.scale)
        solver = factory.start(
            problem,
            start[:, :n_features].T.copy(),
            intercept,
            self._random_state(),
        )
        to_user = factory.coordinates.to_user

        def on_round(_, record, evaluation):
            return observer.on_round(
                0, record, lambda: linear_attributes(*to_user(evaluation.params))
            )

        [result] = drive(
            [solver], source, tol=self.tol, max_iter=self.max_iter, observer=on_round
        )
        attributes = {
            **linear_attributes(*to_user(result.evaluation.params)),
            **_chosen(grid, [number]),
            "objective_": result.evaluation.objective,
            "optimality_": result.evaluation.optimality,
            "history_": result.history,
            "n_passes_": self.n_passes_ + result.passes,
        }
        for name, value in attributes.items():
            setattr(self, name, value)
        return result

    def _average(self, grid, best, found):
        """Mean over the folds of the coefficients at the best penalty of each."""
        if len(best) == 1:
            best = best * len(found.paths)
        chosen = np.mean(
            [path[number] for path, number in zip(found.paths, best, strict=True)],
            axis=0,
        )
        n_features = self.n_features_in_
        self.coef_ = np.ascontiguousarray(chosen[:, :n_features])
        self.intercept_ = np.zeros(len(chosen))
        if self.fit_intercept:
            self.intercept_ = chosen[:, -1].copy()
        for name, value in _chosen(grid, best).items():
            setattr(self, name, value)
        self.objective_ = self.optimality_ = np.nan
        self.history_ = None

    def _warn_unless_converged(self, found, result):
        """Warn once, with the number of fits and scores that are not as promised."""
        if found.is_interrupted:
            return
        columns = found.columns
        optimality = np.array([column.anchor.optimality for column in columns])
        n_fits = np.count_nonzero(~(optimality <= self.tol))
        n_scores = sum(not column.has_score for column in columns)
        is_refit_bad = result is not None and result.status not in (
            Status.CONVERGED,
            Status.INTERRUPTED,
        )
        if not n_fits and not n_scores and not is_refit_bad:
            return
        refit = ""
        if is_refit_bad:
            refit = f" The final fit did not converge either: {result.status.value}."
        warnings.warn(
            f"{type(self).__name__} did not converge: after {self.n_passes_:.1f} reads "
            f"of the data, {n_fits} of {len(columns)} fits violate the optimality "
            f"conditions by more than tol={self.tol:.3g} (at most "
            f"{optimality.max():.3g}), and {n_scores} scores may be wrong by more than "
            f"{MAX_SCORE_ERROR:.0e} of themselves.{refit} Increase max_iter or tol, or "
            "choose smaller Cs.",
            ConvergenceWarning,
            stacklevel=5,
        )


@dataclass(frozen=True, eq=False)
class _SearchData:
    """Rows, folds and scores of a search; ``sample_weight`` without class weights."""

    source: ArraySource
    sets: FoldSets
    classes: np.ndarray
    sample_weight: np.ndarray | None
    scoring: FoldScoring

    @property
    def set_weights(self):
        """Weights of the training sets, with class weights, and of the test sets."""
        n_rows = self.source.facts.n_rows
        train, _ = self.sets.totals(self.source.weights, n_rows)
        _, test = self.sets.totals(self.sample_weight, n_rows)
        for name, weights in (("training", train), ("test", test)):
            if not weights.all():
                fold = int(np.argmin(weights))
                raise ValueError(
                    f"The {name} set of fold {fold} has no rows of positive weight; "
                    "choose another cv."
                )
        return train, test


@dataclass(frozen=True, eq=False)
class _Found:
    """What a search has found."""

    columns: list[Column]
    params: np.ndarray
    paths: np.ndarray
    scores: np.ndarray
    scale: np.ndarray
    n_reads: int
    is_interrupted: bool


def _paths(coordinates, params, fit_intercept):
    """Coefficients of all folds and penalties, intercepts behind them if any."""
    paths = []
    for one in params.reshape(-1, *params.shape[2:]):
        linear = linear_attributes(*coordinates.to_user(one))
        coef = linear["coef_"]
        if fit_intercept:
            coef = np.hstack([coef, linear["intercept_"][:, None]])
        paths.append(coef)
    return np.array(paths).reshape(*params.shape[:2], *paths[0].shape)


def _best_numbers(scores, shape, is_common) -> list[int]:
    """Number of the best penalty, of all folds together or of each.

    Of equal scores the one with the smaller C wins, then the one with the ratio that
    comes first, as in scikit-learn.
    """
    n_ratios, n_cs = shape
    scores = scores.reshape(-1, n_ratios, n_cs).transpose(0, 2, 1)
    scores = scores.reshape(len(scores), -1)
    scores = scores.sum(axis=0, keepdims=True) if is_common else scores
    # A fold that nobody has scored is no reason to choose its penalty.
    scores = np.where(np.isnan(scores), -np.inf, scores)
    numbers = []
    for best in scores.argmax(axis=1):
        position, ratio = divmod(int(best), n_ratios)
        numbers.append(ratio * n_cs + position)
    return numbers


def _chosen(grid, numbers) -> dict:
    ratios, positions = np.divmod(numbers, len(grid.Cs))
    return {
        "C_": float(np.mean(grid.Cs[positions])),
        "l1_ratio_": float(np.mean(grid.ratios[ratios])),
    }
