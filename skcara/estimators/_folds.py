"""What the two search classes share: the splitter, and what is routed to it.

The parameter ``cv`` is what scikit-learn's search classes take: a number of folds, a
splitter, or an iterable of index pairs. Groups and other metadata reach a splitter by
scikit-learn's routing, and by nothing else.
"""

from typing import Any

from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)

from skcara._sklearn_compat import partition_of, raise_for_params, routing_enabled
from skcara.data import FoldBatch, fold_batches


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

    def _fold_batches(
        self, X, y, split_params: dict, max_atoms: int
    ) -> list[FoldBatch]:
        """Atoms of the rows of all folds, see :func:`skcara.data.fold_batches`.

        Folds of a number are stratified for classifiers.

        Parameters
        ----------
        X, y
            What the splitter is shown.
        split_params : dict
            What is routed to it.
        max_atoms : int
            Most atoms that folds share.
        """
        splitter = check_cv(self.cv, y, classifier=is_classifier(self))
        test_sets = partition_of(splitter, X)
        if test_sets is not None and splitter.get_n_splits() <= max_atoms:
            return [FoldBatch.of_partition(test_sets, X.shape[0])]
        splits = splitter.split(X, y, **split_params)
        batches = fold_batches(splits, X.shape[0], max_atoms)
        if not batches:
            raise ValueError(f"cv={self.cv!r} yields no folds; at least 1 is needed.")
        return batches
