r"""From the full data to a few weighted rows with the same block gradient.

The pass that gives the gradient also gives its sums over groups of consecutive rows.
The groups are recombined first, then the rows of the few groups that survive, so that
the per-row gradients of the data are never all in memory.

.. math:: \sum_{k} w_k\, \nabla_B \ell_{i_k} = \sum_i \mu_i \nabla_B \ell_i

with at most block size + 1 atoms, and for the squared loss, where second moments are
matched as well, also the same Hessian of the block.
"""

from dataclasses import dataclass

import numpy as np

from skcara.objective import Evaluation, Problem
from skcara.passes import TakeBlock, column_pairs
from skcara.recombination import RecombinationError, recombine, recombine_groups
from skcara.solvers._rounds import Measure
from skcara.solvers.descent._group_moments import GroupedCurvature
from skcara.solvers.descent._inner import ReducedGradient

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
        A power of two, at most ``problem.facts.chunk_rows``.
    """
    balanced = np.sqrt(problem.n_rows / (n_statistics + 1))
    affordable = problem.n_rows * problem.n_coords * 8 / _MAX_GROUP_BYTES
    exponent = int(np.ceil(np.log2(max(balanced, affordable, 1.0))))
    return min(2**exponent, problem.facts.chunk_rows)


@dataclass(frozen=True)
class Survivors:
    """Rows of the groups that a block keeps, in random order.

    Attributes
    ----------
    indices : ndarray of int
    weights : ndarray of float
    is_final : bool
        Whether all of them stay in the measure.
    """

    indices: np.ndarray
    weights: np.ndarray
    is_final: bool = False


class BlockReducer:
    """Builds reduced measures for the blocks of a problem.

    Groups are recombined first, then the rows of the surviving groups. Between the two
    the rows have to be fetched; both steps can run in threads.

    Parameters
    ----------
    problem : Problem
        The full data.
    method : str
        Recombination method.
    curvature : BoundedCurvature
        If it is a :class:`GroupedCurvature`, second moments are matched too.
    row_weights : ndarray of shape (n_rows,) or None
        Weights of all rows, None if they are equal.
    """

    def __init__(self, problem: Problem, method, curvature, row_weights):
        self.problem = problem
        self.method = method
        grouped = isinstance(curvature, GroupedCurvature)
        self._curvature = curvature if grouped else None
        self._row_weights = row_weights

    def choose_groups(self, evaluation: Evaluation, block, seed) -> Survivors:
        """Recombine the groups of rows for one block.

        Parameters
        ----------
        evaluation : Evaluation
            At the anchor, with the sums of the groups.
        block : ndarray of shape (block_size,)
            Flat coordinates.
        seed : int
            Seed of the randomised methods.

        Raises
        ------
        RecombinationError
            If no sufficiently exact measure was found.
        """
        n_rows, groups = self.problem.n_rows, evaluation.groups
        if n_rows <= _FEW_ROWS:
            return self._all_rows(n_rows)
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
        return Survivors(survivors.indices[order], survivors.weights[order])

    def _all_rows(self, n_rows):
        weights = self._row_weights
        weights = np.full(n_rows, 1.0 / n_rows) if weights is None else weights
        indices = np.flatnonzero(weights)
        return Survivors(indices, weights[indices], is_final=True)

    def request(self, survivors: Survivors, evaluation: Evaluation, block) -> TakeBlock:
        """Ask for the surviving rows, as the block sees them."""
        columns = np.unique(block // self.problem.n_outputs)
        return TakeBlock(self.problem, survivors.indices, columns, evaluation.params)

    def choose_atoms(self, survivors: Survivors, taken, block, seed):
        """Recombine the surviving rows.

        Parameters
        ----------
        survivors : Survivors
        taken : BlockRows
            The answer to :meth:`request`.
        block, seed
            As for :meth:`choose_groups`.

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
        features, outputs = np.divmod(block, self.problem.n_outputs)
        position = np.unique(features, return_inverse=True)[1]
        rows, loss = taken.rows[:, position], self.problem.loss
        if survivors.is_final:
            atoms = Measure(np.arange(len(rows)), survivors.weights)
        else:
            derivative = loss.derivative(taken.target, taken.prediction)
            atoms = recombine(
                self._statistics(rows, derivative[:, outputs] * rows),
                survivors.weights,
                method=self.method,
                random_state=seed,
            )
            _check_residual(atoms)
        chosen = survivors.indices[atoms.indices]
        ascending = np.argsort(chosen)
        measure = Measure(chosen[ascending], atoms.weights[ascending])
        gradient = ReducedGradient(
            rows[atoms.indices],
            outputs,
            taken.target[atoms.indices],
            taken.prediction[atoms.indices],
            atoms.weights,
            loss,
        )
        return measure, gradient

    def _statistics(self, rows, gradients):
        """Gradients of the rows, with the products of columns if they are matched."""
        if self._curvature is None:
            return gradients
        first, second = column_pairs(rows.shape[1])
        return np.hstack([gradients, rows[:, first] * rows[:, second]])


def _check_residual(recombination):
    # Written so that a NaN fails too.
    if not recombination.residual <= _MAX_RESIDUAL:
        raise RecombinationError(
            f"The reduced measure misses a moment by {recombination.residual:.1e}."
        )
