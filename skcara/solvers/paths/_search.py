"""Paths of all folds from the moments of their atoms."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skcara.data import FoldBatch
from skcara.solvers.paths._basis import Basis, PathLoss
from skcara.solvers.paths._loss import Centre, loss_around
from skcara.solvers.paths._moments import AtomMoments, Moments, gamma
from skcara.solvers.paths._optimality import dual_gaps
from skcara.solvers.paths._path import solve_path
from skcara.solvers.paths._validation import validation_errors


@dataclass(frozen=True)
class SearchSettings:
    """What all folds of a search have in common.

    Attributes
    ----------
    n_features : int
    origin : ndarray of shape (n_columns,)
        What the means of the moments are relative to.
    fit_intercept, positive, standardize : bool
    target : int
        Number of the target.
    basis : Basis, optional
        If the moments are those of transformed features.
    """

    n_features: int
    origin: np.ndarray
    fit_intercept: bool = True
    positive: bool = False
    standardize: bool = False
    target: int = 0
    basis: Basis | None = None


@dataclass(frozen=True)
class TrainingProblem:
    """The loss of a training set, in the units its penalty is applied in.

    Attributes
    ----------
    loss : PathLoss
    centre : Centre
        What features and targets are measured from.
    scale : ndarray of shape (n_features,)
        What the features are divided by.
    """

    loss: PathLoss
    centre: Centre
    scale: np.ndarray

    @classmethod
    def of(cls, moments: Moments, settings: SearchSettings) -> "TrainingProblem":
        """The problem of the rows with these moments."""
        n_features = settings.n_features
        # A scaler takes the means out of the features, with or without an intercept.
        is_mean = np.full(len(moments.mean), settings.fit_intercept)
        is_mean[:n_features] |= settings.standardize
        zero, basis = -settings.origin, settings.basis
        if basis is not None:
            zero = basis.transform_columns(zero[None])[0]
        centre = Centre.of(moments, zero, is_mean)
        loss: PathLoss
        loss = inner = loss_around(moments, centre, n_features, settings.target)
        if basis is not None:
            loss = basis.loss(inner, moments, centre)
        scale = np.ones(n_features)
        if settings.standardize:
            deviation = np.sqrt(np.diagonal(loss.gram))
            scale = np.where(deviation > 0, deviation, 1.0)
            loss = loss.scaled(scale)
        return cls(loss, centre, scale)

    def offsets(self, coefs, settings: SearchSettings):
        """Predictions at the origin relative to that of the target, and their errors.

        For coefficients in the units of the user; both of shape (n_points,).
        """
        column = settings.n_features + settings.target
        level, error = self.centre.point[column], self.centre.error[column]
        moved, size, moved_error = self._moves(coefs, settings)
        rounding = gamma(4 * settings.n_features + 8) * (np.abs(level) + size)
        return level - moved, error + moved_error + rounding

    def _moves(self, coefs, settings):
        """How predictions change from the origin to the centre.

        With the sizes of the terms, and the errors of the centre.
        """
        n_features, basis = settings.n_features, settings.basis
        point, error = self.centre.point[:n_features], self.centre.error[:n_features]
        image, sizes = coefs, np.abs(coefs)
        if basis is not None:
            image, sizes = basis.factor @ coefs, np.abs(basis.factor) @ sizes
        return point @ image, np.abs(point) @ sizes, error @ sizes

    def intercepts(self, coefs, settings: SearchSettings):
        """Intercepts for coefficients in the units of the user, and their errors.

        An intercept that is fitted belongs to the centre, whatever that is. One that
        is none but the means of standardised features is as wrong as these are.

        Returns
        -------
        intercepts, errors : ndarray of shape (n_points,)
        """
        if not (settings.fit_intercept or settings.standardize):
            return np.zeros(coefs.shape[1]), np.zeros(coefs.shape[1])
        n_features, column = settings.n_features, settings.n_features + settings.target
        origin, level = settings.origin[:n_features], settings.origin[column]
        moved, size, error = self._moves(coefs, settings)
        # Zero without a fitted intercept: not even its rounding is left.
        height = level + self.centre.point[column]
        size = size + np.abs(origin) @ np.abs(coefs)
        if settings.fit_intercept:
            size, error = size + np.abs(level), np.zeros_like(error)
        intercepts = height - (moved + origin @ coefs)
        return intercepts, error + gamma(4 * n_features + 8) * size


class FoldPaths(NamedTuple):
    """What a search knows about its folds, or about one of them.

    Attributes
    ----------
    errors, bounds : ndarray of shape (n_folds, n_ratios, n_alphas)
        Mean squared errors on the held-out rows, and bounds on their rounding errors.
    gaps : ndarray of shape (n_folds, n_ratios, n_alphas)
        Bounds on the duality gaps on the training rows, relative to the mean square of
        the target there; NaN without a penalty.
    coefs : ndarray of shape (n_folds, n_ratios, n_features, n_alphas)
        In the units of the user.
    """

    errors: np.ndarray
    bounds: np.ndarray
    gaps: np.ndarray
    coefs: np.ndarray


class Fold(NamedTuple):
    """One fold of a search.

    Attributes
    ----------
    batch : int
        Number of the batch that the fold belongs to.
    counts : ndarray of int of shape (n_atoms,)
        How often the rows of an atom are in the test set.
    problem : TrainingProblem
    """

    batch: int
    counts: np.ndarray
    problem: TrainingProblem


def iterate_folds(
    batches: list[FoldBatch],
    moments: list[AtomMoments],
    grids: list[tuple[float, np.ndarray]],
    settings: SearchSettings,
) -> Iterator[tuple["Fold", FoldPaths]]:
    """Solve the paths of the folds and validate them on the held-out rows.

    Parameters
    ----------
    batches : list of FoldBatch
    moments : list of AtomMoments
        Of the atoms of each batch.
    grids : list of pairs (l1_ratio, alphas)
        All with the same number of penalties, in descending order.
    settings : SearchSettings

    Yields
    ------
    fold : Fold
    paths : FoldPaths
        Of this fold, arrays without the first axis.

    Raises
    ------
    ValueError
        If a training or test set has no weight.
    """
    number = 0
    for batch_number, (batch, atoms) in enumerate(zip(batches, moments, strict=True)):
        for counts in zip(batch.train, batch.test, strict=True):
            training, held_out = (atoms.combine(rows) for rows in counts)
            if not (training.weight > 0 and held_out.weight > 0):
                kind = "test" if training.weight > 0 else "training"
                raise ValueError(
                    f"Fold {number} has no {kind} rows of positive sample_weight."
                )
            number += 1
            problem = TrainingProblem.of(training, settings)
            paths = [
                _validated_path(problem, held_out, l1_ratio, alphas, settings)
                for l1_ratio, alphas in grids
            ]
            yield Fold(batch_number, counts[1], problem), _stacked(paths)


def search_folds(batches, moments, grids, settings) -> FoldPaths:
    """The paths of all folds, see :func:`iterate_folds`."""
    folds = [paths for _, paths in iterate_folds(batches, moments, grids, settings)]
    return _stacked(folds)


def _stacked(paths) -> FoldPaths:
    """Paths with one more axis, the first."""
    return FoldPaths(*(np.stack(part) for part in zip(*paths, strict=True)))


def _validated_path(problem, held_out, l1_ratio, alphas, settings):
    loss = problem.loss
    coefs = solve_path(loss, alphas, l1_ratio, settings.positive)
    l1, l2 = alphas * l1_ratio, alphas * (1.0 - l1_ratio)
    gaps = dual_gaps(loss, coefs, l1, l2, settings.positive)
    gaps = np.divide(gaps, loss.square, where=loss.square > 0, out=gaps)
    coefs = coefs / problem.scale[:, None]
    errors, bounds = validation_errors(
        held_out,
        problem.centre,
        coefs,
        settings.n_features,
        settings.target,
        settings.basis,
    )
    return errors, bounds, gaps, coefs
