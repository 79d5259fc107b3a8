"""Rows, folds and scores of a search over penalties of logistic regression."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skcara.data import (
    Chunk,
    FoldSets,
    Source,
    row_labels,
)
from skcara.estimators._class_weight import ClassWeights
from skcara.estimators._held_out import FoldScoring
from skcara.estimators._inputs import array_source
from skcara.estimators._validation import (
    check_sample_weight,
    encode_labels,
    single_target,
)
from skcara.passes import AtomMasses
from skcara.solvers import drive_search

# Labels are counted in parts, so that no second array of all of them is made.
_PART_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class SearchData:
    """What a search reads, and how it is scored.

    Attributes
    ----------
    source : Source
        Its weights are those of the rows times those of their classes.
    sets : FoldSets
    labels : labels
        Atoms of the rows by their numbers.
    classes : ndarray of shape (n_classes,)
    class_factors : ndarray of shape (n_classes,) or None
        Weights of the classes.
    masses : list of ndarray of shape (n_atoms, n_classes) or None
        Weights of the atoms by class, for each batch of folds; None if nobody knows
        them before the rows are read.
    scoring : FoldScoring
    uses_losses : bool
        Whether scores are the mean losses that the search knows anyway.
    """

    source: Source
    sets: FoldSets
    labels: Any
    classes: np.ndarray
    class_factors: np.ndarray | None
    masses: list[np.ndarray] | None
    scoring: FoldScoring
    uses_losses: bool

    @property
    def inverse_factors(self) -> np.ndarray | None:
        """What takes the weights of the classes back; zero where they are zero."""
        factors = self.class_factors
        if factors is None:
            return None
        return np.divide(1.0, factors, where=factors > 0, out=0.0 * factors)

    def set_weights(self, masses: list[np.ndarray]):
        """Weights of the training sets, with class weights, and of the test sets.

        Raises
        ------
        ValueError
            If a set has no weight.
        """
        factors = self.inverse_factors
        train, test = self.sets.totals([mass.sum(axis=1) for mass in masses])
        if factors is not None:
            _, test = self.sets.totals([mass @ factors for mass in masses])
        for name, weights in (("training", train), ("test", test)):
            if not weights.all():
                fold = int(np.argmin(weights))
                raise ValueError(
                    f"The {name} set of fold {fold} has no rows of positive weight; "
                    "choose another cv."
                )
        return train, test

    def folds_without_class(self, masses: list[np.ndarray]) -> list[int]:
        """Folds whose training sets have no rows of some class that has a weight."""
        trained = np.array(
            [
                self.sets.totals([mass[:, number] for mass in masses])[0]
                for number in range(len(self.classes))
            ]
        )
        is_used = sum(mass.sum(axis=0) for mass in masses) > 0
        return np.flatnonzero((trained[is_used] == 0).any(axis=0)).tolist()


def data_of_arrays(model, X, y, sample_weight, routed, *, n_jobs) -> SearchData:
    """Data of a search on rows in memory.

    Parameters
    ----------
    model : ScoredMixin
        A classifier with ``class_weight``.
    X : ndarray or CSR matrix
        Checked.
    y, sample_weight
        What ``fit`` was given.
    routed : Bunch
        Parameters of the splitter and of the scorer.
    n_jobs : int or None
    """
    y = single_target(y)
    classes, codes = encode_labels(y)
    weights = check_sample_weight(sample_weight, X.shape[0])
    batches = model._fold_batches(X, y, codes, routed.splitter.split)
    train_weights, factors = weights, None
    if model.class_weight is not None:
        train_weights = ClassWeights(model.class_weight, classes, codes, weights)
        factors = train_weights.factors
    labels, sets = row_labels(batches), FoldSets(batches)
    scoring = FoldScoring(
        model._get_scorer(), classes, batches, y, routed.scorer.score, rows=X
    )
    return SearchData(
        array_source(X, codes, train_weights, atom=labels, n_jobs=n_jobs),
        sets,
        labels,
        classes,
        factors,
        _known_masses(sets, labels, codes, train_weights, len(classes)),
        scoring,
        model._scores_are_losses(factors, weights is not None, scoring),
    )


def _known_masses(sets, labels, codes, weights, n_classes):
    """Weights of atoms and classes; reads no features."""
    task, masses = AtomMasses(sets.n_atoms, n_classes), None
    for start in range(0, len(codes), _PART_ROWS):
        part = slice(start, start + _PART_ROWS)
        own = None if weights is None else weights[part]
        terms = task.visit(Chunk(start, None, codes[part], own, labels[part]))
        masses = terms if masses is None else task.merge(masses, terms)
    return masses


def data_of_source(model, data, routed) -> tuple[SearchData, float]:
    """Data of a search on rows that are not in memory, and reads that it took.

    Parameters
    ----------
    model : ScoredMixin
        A classifier with ``class_weight``.
    data : DataSource
    routed : Bunch
        Parameters of the splitter and of the scorer.
    """
    classes, plain = data.for_classification()
    has_weights, params = plain.facts.has_weights, dict(routed.scorer.score)
    if has_weights:
        params["sample_weight"] = None
    scorer, factors, source = model._get_scorer(), None, plain
    if model.class_weight is not None:
        _, source = data.for_classification(model.class_weight)
        factors = source.class_factors
    scoring = FoldScoring(scorer, classes, [], None, params)
    uses_losses = model._scores_are_losses(factors, has_weights, scoring)
    if not scoring.is_plain:
        raise ValueError(
            f"scoring={model.scoring!r} is given the held-out rows, which are not in "
            "memory. Choose a name of sklearn.metrics.get_scorer_names() or a scorer "
            "of sklearn.metrics.make_scorer."
        )
    (batches, columns), passes = drive_search(
        model._source_batches(
            plain,
            routed.splitter.split,
            with_columns=not (uses_losses or scoring.counts_classes),
        ),
        plain.with_idle_rows(),
    )
    labels, sets, masses = row_labels(batches), FoldSets(batches), None
    if columns is not None:
        codes, weights = columns
        if has_weights:
            params["sample_weight"] = weights
        scoring = FoldScoring(scorer, classes, batches, classes.take(codes), params)
        masses = _known_masses(sets, labels, codes, weights, len(classes))
        if factors is not None:
            masses = [mass * factors for mass in masses]
    search_data = SearchData(
        source.with_atoms(labels),
        sets,
        labels,
        classes,
        factors,
        masses,
        scoring,
        uses_losses,
    )
    return search_data, passes
