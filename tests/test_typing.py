"""Declared types are those of real fits, and all public names have them."""

import inspect
import re
import types
import typing
from pathlib import Path

import numpy as np
import pytest

import skcara
import skcara.io

CASES = (Path(__file__).parent / "typing_cases.py").read_text()
RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
NUMBERS = X @ [1.0, 2.0, 0.0] + RNG.standard_normal(60)
SEVERAL, CLASSES = np.column_stack([NUMBERS, X[:, 0]]), np.sign(NUMBERS.round())
FITS = [
    (skcara.CaLasso(alpha=0.1), NUMBERS),
    (skcara.CaLasso(alpha=0.1), SEVERAL),
    (skcara.CaLeastSquares(), NUMBERS),
    (skcara.CaLeastSquares(fit_intercept=False), NUMBERS),
    (skcara.CaLogisticRegression(), NUMBERS > 0),
    (skcara.CaLogisticRegression(solver="cagd"), CLASSES),
    (skcara.CaLassoCV(alphas=5), NUMBERS),
    (skcara.CaLogisticRegressionCV(Cs=3), NUMBERS > 0),
    (skcara.CaLogisticRegressionCV(Cs=3, refit=False), NUMBERS > 0),
]
PUBLIC = {
    name: getattr(module, name)
    for module in (skcara, skcara.io)
    for name in module.__all__
    if not name.startswith("__")
}


def is_of(value, declared) -> bool:
    """Whether a value has a declared type; numbers of NumPy are not of Python."""
    origin = typing.get_origin(declared)
    if origin in (types.UnionType, typing.Union):
        return any(is_of(value, one) for one in typing.get_args(declared))
    if origin is list:
        (entry,) = typing.get_args(declared)
        return isinstance(value, list) and all(is_of(one, entry) for one in value)
    return isinstance(value, declared)


def declared_attributes(estimator) -> dict:
    hints = typing.get_type_hints(type(estimator))
    return {name: one for name, one in hints.items() if name.endswith("_")}


@pytest.mark.parametrize(("estimator", "target"), FITS)
def test_fitted_attributes_have_the_declared_types(estimator, target):
    model, declared = estimator.fit(X, target), declared_attributes(estimator)
    fitted = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }
    assert fitted.keys() - declared.keys() == set()
    assert declared.keys() - fitted.keys() <= {"feature_names_in_"}
    for name, value in fitted.items():
        assert is_of(value, declared[name]), (name, type(value), declared[name])


def own_callables(name):
    """A public function, or the public methods of a class that the package defines."""
    value = PUBLIC[name]
    if not inspect.isclass(value):
        return [value]
    methods = [
        getattr(member, "__func__", member)
        for base in value.__mro__
        if base.__module__.startswith("skcara")
        for key, member in vars(base).items()
        if not key.startswith("_")
    ]
    return [method for method in methods if inspect.isfunction(method)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_say_what_they_return_and_are_checked(name):
    for function in own_callables(name):
        assert "return" in function.__annotations__, function.__qualname__
    # Once where it is imported, and where it is used.
    assert len(re.findall(rf"\b{name}\b", CASES)) > 1
