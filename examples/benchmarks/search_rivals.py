"""One class per rival of the search benchmark: the same grid and folds for everybody.

================================  ====================================================
library                           conversion of a strength ``s`` of the mean objective
================================  ====================================================
LassoCV, ElasticNetCV, celer      ``alpha = s``
RidgeCV                           ``alpha = s`` times the rows of a training set
LogisticRegressionCV, skcara      ``C = 1 / (s n_rows)``
glum                              ``alpha = s``: its folds then have weaker penalties
                                  than those of ``C``, by the share of the training rows
================================  ====================================================
"""

import importlib.util
import warnings
from dataclasses import dataclass, replace

import numpy as np
from measure import SHORT_FIT_SECONDS
from probe import peak_bytes, reset_peak


@dataclass(frozen=True)
class Outcome:
    """What a search returns.

    Attributes
    ----------
    errors : ndarray of shape (n_folds, n_l1_ratios, n_penalties) or None
        Mean squared errors or log losses of the test rows, penalties from strong to
        weak; None if the class does not keep them or means something else.
    l1_ratio, strength : float
        The choice, in mean form; NaN if there is none.
    reads : float
        Reads of X, NaN if not counted.
    seconds : float
        Of this search alone.
    extra_bytes : int
        Peak memory on top of the data.
    """

    errors: np.ndarray | None = None
    l1_ratio: float = np.nan
    strength: float = np.nan
    reads: float = np.nan
    seconds: float = np.nan
    extra_bytes: int = 0


class Rival:
    """Base of all rivals."""

    name = ""
    library = "sklearn"
    losses = ("squared", "logistic")

    def skip(self, problem):
        """Reason why this rival does not do the search, or None."""
        if importlib.util.find_spec(self.library) is None:
            return f"{self.library} is not installed"
        if problem.loss not in self.losses:
            return f"no {problem.loss} loss"
        return self._skip_penalty(problem)

    def _skip_penalty(self, problem):
        return None

    def search(self, problem):
        """Outcome without the memory."""
        raise NotImplementedError

    def solve(self, problem, setting):
        """One cold search, in the signature that ``measure.timed_fit`` calls.

        In a new process libraries take some memory and time when they are first called.
        A tiny search comes first, so that only the search itself is counted; a short
        one is repeated.
        """
        tiny, clock = setting
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.search(tiny)
            reset_peak()
            before = peak_bytes()
            for _ in range(2):
                start = clock()
                outcome = self.search(problem)
                seconds = clock() - start
                if seconds > SHORT_FIT_SECONDS:
                    break
        extra_bytes = max(peak_bytes() - before, 0)
        return replace(outcome, seconds=seconds, extra_bytes=extra_bytes)


def is_ridge(problem):
    """Whether no penalty of the search has an L1 term."""
    return not any(problem.l1_ratios)


def alphas_of(problem):
    """Grids as the regressors take them: one, or one for each ratio."""
    strengths = problem.strengths
    return strengths[0] if len(strengths) == 1 else strengths


def regression_outcome(model, problem, reads=np.nan):
    """Outcome of LassoCV, ElasticNetCV and CaLassoCV."""
    errors = model.mse_path_.reshape(len(problem.l1_ratios), -1, len(problem.splits))
    ratio = float(getattr(model, "l1_ratio_", problem.l1_ratios[0]))
    return Outcome(np.moveaxis(errors, 2, 0), ratio, float(model.alpha_), reads)


def logistic_outcome(model, problem, reads=np.nan):
    """Outcome of LogisticRegressionCV and CaLogisticRegressionCV."""
    strength = 1.0 / (float(model.C_) * len(problem.y))
    return Outcome(-model.scores_, float(model.l1_ratio_), strength, reads)


def inverse_strengths(problem):
    """The grid of C, ascending."""
    return 1.0 / (problem.strengths[0] * len(problem.y))


class SkcaraSearch(Rival):
    """CaLassoCV and CaLogisticRegressionCV."""

    name = "skcara"
    library = "skcara"

    def search(self, problem):
        """One search."""
        from skcara import CaLassoCV, CaLogisticRegressionCV

        if problem.loss == "squared":
            # With a list of ratios a grid of one array would be used for all of them.
            grid = alphas_of(problem) if len(problem.l1_ratios) == 1 else 100
            ratios = problem.l1_ratios
            model = CaLassoCV(
                l1_ratio=ratios[0] if len(ratios) == 1 else list(ratios),
                alphas=grid,
                cv=problem.splitter,
            ).fit(problem.X, problem.y)
            return regression_outcome(model, problem, model.n_passes_)
        model = CaLogisticRegressionCV(
            Cs=inverse_strengths(problem),
            l1_ratios=problem.l1_ratios,
            cv=problem.splitter,
            random_state=0,
        ).fit(problem.X, problem.y)
        return logistic_outcome(model, problem, model.n_passes_)


class SklearnRegression(Rival):
    """LassoCV, ElasticNetCV or RidgeCV, as they come."""

    name = "sklearn CV class"
    losses = ("squared",)

    def search(self, problem):
        """One search."""
        from sklearn.linear_model import ElasticNetCV, LassoCV, RidgeCV

        if is_ridge(problem):
            n_train = len(problem.splits[0][0])
            model = RidgeCV(
                alphas=n_train * problem.strengths[0],
                cv=problem.splitter,
                scoring="neg_mean_squared_error",
            ).fit(problem.X, problem.y)
            return Outcome(None, 0.0, float(model.alpha_) / n_train)
        if problem.l1_ratios == (1.0,):
            model = LassoCV(alphas=alphas_of(problem), cv=problem.splitter)
        else:
            model = ElasticNetCV(l1_ratio=list(problem.l1_ratios), cv=problem.splitter)
        return regression_outcome(model.fit(problem.X, problem.y), problem)


class SklearnLogisticSearch(Rival):
    """LogisticRegressionCV with one of its solvers."""

    losses = ("logistic",)

    def __init__(self, solver):
        self.solver = solver
        self.name = f"sklearn {solver}"

    def _skip_penalty(self, problem):
        has_l1 = not is_ridge(problem)
        if has_l1 != (self.solver in ("liblinear", "saga")):
            return "another solver is the better choice"
        return None

    def search(self, problem):
        """One search."""
        from sklearn.linear_model import LogisticRegressionCV

        model = LogisticRegressionCV(
            Cs=inverse_strengths(problem),
            l1_ratios=problem.l1_ratios,
            cv=problem.splitter,
            solver=self.solver,
            scoring="neg_log_loss",
            use_legacy_attributes=False,
            random_state=0,
        ).fit(problem.X, problem.y)
        return logistic_outcome(model, problem)


class GlumSearch(Rival):
    """GeneralizedLinearRegressorCV."""

    name = "glum CV"
    library = "glum"

    def _skip_penalty(self, problem):
        return "a grid for each ratio" if len(problem.l1_ratios) > 1 else None

    def search(self, problem):
        """One search."""
        from glum import GeneralizedLinearRegressorCV

        is_squared = problem.loss == "squared"
        model = GeneralizedLinearRegressorCV(
            l1_ratio=problem.l1_ratios[0],
            family="normal" if is_squared else "binomial",
            alphas=problem.strengths[0],
            cv=problem.splitter,
        ).fit(problem.X, problem.y)
        # Penalties of a fold in mean form are those of C only for the squared loss.
        errors = np.asarray(model.deviance_path_) if is_squared else None
        return Outcome(errors, problem.l1_ratios[0], float(model.alpha_))


class CelerPath(Rival):
    """The path on all rows alone, without folds: a sixth of a search."""

    name = "celer path, no folds"
    library = "celer"

    def _skip_penalty(self, problem):
        return None if problem.l1_ratios == (1.0,) else "a path of the Lasso only"

    def search(self, problem):
        """Centred rows for the Lasso; its logistic regression has no intercept."""
        from celer import celer_path

        if problem.loss == "squared":
            X, y = problem.X - problem.X.mean(axis=0), problem.y - problem.y.mean()
            celer_path(X, y, "lasso", alphas=problem.strengths[0])
        else:
            y, alphas = 2.0 * problem.y - 1, problem.strengths[0] * len(problem.y)
            celer_path(problem.X, y, "logreg", alphas=alphas)
        return Outcome()


def our_estimator(problem):
    """An estimator of this package for one penalty, and the name of its strength."""
    from skcara import CaLasso, CaLogisticRegression

    if problem.loss == "squared":
        return CaLasso(), "alpha"
    return CaLogisticRegression(random_state=0), "C"


class GridOfOurs(Rival):
    """GridSearchCV over our estimator."""

    name = "GridSearchCV of skcara"
    library = "skcara"

    def search(self, problem):
        """One search."""
        from sklearn.model_selection import GridSearchCV

        estimator, strength = our_estimator(problem)
        is_squared = problem.loss == "squared"
        grids = [
            {
                strength: list(grid if is_squared else 1 / (grid * len(problem.y))),
                "l1_ratio": [ratio],
            }
            for ratio, grid in zip(problem.l1_ratios, problem.strengths, strict=True)
        ]
        model = GridSearchCV(
            estimator,
            grids,
            cv=problem.splitter,
            scoring="neg_mean_squared_error" if is_squared else "neg_log_loss",
        ).fit(problem.X, problem.y)
        errors = np.array(
            [-model.cv_results_[f"split{k}_test_score"] for k in range(model.n_splits_)]
        ).reshape(len(problem.splits), *problem.strengths.shape)
        best = float(model.best_params_[strength])
        best = best if is_squared else 1.0 / (best * len(problem.y))
        return Outcome(errors, float(model.best_params_["l1_ratio"]), best)


class LoopOfOurs(Rival):
    """Warm starts along the penalties of each fold, on copies of its rows."""

    name = "loop of skcara fits"
    library = "skcara"

    def search(self, problem):
        """Fit all folds and penalties; no scores."""
        estimator, strength = our_estimator(problem)
        estimator.set_params(warm_start=True)
        for fold, (train, _) in enumerate(problem.splits):
            X, y = problem.X[train], problem.y[train]
            for ratio, grid in zip(
                problem.l1_ratios, problem.fold_strengths(fold), strict=True
            ):
                values = grid if problem.loss == "squared" else 1 / (grid * len(y))
                for value in values:
                    estimator.set_params(**{strength: value, "l1_ratio": ratio})
                    estimator.fit(X, y)
        return Outcome()


RIVALS = (
    SkcaraSearch(),
    SklearnRegression(),
    SklearnLogisticSearch("lbfgs"),
    SklearnLogisticSearch("newton-cholesky"),
    SklearnLogisticSearch("liblinear"),
    SklearnLogisticSearch("saga"),
    GlumSearch(),
    CelerPath(),
    GridOfOurs(),
    LoopOfOurs(),
)
"""All rivals, ours first."""
