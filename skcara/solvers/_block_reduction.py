r"""From the full data to a few weighted rows with the same block gradient.

The pass that gives the gradient also gives its sums over groups of consecutive rows.
The groups are recombined first, then the rows of the few groups that survive, so that
the per-row gradients of the data are never all in memory.

.. math:: \sum_{k} w_k\, \nabla_B \ell_{i_k} = \sum_i \mu_i \nabla_B \ell_i

with at most block size + 1 atoms, and for the squared loss, where second moments are
matched as well, also the same Hessian of the block.
"""

from functools import cached_property

import numpy as np

from skcara.recombination import RecombinationError, recombine, recombine_groups
from skcara.solvers._group_moments import GroupedCurvature, column_pairs
from skcara.solvers._inner import ReducedGradient
from skcara.solvers._rounds import Measure

# Most statistics for which second moments are matched: blocks of up to five columns.
_MAX_SECOND_ORDER = 20
# A measure that misses a moment by more than this, relative to the size of the
# statistics, is not used; methods that work reach 1e-13.
_MAX_RESIDUAL = 1e-9
# Up to this many rows a step on all of them costs no more than one on a few. Without a
# choice of rows, repeating a row is also the same as giving it more weight.
_FEW_ROWS = 64
# Bytes of the group sums of a pass.
_MAX_GROUP_BYTES = 2**26


def n_second_order(block_size):
    """Number of statistics of a block when second moments are matched too."""
    return block_size * (block_size + 3) // 2


def can_match_second_order(block_size):
    """Whether second moments of a block are few enough to be matched."""
    return n_second_order(block_size) <= _MAX_SECOND_ORDER


def balanced_group_rows(problem, n_statistics):
    """Rows of a group for which both levels of the recombination cost the same.

    With m rows a group there are N / m groups to recombine, then the (n_statistics +
    1) m rows of the survivors.

    Parameters
    ----------
    problem : Problem
        The full data.
    n_statistics : int
        Statistics that are matched at a time.

    Returns
    -------
    group_rows : int
        A power of two, at most ``problem.design.chunk_rows``.
    """
    balanced = np.sqrt(problem.n_rows / (n_statistics + 1))
    affordable = problem.n_rows * problem.n_coords * 8 / _MAX_GROUP_BYTES
    exponent = int(np.ceil(np.log2(max(balanced, affordable, 1.0))))
    return min(2**exponent, problem.design.chunk_rows)


class BlockReducer:
    """Builds reduced measures for the blocks of a problem.

    Parameters
    ----------
    problem : Problem
        The full data.
    method : str
        Recombination method.
    curvature : BoundedCurvature
        If it is a :class:`GroupedCurvature`, second moments are matched too.
    """

    def __init__(self, problem, method, curvature):
        self.problem = problem
        self.method = method
        grouped = isinstance(curvature, GroupedCurvature)
        self._curvature = curvature if grouped else None

    def reduce(self, evaluation, block, seed):
        """Reduce the data for one block.

        Parameters
        ----------
        evaluation : Evaluation
            At the anchor, with the sums of the groups.
        block : ndarray of shape (block_size,)
            Flat coordinates.
        seed : int
            Seed of the randomised methods.

        Returns
        -------
        measure : Measure
            Rows and weights.
        gradient : ReducedGradient
            Gradient of the block under the measure.

        Raises
        ------
        RecombinationError
            If no sufficiently exact measure was found.
        """
        problem, groups = self.problem, evaluation.groups
        if problem.n_rows <= _FEW_ROWS:
            return self._keep_all(evaluation, block)
        sums = groups.sums[:, block]
        if self._curvature is not None:
            sums = np.hstack([sums, self._curvature.group_products(block)])
        survivors = recombine_groups(
            sums,
            groups.masses,
            groups.offsets,
            self._row_weights,
            method=self.method,
            random_state=seed,
        )
        _check_residual(survivors)
        # A deterministic method would find nearly the same atoms at every anchor and
        # inherit their curvature for ever; in random order its choices average out.
        order = np.random.RandomState(seed).permutation(survivors.indices.size)
        indices, weights = survivors.indices[order], survivors.weights[order]
        rows = _BlockRows(problem, evaluation.params, block, indices)
        atoms = recombine(
            rows.statistics(second_order=self._curvature is not None),
            weights,
            method=self.method,
            random_state=seed,
        )
        _check_residual(atoms)
        chosen = indices[atoms.indices]
        ascending = np.argsort(chosen)
        measure = Measure(chosen[ascending], atoms.weights[ascending])
        return measure, rows.reduced_gradient(atoms)

    @cached_property
    def _row_weights(self):
        """Weights of all rows, None if they are equal: once for all blocks."""
        problem = self.problem
        return None if problem.sample_weight is None else problem.weights

    def _keep_all(self, evaluation, block):
        weights = self.problem.weights
        indices = np.flatnonzero(weights)
        rows = _BlockRows(self.problem, evaluation.params, block, indices)
        atoms = Measure(np.arange(len(indices)), weights[indices])
        return Measure(indices, atoms.weights), rows.reduced_gradient(atoms)


class _BlockRows:
    """Rows of the surviving groups, seen from one block."""

    def __init__(self, problem, params, block, indices):
        features, self.outputs = np.divmod(block, problem.n_outputs)
        design = problem.design
        self.loss = problem.loss
        self.target = problem.target[indices]
        self.prediction = design.predict(indices, params)
        columns, position = np.unique(features, return_inverse=True)
        self.rows = design.take(indices, columns)[:, position]

    def statistics(self, second_order):
        """Gradients of the rows, with the products of columns if asked for."""
        derivative = self.loss.derivative(self.target, self.prediction)
        gradients = derivative[:, self.outputs] * self.rows
        if not second_order:
            return gradients
        first, second = column_pairs(self.rows.shape[1])
        return np.hstack([gradients, self.rows[:, first] * self.rows[:, second]])

    def reduced_gradient(self, atoms):
        """Gradient of the block under the final measure."""
        return ReducedGradient(
            self.rows[atoms.indices],
            self.outputs,
            self.target[atoms.indices],
            self.prediction[atoms.indices],
            atoms.weights,
            self.loss,
        )


def _check_residual(recombination):
    # Written so that a NaN fails too.
    if not recombination.residual <= _MAX_RESIDUAL:
        raise RecombinationError(
            f"The reduced measure misses a moment by {recombination.residual:.1e}."
        )
