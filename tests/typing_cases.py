"""What type checkers and editors see of the public names; mypy checks this file.

Nothing here runs: ``test_typing.py`` compares the declarations with real fits.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import numpy as np

import skcara
from skcara import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
    ConvergenceDisplay,
    MeasureDisplay,
    PathDisplay,
    RecombinationError,
    ValidationDisplay,
    lasso_path,
    logistic_path,
    merge,
    recombine,
)
from skcara.estimators._logistic_path import LogisticPath
from skcara.estimators._path import LassoPath
from skcara.io import DataSource, from_chunks, from_dask, from_parquet
from skcara.recombination import Recombination

ArrayOrNone = np.ndarray | None


def regressors(X: np.ndarray, y: np.ndarray) -> None:
    lasso = assert_type(CaLasso(alpha=0.1).fit(X, y), CaLasso)
    assert_type(lasso.coef_, np.ndarray)
    assert_type(lasso.intercept_, float | np.ndarray)
    assert_type(lasso.dual_gap_, float | list[float])
    assert_type(lasso.objective_, float | list[float])
    assert_type(lasso.n_passes_, float | list[float])
    assert_type(lasso.support_, np.ndarray | list[ArrayOrNone] | None)
    assert_type(lasso.history_, np.ndarray | list[np.ndarray])
    assert_type(lasso.n_features_in_, int)
    assert_type(lasso.feature_names_in_, np.ndarray)
    assert_type(lasso.predict(X), np.ndarray)
    squares = assert_type(CaLeastSquares().fit(X, y, sample_weight=y), CaLeastSquares)
    assert_type(squares.coef_, np.ndarray)
    assert_type(squares.intercept_, float | np.ndarray)
    assert_type(squares.predict(X), np.ndarray)


def classifiers(X: np.ndarray, y: np.ndarray) -> None:
    model = assert_type(CaLogisticRegression().fit(X, y), CaLogisticRegression)
    assert_type(model.coef_, np.ndarray)
    assert_type(model.intercept_, np.ndarray)
    assert_type(model.classes_, np.ndarray)
    assert_type(model.support_, np.ndarray | None)
    assert_type(model.support_weights_, np.ndarray | None)
    assert_type(model.objective_, float)
    assert_type(model.optimality_, float)
    assert_type(model.solver_, str)
    assert_type(model.strategy_, str)
    assert_type(model.n_iter_, np.ndarray)
    assert_type(model.history_, np.ndarray)
    assert_type(model.predict(X), np.ndarray)
    assert_type(model.decision_function(X), np.ndarray)
    assert_type(model.predict_proba(X), np.ndarray)
    assert_type(model.predict_log_proba(X), np.ndarray)


def searches(X: np.ndarray, y: np.ndarray) -> None:
    lasso = assert_type(CaLassoCV(cv=5).fit(X, y), CaLassoCV)
    assert_type(lasso.alpha_, float)
    assert_type(lasso.alphas_, np.ndarray)
    assert_type(lasso.coef_, np.ndarray)
    assert_type(lasso.intercept_, float)
    assert_type(lasso.mse_path_, np.ndarray)
    assert_type(lasso.dual_gap_, float)
    assert_type(lasso.predict(X), np.ndarray)
    logistic = assert_type(CaLogisticRegressionCV().fit(X, y), CaLogisticRegressionCV)
    assert_type(logistic.C_, float)
    assert_type(logistic.Cs_, np.ndarray)
    assert_type(logistic.coef_, np.ndarray)
    assert_type(logistic.intercept_, np.ndarray)
    assert_type(logistic.classes_, np.ndarray)
    assert_type(logistic.scores_, np.ndarray)
    assert_type(logistic.coefs_paths_, np.ndarray)
    assert_type(logistic.history_, np.ndarray | None)
    assert_type(logistic.predict_proba(X), np.ndarray)


def paths(X: np.ndarray, y: np.ndarray) -> None:
    lasso = assert_type(lasso_path(X, y), LassoPath)
    assert_type(lasso.coefs, np.ndarray)
    alphas, coefs, gaps = lasso
    assert_type(alphas, np.ndarray)
    assert_type(coefs, np.ndarray)
    assert_type(gaps, np.ndarray)
    logistic = assert_type(logistic_path(X, y, Cs=3), LogisticPath)
    assert_type(logistic.Cs, np.ndarray)
    assert_type(logistic.coefs, np.ndarray)
    assert_type(logistic.optimalities, np.ndarray)


def measures(points: np.ndarray) -> None:
    try:
        left = assert_type(recombine(points[:100], random_state=0), Recombination)
    except RecombinationError as error:
        assert_type(error, RecombinationError)
        return
    indices, weights = left
    assert_type(indices, np.ndarray)
    assert_type(weights, np.ndarray)
    assert_type(left.residual, float)
    right = (np.arange(100, 200), np.ones(100))
    assert_type(merge(points, [left, right]), Recombination)


def displays(X: np.ndarray, y: np.ndarray) -> None:
    model, search = CaLasso().fit(X, y), CaLassoCV().fit(X, y)
    run = assert_type(ConvergenceDisplay.from_estimator(model), ConvergenceDisplay)
    assert_type(run.plot(), ConvergenceDisplay)
    measure = assert_type(MeasureDisplay.from_estimator(model, X), MeasureDisplay)
    assert_type(measure.plot(), MeasureDisplay)
    path = assert_type(PathDisplay.from_estimator(search, X, y), PathDisplay)
    assert_type(path.plot(), PathDisplay)
    drawn = PathDisplay.from_path(*lasso_path(X, y)[:2])
    assert_type(drawn, PathDisplay)
    scores = assert_type(ValidationDisplay.from_estimator(search), ValidationDisplay)
    assert_type(scores.plot(), ValidationDisplay)


def sources(X: np.ndarray, y: np.ndarray) -> None:
    def open_chunks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield X, y

    with from_chunks(open_chunks) as source:
        assert_type(source, DataSource)
        assert_type(source.n_features, int)
        assert_type(source.feature_names, tuple[str, ...] | None)
        assert_type(CaLasso().fit(source).coef_, np.ndarray)
    assert_type(from_parquet("trips/*.parquet", target="fare"), DataSource)
    assert_type(from_parquet([Path("trips.parquet")], "fare", cache=False), DataSource)
    assert_type(from_dask(X, y), DataSource)
    assert_type(skcara.__version__, str)
