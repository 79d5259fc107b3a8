"""A wrong argument is an error that names the parameter and what it may be."""

import inspect

import numpy as np
import pytest

import skcara

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
NUMBERS = X[:, 0] + RNG.standard_normal(60)
LABELS = NUMBERS > 0
ESTIMATORS = {
    skcara.CaLeastSquares: NUMBERS,
    skcara.CaLasso: NUMBERS,
    skcara.CaLogisticRegression: LABELS,
    skcara.CaLassoCV: NUMBERS,
    skcara.CaLogisticRegressionCV: LABELS,
}
PATHS = {skcara.lasso_path: NUMBERS, skcara.logistic_path: LABELS}
# No parameter takes any of these; numbers that some parameters take are below.
WRONG = [object(), "nonsense", np.nan, ("a", "b")]


def calls():
    """Every parameter with a function that is called with a value of it."""
    for estimator, y in ESTIMATORS.items():
        for name in estimator().get_params():

            def fit(value, estimator=estimator, name=name, y=y):
                return estimator(**{name: value}).fit(X, y)

            yield pytest.param(name, fit, id=f"{estimator.__name__}-{name}")
    for path, y in PATHS.items():
        for name, parameter in inspect.signature(path).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY and name != "sample_weight":

                def call(value, path=path, name=name, y=y):
                    return path(X, y, **{name: value})

                yield pytest.param(name, call, id=f"{path.__name__}-{name}")


CALLS = list(calls())


@pytest.mark.parametrize(("name", "call"), CALLS)
@pytest.mark.parametrize("value", WRONG, ids=["object", "text", "nan", "texts"])
def test_wrong_types_are_named(name, call, value):
    with pytest.raises((ValueError, TypeError), match=rf"{name}.* must be"):
        call(value)


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_numbers_below_their_range_are_named(name, call):
    if name in {"n_jobs"}:
        pytest.skip("minus one means all cores")
    with pytest.raises((ValueError, TypeError), match=rf"{name}.* must be"):
        call(-1)


FIRST, SECOND = np.arange(30), np.arange(30, 60)
WRONG_FOLDS = {
    "a number": 1,
    "one set": (FIRST,),
    "three sets": (FIRST, SECOND, FIRST),
    "texts": (FIRST, ["a", "b"]),
    "fractions": (FIRST, [30.5, 31.0]),
    "no sets": (None, None),
    "a single row": (FIRST, 30),
    "a matrix": (FIRST, SECOND.reshape(2, 15)),
    "rows behind the last": (FIRST, [60]),
    "rows before the first": (FIRST, [-61]),
    "a short mask": (FIRST, np.ones(59, dtype=bool)),
}


@pytest.mark.parametrize("fold", WRONG_FOLDS.values(), ids=WRONG_FOLDS)
@pytest.mark.parametrize(("name", "call"), [c for c in CALLS if "-cv" in c.id])
def test_folds_that_are_no_sets_of_rows_are_named(name, call, fold):
    with pytest.raises(ValueError, match=r"folds of cv must be pairs.* fold 1 is"):
        call([(FIRST, SECOND), fold])


@pytest.mark.parametrize(("name", "call"), [c for c in CALLS if "-cv" in c.id])
def test_folds_may_be_lists_masks_and_numbers_from_the_end(name, call):
    is_first = np.arange(60) < 30
    wanted = call([(FIRST, SECOND), (SECOND, FIRST)])
    found = call([[is_first, list(range(-30, 0))], (~is_first, range(30))])
    assert np.array_equal(wanted.coef_, found.coef_)


@pytest.mark.parametrize(("name", "call"), [c for c in CALLS if "n_jobs" in c.id])
def test_no_threads_at_all_are_refused(name, call):
    with pytest.raises(ValueError, match=r"'n_jobs' .* must be"):
        call(0)


def test_one_ratio_for_a_path():
    with pytest.raises(ValueError, match=r"'l1_ratio' .* lasso_path must be a float"):
        skcara.lasso_path(X, NUMBERS, l1_ratio=[0.5, 1.0])


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_paths_take_generators(make):
    wanted = skcara.logistic_path(X, LABELS, random_state=make(3))
    found = skcara.logistic_path(X, LABELS, random_state=make(3))
    assert np.array_equal(wanted.coefs, found.coefs)
