r"""From the full data to a few weighted rows with the same block gradient.

The pass that gives the gradient also gives its sums over groups of consecutive rows.
The groups are recombined first, then the rows of the few groups that survive, so that
the per-row gradients of the data are never all in memory.

.. math:: \sum_{k} w_k\, \nabla_B \ell_{i_k} = \sum_i \mu_i \nabla_B \ell_i

with at most block size + 1 atoms, and for the squared loss, where second moments are
matched as well, also the same Hessian of the block.
"""

import numpy as np

from skcara.objective import Evaluation, Problem
from skcara.passes import TakeBlock, column_pairs
from skcara.recombination import Recombination, RecombinationError, recombine
from skcara.solvers._groups import KeptRows, affordable_group_rows, keep_groups
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
    return affordable_group_rows(problem, balanced)


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
    """

    def __init__(self, problem: Problem, method, curvature):
        self.problem = problem
        self.method = method
        grouped = isinstance(curvature, GroupedCurvature)
        self._curvature = curvature if grouped else None

    def choose_groups(self, evaluation: Evaluation, block, seed) -> KeptRows:
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
            return KeptRows(np.arange(n_rows), np.ones(n_rows), 0.0)
        assert groups is not None, "asked for with group_rows"
        sums = groups.sums[:, block]
        if self._curvature is not None:
            sums = np.hstack([sums, self._curvature.group_products(block)])
        kept = keep_groups(sums, groups, method=self.method, random_state=seed)
        _check_residual(kept)
        return kept

    def request(self, kept: KeptRows, evaluation: Evaluation, block) -> TakeBlock:
        """Ask for the rows that are kept, as the block sees them."""
        columns = np.unique(block // self.problem.n_outputs)
        return TakeBlock(self.problem, kept.indices, columns, evaluation.params)

    def choose_atoms(self, kept: KeptRows, taken, block, seed):
        """Recombine the rows of the groups that are kept.

        Parameters
        ----------
        kept : KeptRows
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
        weights = kept.factors * taken.shares
        order = np.flatnonzero(weights)
        is_final = self.problem.n_rows <= _FEW_ROWS
        if not is_final:
            # A deterministic method would find nearly the same atoms at every anchor
            # and inherit their curvature for ever; in random order its choices average
            # out.
            order = np.random.RandomState(seed).permutation(order)
        rows, loss = taken.rows[order][:, position], self.problem.loss
        indices, weights = kept.indices[order], weights[order]
        target, prediction = taken.target[order], taken.prediction[order]
        atoms: Measure | Recombination
        if is_final:
            atoms = Measure(np.arange(len(rows)), weights)
        else:
            derivative = loss.derivative(target, prediction)
            atoms = recombine(
                self._statistics(rows, derivative[:, outputs] * rows),
                weights,
                method=self.method,
                random_state=seed,
            )
            _check_residual(atoms)
        chosen = indices[atoms.indices]
        ascending = np.argsort(chosen)
        measure = Measure(chosen[ascending], atoms.weights[ascending])
        gradient = ReducedGradient(
            rows[atoms.indices],
            outputs,
            target[atoms.indices],
            prediction[atoms.indices],
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
