"""Quadratic models of the columns of a search: which Hessians, and who pays for them.

Hessians of the sample cost no read and are shared by all folds of a penalty. Hessians
of all rows cost one read for as many columns as fit into memory.
"""

from collections.abc import Generator
from typing import Any

import numpy as np

from skcara.passes import FoldHessians
from skcara.solvers._quadratic import penalised_model
from skcara.solvers.paths._fold_column import Column, Quality
from skcara.solvers.paths._fold_problems import FoldProblems
from skcara.solvers.paths._fold_sample import FoldSample
from skcara.solvers.paths._near_hessians import NearHessians

# Disappointing steps after which a Hessian of all rows is worth its price.
_PATIENCE = 2
# Share of the memory of X that the Hessians of one read may take.
_MODEL_SHARE, _FREE_MODEL_BYTES = 0.05, 2**23


class FoldModels:
    """Makes the models of columns.

    Parameters
    ----------
    problems : FoldProblems
    """

    def __init__(self, problems: FoldProblems):
        self._problems, self._full = problems, problems.all_rows
        self._model_bytes = 8 * self._full.n_coords**2
        self._affordable_bytes = max(
            _MODEL_SHARE * 8 * self._full.facts.n_entries, _FREE_MODEL_BYTES
        )

    def use_sample(
        self, sample: FoldSample, columns: list[Column], *, at_anchors: bool = True
    ) -> None:
        """Hessians of the sample, at one point for alike columns of a penalty.

        The points are the anchors, as far as there are any, or those that were read
        last.
        """
        for group in by_penalty(columns):
            params = [column.base if at_anchors else column.params for column in group]
            folds = np.array([column.fold for column in group])
            hessians = NearHessians(sample).near(np.array(params), folds)
            for column, hessian in zip(group, hessians, strict=True):
                self._use(column, hessian, Quality.SAMPLE)

    def use_all_rows(self, sample: FoldSample, columns: list[Column]) -> None:
        """Hessians at the anchors of the columns, from a sample that has all rows."""
        for column in columns:
            predictions = sample.rows @ column.base
            hessian = sample.hessian(predictions, sample.weights[column.fold])
            self._use(column, hessian, Quality.OWN_POINT)

    def improve(self, poor: list[Column]) -> Generator[Any, Any, None]:
        """Read Hessians of all rows for columns that make no progress.

        First at one point for all such folds of a penalty, then each at its own.
        Secant updates may do for less what a Hessian of all rows would, so columns
        have to disappoint more than once. Those that make progress keep their models:
        a point between them and folds that do not may be far from both.
        """
        stuck = [one for one in poor if one.n_poor >= _PATIENCE]
        sampled = {one.number for one in stuck if one.quality is Quality.SAMPLE}
        groups = [
            (group, Quality.SHARED_POINT)
            for group in by_penalty(poor)
            if group[0].number in sampled
        ]
        groups += [
            ([column], Quality.OWN_POINT)
            for column in stuck
            if column.quality is not Quality.SAMPLE
        ]
        yield from self._read(groups)

    def _read(self, groups):
        """Hessians of all rows for groups of columns, as many as fit into memory."""
        problems, budget = self._problems, self._affordable_bytes
        chosen: list[tuple[list[Column], Quality]] = []
        for group, quality in groups:
            budget -= self._model_bytes * len(group)
            if not chosen or budget > 0:
                chosen.append((group, quality))
        if not chosen:
            return
        params = [
            np.mean([column.base for column in group], axis=0) for group, _ in chosen
        ]
        folds = [np.array([column.fold for column in group]) for group, _ in chosen]
        answers = yield FoldHessians(
            problems.coordinates, problems.loss, problems.sets, np.array(params), folds
        )
        for (group, quality), hessians in zip(chosen, answers, strict=True):
            for column, hessian in zip(group, hessians, strict=True):
                weight = problems.train_weights[column.fold]
                self._use(column, hessian / weight, quality)

    def _use(self, column, hessian, quality):
        penalty = column.problem.penalty
        model = penalised_model(hessian.copy(), penalty, self._full.n_outputs)
        column.use_model(model, quality)


def by_penalty(columns: list[Column]) -> list[list[Column]]:
    """Columns with the same penalty together, in the order of the penalties."""
    groups: dict[int, list[Column]] = {}
    for column in columns:
        groups.setdefault(column.number, []).append(column)
    return [groups[number] for number in sorted(groups)]
