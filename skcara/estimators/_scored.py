"""The parameter ``scoring`` of a search: which scorer, and what is routed to it."""

from typing import Any

from sklearn.metrics import get_scorer
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)

from skcara._sklearn_compat import raise_for_params, routing_enabled
from skcara.estimators._folds import CrossValidatedMixin

_DEFAULT_SCORING = "neg_log_loss"


class ScoredMixin(CrossValidatedMixin):
    """Mixin of searches with the parameters ``cv`` and ``scoring``."""

    scoring: Any

    def _get_scorer(self):
        return get_scorer(self.scoring or _DEFAULT_SCORING)

    def get_metadata_routing(self) -> MetadataRouter:
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

    def _scores_are_losses(self, factors, has_weights: bool, scoring) -> bool:
        """Whether scores are the mean losses that the search knows anyway."""
        if self.scoring not in (None, _DEFAULT_SCORING):
            return False
        if factors is not None and not factors.all():
            return False
        names = set(scoring.params)
        return names == ({"sample_weight"} if has_weights else set())
