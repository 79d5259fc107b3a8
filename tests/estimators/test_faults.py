"""What goes wrong on the way leaves everything as it was, and says what it was.

Faults are injected where data are read: there every fit passes, many times.
"""

import copy
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Lock

import numpy as np
import pytest
from certificates import lasso_dual_gap, logistic_violation
from problems import classification, regression
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_info

from skcara import (
    CaLasso,
    CaLassoCV,
    CaLeastSquares,
    CaLogisticRegression,
    CaLogisticRegressionCV,
)
from skcara._sklearn_compat import HAS_CALLBACKS
from skcara.data import ArraySource
from skcara.recombination import _methods
from skcara.solvers.newton import _calibration

# Rows are cut into many chunks of this size: a fault can strike in any of them.
CHUNK_ROWS = 64
MODELS = [
    CaLeastSquares(),
    CaLasso(0.05),
    CaLogisticRegression(),
    CaLasso(0.05, solver="cagd"),
    CaLogisticRegression(solver="cabcd"),
    CaLassoCV(alphas=5, cv=3),
    CaLogisticRegressionCV(Cs=3, cv=3),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=str)


def data_for(model):
    is_classifier = model.__sklearn_tags__().estimator_type == "classifier"
    return (classification if is_classifier else regression)(n_rows=3000)


class FaultError(Exception):
    """Nobody else raises this."""


class Counter:
    """Counts chunks, and raises when one of them is read."""

    def __init__(self, number=None, error=None):
        self.n_chunks, self.number, self.error = 0, number, error
        self._lock = Lock()  # threads that count at once may step over the number

    def __call__(self):
        with self._lock:
            self.n_chunks += 1
            is_due = self.n_chunks == self.number
        if is_due:
            raise self.error


@pytest.fixture
def inject(monkeypatch):
    """Cut rows into small chunks, and let an error occur at one of them."""
    read, start = ArraySource._chunk, ArraySource.__init__

    def cut(source, *arguments, **options):
        start(source, *arguments, **options)
        source.chunk_rows = CHUNK_ROWS

    def prepare(number=None, error=None):
        counter = Counter(number, error)

        def chunk(source, *part):
            counter()
            return read(source, *part)

        monkeypatch.setattr(ArraySource, "_chunk", chunk)
        return counter

    monkeypatch.setattr(ArraySource, "__init__", cut)
    # Two chunks for each item of a pool: there are enough of them for its threads.
    monkeypatch.setattr("skcara.data._source.SPAN_CHUNKS", 2)
    return prepare


def world(*arrays):
    """What no fit may change."""
    return (
        [array.tobytes() for array in arrays],
        copy.deepcopy(np.random.get_state()[1].tolist()),
        [library["num_threads"] for library in threadpool_info()],
        list(warnings.filters),
        np.geterr(),
    )


def state(model):
    return {name: copy.deepcopy(value) for name, value in vars(model).items()}


def same(left, right):
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name])
        if isinstance(left[name], np.ndarray)
        else str(left[name]) == str(right[name])
        for name in left
    )


def moments(n_chunks):
    """Numbers of chunks from the first to the last of a fit."""
    return sorted({2, *np.linspace(1, n_chunks, 5).astype(int).tolist()})


@pytest.mark.parametrize(
    ("error", "n_jobs"),
    [(KeyboardInterrupt(), 1), (KeyboardInterrupt(), 2), (FaultError("torn"), 2)],
    ids=["interrupt", "interrupt-of-threads", "error-in-a-thread"],
)
@each_model
def test_an_error_at_any_moment_leaves_all_as_it_was(model, error, n_jobs, inject):
    X, y = data_for(model)
    model = clone(model).set_params(n_jobs=n_jobs)
    other = 2.0 * X
    counter = inject()
    clone(model).fit(other, y)
    inject()
    fitted = clone(model).fit(X, y)
    before, old = world(X, y, other), state(fitted)
    assert counter.n_chunks > 20
    for number in moments(counter.n_chunks):
        inject(number, error)
        with pytest.raises(type(error)) as raised:
            fitted.fit(other, y)
        assert raised.value is error
        assert same(state(fitted), old)
    inject(2, error)
    fresh = clone(model)
    with pytest.raises(type(error)):
        fresh.fit(other, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert world(X, y, other) == before
    inject()
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)


@each_model
def test_a_pool_of_threads_that_dies(model, inject, monkeypatch):
    X, y = data_for(model)
    inject()
    model = clone(model).set_params(n_jobs=2)
    fitted, submit = clone(model).fit(X, y), ThreadPoolExecutor.submit
    before, old, n_items = world(X, y), state(fitted), count()

    def die(executor, *arguments):
        if next(n_items) == 0:  # later ones need not be handed to threads
            executor.shutdown(wait=False)
        return submit(executor, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", die)
        with pytest.raises(RuntimeError, match="shutdown"):
            fitted.fit(X, y)
    assert same(state(fitted), old)
    assert world(X, y) == before
    np.testing.assert_array_equal(clone(model).fit(X, y).coef_, fitted.coef_)


class RaisingCallback:
    """A callback that fails at the end of a task."""

    def __init__(self, error):
        self.error = error

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, **options):
        raise self.error

    def teardown(self, estimator, context):
        pass


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has no callbacks")
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), FaultError("no disk")], ids=repr
)
@each_model
def test_a_callback_that_raises(model, error):
    X, y = data_for(model)
    fitted = clone(model).fit(X, y)
    before, old = world(X, y), state(fitted)
    fitted.set_callbacks(RaisingCallback(error))
    with pytest.raises(type(error)) as raised:
        fitted.fit(2.0 * X, y)
    assert raised.value is error
    new = state(fitted)
    assert same({name: new[name] for name in old}, old)
    assert world(X, y) == before


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@each_model
def test_bad_values_in_the_last_chunk_only(model, bad, inject):
    X, y = data_for(model)
    inject()
    fitted = clone(model).fit(X, y)
    old, spoilt = state(fitted), X.copy()
    spoilt[-1, -1] = bad
    before = world(spoilt, y)
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        fitted.fit(spoilt, y)
    assert same(state(fitted), old)
    assert world(spoilt, y) == before


def wrong_weights(reduce):
    """A method whose answer has the right rows and the wrong weights."""

    def garbage(*arguments, **options):
        indices, weights = reduce(*arguments, **options)[:2]
        return indices, weights * np.linspace(0.5, 1.5, len(weights))

    return garbage


GARBAGE = {
    "weights": wrong_weights,
    "not a number": lambda reduce: lambda *a, **o: (np.arange(2), np.full(2, np.nan)),
    "no rows": lambda reduce: lambda *a, **o: (np.arange(0), np.zeros(0)),
    "negative": lambda reduce: lambda *a, **o: (np.arange(2), np.array([2.0, -1.0])),
}
REDUCING = [
    CaLasso(0.05, solver="cagd", max_iter=5000),
    CaLasso(0.05, solver="cabcd", max_iter=5000),
    CaLogisticRegression(solver="cagd", max_iter=5000),
    CaLogisticRegression(solver="canewton", recombination="tree"),
]


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("model", REDUCING, ids=str)
def test_recombinations_that_return_garbage_cost_time_only(model, garbage, monkeypatch):
    for table in (_methods.METHODS, _methods.FALLBACKS):
        for name, reduce in table.items():
            monkeypatch.setitem(table, name, garbage(reduce))
    assert_reaches_the_optimum(clone(model))


def test_calibrations_that_return_garbage_cost_time_only(monkeypatch):
    calibrate = _calibration.calibrate

    def garbage(*arguments, **options):
        masses = calibrate(*arguments, **options)
        return None if masses is None else masses * np.linspace(0.5, 1.5, len(masses))

    monkeypatch.setattr(_calibration, "calibrate", garbage)
    monkeypatch.setattr("skcara.solvers._strategy._SMALL_ENTRIES", 0)
    assert_reaches_the_optimum(CaLogisticRegression(tol=1e-6), n_rows=60_000)


def assert_reaches_the_optimum(model, n_rows=3000):
    is_classifier = isinstance(model, CaLogisticRegression)
    X, y = (classification if is_classifier else regression)(n_rows=n_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    point = model.coef_, model.intercept_
    if is_classifier:
        codes = np.searchsorted(model.classes_, y)
        assert logistic_violation(X, codes, *point, model.C) <= 1.01 * model.tol
    else:
        assert lasso_dual_gap(X, y, *point, model.alpha) <= 1.01 * model.tol * y.var()
