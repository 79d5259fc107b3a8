"""What the two search classes share: the splitter, and what is routed to it.

The parameter ``cv`` is what scikit-learn's search classes take: a number of folds, a
splitter, or an iterable of index pairs. Groups and other metadata reach a splitter by
scikit-learn's routing, and by nothing else.
"""

import reprlib
from collections.abc import Generator, Iterable, Iterator, Sized
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)

from skcara._sklearn_compat import raise_for_params, routing_enabled
from skcara.data import FoldBatch, Source, fold_batches, most_atoms
from skcara.estimators._partitions import partition_labels
from skcara.passes import GatherColumns, RowColumns

# What scikit-learn makes of an iterable of index pairs.
_ListOfFolds = type(check_cv([]))
# Splitters that look at the number of rows, and at groups, but not at targets. An
# iterable of index pairs looks at nothing.
_BLIND_SPLITTERS = (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    _ListOfFolds,
)


def _checked_splits(splits: Iterable, n_rows: int) -> Iterator[tuple]:
    """Yield the pairs of a splitter, and refuse what is none."""
    for number, fold in enumerate(splits):
        is_pair = isinstance(fold, Sized) and len(fold) == 2
        if not is_pair or not all(_are_rows(one, n_rows) for one in fold):
            raise ValueError(
                "The folds of cv must be pairs (train, test) of row numbers from 0 to "
                f"{n_rows - 1}, or of masks of {n_rows} rows; fold {number} is "
                f"{reprlib.repr(fold)}."
            )
        yield tuple(fold)
        # Not in memory while the splitter makes the next one.
        del fold


def _are_rows(chosen, n_rows: int) -> bool:
    """Whether something is a list of rows; negative numbers count from the end."""
    chosen = np.asarray(chosen)
    if chosen.dtype == bool:
        return chosen.shape == (n_rows,)
    if chosen.ndim != 1 or not chosen.size:
        return chosen.ndim == 1
    if chosen.dtype.kind not in "iu":
        return False
    return bool(chosen.min() >= -n_rows and chosen.max() < n_rows)


class CrossValidatedMixin:
    """Mixin of estimators with the parameter ``cv``."""

    cv: Any

    def get_metadata_routing(self) -> MetadataRouter:
        """Get metadata routing of this object.

        Returns
        -------
        routing : MetadataRouter
            What ``fit`` takes itself, and what it hands to the splitter.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                # Not through ``check_cv``, which would use up an iterator.
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def _route_fit_params(self, sample_weight, params: dict) -> Bunch:
        """Parameters of ``fit`` by consumer, ``splitter.split`` among them.

        Parameters
        ----------
        sample_weight : array-like or None
            What ``fit`` was given.
        params : dict
            The other parameters of ``fit``; refused unless routing is enabled.
        """
        raise_for_params(params, self, "fit")
        if not routing_enabled():
            return Bunch(splitter=Bunch(split={}))
        return process_routing(self, "fit", sample_weight=sample_weight, **params)

    def _fold_batches(self, X, y, codes, split_params: dict) -> list[FoldBatch]:
        """Atoms of the rows of all folds, see :func:`skcara.data.fold_batches`.

        Folds of a number are stratified for classifiers.

        Parameters
        ----------
        X, y
            What the splitter is shown.
        codes : ndarray of int of shape (n_rows,) or None
            Classes of the rows; None in a regression.
        split_params : dict
            What is routed to the splitter.
        """
        splitter = check_cv(self.cv, y, classifier=is_classifier(self))
        return self._batches(splitter, X, y, codes, split_params)

    def _source_batches(
        self, source: Source, split_params: dict, *, with_columns: bool = False
    ) -> Generator[Any, Any, tuple[list[FoldBatch], RowColumns | None]]:
        """Atoms of the rows of all folds of a source.

        The splitter is told the number of rows. Their targets, the codes of classes,
        are gathered only if it asks for them, or if somebody else will.

        Parameters
        ----------
        source : Source
            Without class weights.
        split_params : dict
            What is routed to the splitter.
        with_columns : bool
            Whether targets and weights are asked for in any case.

        Returns
        -------
        batches : list of FoldBatch
        columns : RowColumns or None
        """
        is_classification = is_classifier(self)
        # Of two classes or of none, for folds of a number.
        example = np.arange(2) if is_classification else None
        splitter = check_cv(self.cv, example, classifier=is_classification)
        columns = codes = target = None
        if with_columns or type(splitter) not in _BLIND_SPLITTERS:
            columns = yield GatherColumns()
            target = columns.target
            codes = target if is_classification else None
        # Nothing but its length; it takes no memory.
        X = np.broadcast_to(np.int8(0), (source.facts.n_rows, source.facts.n_features))
        return self._batches(splitter, X, target, codes, split_params), columns

    def _batches(self, splitter, X, y, codes, split_params):
        n_rows, max_atoms = X.shape[0], most_atoms(*X.shape)
        n_folds = getattr(splitter, "n_splits", max_atoms + 1)
        if n_folds <= max_atoms:
            labels = partition_labels(splitter, n_rows, codes)
            if labels is not None:
                return [FoldBatch.of_partition(labels, n_folds)]
        # What is in a list is looked at before somebody tries to unpack it.
        is_list = isinstance(splitter, _ListOfFolds)
        splits = splitter.cv if is_list else splitter.split(X, y, **split_params)
        batches = fold_batches(_checked_splits(splits, n_rows), n_rows, max_atoms)
        if not batches:
            raise ValueError(f"cv={self.cv!r} yields no folds; at least 1 is needed.")
        return batches
