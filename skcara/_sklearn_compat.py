"""The only module that touches names of scikit-learn that are private or recent.

scikit-learn 1.9 brought callbacks; below that version the mixin does nothing.
"""

import inspect
from collections.abc import Callable
from functools import cache, lru_cache
from inspect import signature
from typing import TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.metrics import make_scorer
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    validate_parameter_constraints,
    validate_params,
)
from sklearn.utils.metadata_routing import _raise_for_params as raise_for_params
from sklearn.utils.metadata_routing import _routing_enabled as routing_enabled

try:
    from sklearn.callback import CallbackSupportMixin

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn < 1.9
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in without callbacks."""


# Values that never change, and mean the same wherever they are equal.
_PLAIN_TYPES = frozenset({bool, float, int, str})


class CachedSignatureMixin:
    """Reads the signature of an estimator once, not in every fit and every clone.

    Defaults are known to be valid, so that a fit validates only what differs from them,
    and the same number or name only once.
    """

    _parameter_constraints: dict

    @classmethod
    @cache
    def _get_param_names(cls):
        # The method of BaseEstimator, which comes after this mixin.
        return super()._get_param_names()  # type: ignore[misc]

    @classmethod
    @cache
    def _defaults(cls):
        parameters = inspect.signature(cls).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    def _validate_params(self):
        for name, default in self._defaults().items():
            value = getattr(self, name)
            # Equal numbers of different types are not equally valid, and arrays have
            # no single answer.
            is_same = type(value) is type(default) and value == default
            if value is default or is_same:
                continue
            if type(value) in _PLAIN_TYPES:
                self._validate_once(name, value)
            else:
                self._validate(name, value)

    @classmethod
    def _validate(cls, name, value):
        validate_parameter_constraints(
            cls._parameter_constraints, {name: value}, caller_name=cls.__name__
        )

    @classmethod
    @lru_cache(maxsize=1024, typed=True)
    def _validate_once(cls, name, value):
        # What raises is not remembered.
        cls._validate(name, value)


class ShortReprMixin:
    """Says how many fields a structured array has, where notebooks list them all."""

    def _get_fitted_attr_html(self, doc_link=""):
        # Called by scikit-learn >= 1.9 only, whose BaseEstimator comes after this.
        shown = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        for entry in shown.values():
            names = getattr(entry.get("dtype"), "names", None)
            if names is not None:
                entry["dtype"] = f"{len(names)} fields"
        return shown


def kfold_test_sets(splitter, n_rows: int):
    """Test sets of a KFold, without the training sets."""
    return splitter._iter_test_indices(np.empty((n_rows, 0)))


def is_plain_scorer(scorer) -> bool:
    """Whether a scorer looks at predictions and targets only, not at the rows."""
    return hasattr(scorer, "_score_func")


def score_function(scorer):
    """Function of targets and predictions of a plain scorer."""
    return scorer._score_func


def scorer_with_labels(scorer, classes):
    """Tell a scorer of ``make_scorer`` all classes: a fold may not have them all."""
    if not is_plain_scorer(scorer):
        return scorer
    accepted = signature(scorer._score_func).parameters
    if "labels" not in accepted:
        return scorer
    labels = {"labels": classes}
    if len(classes) == 2 and "pos_label" in accepted:
        labels["pos_label"] = classes[-1]
    return make_scorer(
        scorer._score_func,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **{**labels, **scorer._kwargs},
    )


def has_callbacks(estimator) -> bool:
    """Whether somebody listens: without callbacks their bookkeeping can be spared."""
    return hasattr(estimator, "_skl_callbacks")


_Method = TypeVar("_Method", bound=Callable)


def fit_context(fit: _Method) -> _Method:
    """Decorate a method ``fit``: it validates parameters, and keeps its type."""
    decorated: _Method = _fit_context(prefer_skip_nested_validation=True)(fit)
    return decorated


def validated(constraints: dict, **own: list) -> Callable[[_Method], _Method]:
    """Decorate a function: it checks its parameters as an estimator does.

    Parameters
    ----------
    constraints : dict
        Of an estimator; names that the function does not have do not matter.
    **own : list
        Constraints of names that the estimator does not have or explains otherwise.
    """

    def decorate(function: _Method) -> _Method:
        names = signature(function).parameters
        known = {k: v for k, v in (constraints | own).items() if k in names}
        decorated: _Method = validate_params(known, prefer_skip_nested_validation=True)(
            function
        )
        return decorated

    return decorate


__all__ = [
    "HAS_CALLBACKS",
    "CachedSignatureMixin",
    "CallbackSupportMixin",
    "Interval",
    "ShortReprMixin",
    "StrOptions",
    "fit_context",
    "has_callbacks",
    "is_plain_scorer",
    "kfold_test_sets",
    "raise_for_params",
    "routing_enabled",
    "score_function",
    "scorer_with_labels",
    "validated",
]
