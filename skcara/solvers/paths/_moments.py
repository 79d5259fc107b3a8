r"""Second moments of sets of rows, by atom, and how wrong rounding makes them.

With the weights :math:`w_i` of the rows of an atom, its *shift* ``c`` and the columns
``z = (x, y)`` of features and targets, a read sums

.. math:: \sum_i w_i (z_i - c)(z_i - c)^\top , \qquad \sum_i w_i (z_i - c) , \qquad
          \sum_i w_i

and everything else follows: weight ``W``, mean ``m`` and *scatter*
:math:`S = \sum_i w_i (z_i - m)(z_i - m)^\top` of the atom, and of every set of atoms by

.. math:: W = \sum_a W_a , \qquad m = \sum_a W_a m_a / W , \qquad
          S = \sum_a S_a + W_a (m_a - m)(m_a - m)^\top .

Only non-negative things are added. The moments of all rows minus those of a fold would
cancel where a fold holds most of the mass.

Rounding
--------
A sum of ``T`` products in any order is wrong by at most :math:`\gamma_T = T u /
(1 - T u)` times the sum of their absolute values, and this is at most the product of
two roots of sums of squares. With the *spread*
:math:`p_j = \sum_i w_i (z_{ij} - c_j)^2`, which is on the diagonal of the first sum,
therefore

.. math:: |\delta S_{jk}| \le \gamma \sqrt{p_j p_k} , \qquad
          |\delta m_j| \le \gamma \sqrt{p_j / W} ,

for an atom: subtracting :math:`W m m^\top`, whose diagonal is below ``p``, adds a
constant number of roundings. For a set of atoms, an error :math:`\epsilon_a` of
:math:`m_a` changes the second term by at most
:math:`W_a (|d_j| \epsilon_k + |d_k| \epsilon_j + \epsilon_j \epsilon_k)` with
:math:`d = m_a - m`, and that is below :math:`\gamma r_j r_k` for
:math:`r = \sqrt{W_a} (|d| + \epsilon / \gamma)`. By the inequality of Cauchy and
Schwarz the bound above thus holds for the set with the spread
:math:`p_j = \sum_a (p_{aj} + r_{aj}^2)`. It is a theorem, for every order of additions
and every kind of data.
"""

from dataclasses import dataclass

import numpy as np

# Half the distance of neighbours: the relative error of one operation.
UNIT_ROUNDOFF = np.finfo(np.float64).eps / 2
# Roundings of an entry (shift, root of the weight, product), twice in a product, and
# those of the subtraction and the divisions that follow the sums.
_MORE_ROUNDINGS = 16


def gamma(n_terms: int) -> float:
    """Largest relative error of a sum of so many products."""
    share = n_terms * UNIT_ROUNDOFF
    return share / (1.0 - share)


def _precision(n_terms):
    # Twice, because what is below its error is set to zero.
    return 2 * gamma(n_terms + _MORE_ROUNDINGS)


def _clear_constant_columns(scatter, spread, precision):
    """Set to zero what rounding has left of columns without any scatter, in place."""
    roots = np.sqrt(spread)
    suspects = np.flatnonzero(np.diagonal(scatter) <= 0.5 * precision * spread)
    error = 0.5 * precision * np.outer(roots[suspects], roots)
    constant = suspects[(np.abs(scatter[suspects]) <= error).all(axis=1)]
    scatter[constant] = 0.0
    scatter[:, constant] = 0.0


@dataclass(frozen=True)
class Moments:
    r"""Weight, mean and scatter of a set of rows, features before targets.

    Attributes
    ----------
    weight : float
        Sum of the weights of the rows.
    mean : ndarray of shape (n_columns,)
        Around the common ``origin`` of all sets.
    scatter : ndarray of shape (n_columns, n_columns)
        Around the mean; not divided by the weight.
    spread : ndarray of shape (n_columns,)
        ``precision`` times the root of the product of two of them bounds the error of
        an entry of the scatter.
    precision : float
        The :math:`\gamma` of the module.
    """

    weight: float
    mean: np.ndarray
    scatter: np.ndarray
    spread: np.ndarray
    precision: float

    @property
    def mean_error(self):
        """Bound on the error of the mean, shape (n_columns,)."""
        rounding = 4 * UNIT_ROUNDOFF * np.abs(self.mean)
        return self.precision * np.sqrt(self.spread / self.weight) + rounding


@dataclass(frozen=True)
class AtomMoments:
    """The moments of all atoms of a batch of folds.

    Attributes
    ----------
    weight : ndarray of shape (n_atoms,)
    mean, spread : ndarray of shape (n_atoms, n_columns)
    scatter : ndarray of shape (n_atoms, n_columns, n_columns)
    n_terms : int
        Most additions that a sum has gone through.
    """

    weight: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    scatter: np.ndarray
    n_terms: int

    @classmethod
    def from_sums(cls, sums, n_terms: int, offsets=None):
        """Moments from the sums of a read.

        Parameters
        ----------
        sums : ndarray of shape (n_atoms, n_columns + 1, n_columns + 1)
            Gram matrices of the rows ``(z - c, 1)``; used up.
        n_terms : int
            Most additions that an entry has gone through.
        offsets : ndarray of shape (n_atoms, n_columns), optional
            The shift of each atom minus the origin; default zero.
        """
        weight = sums[:, -1, -1].copy()
        mean = np.divide(
            sums[:, -1, :-1],
            weight[:, None],
            where=weight[:, None] > 0,
            out=np.zeros((len(sums), sums.shape[1] - 1)),
        )
        scatter = sums[:, :-1, :-1]
        spread = np.diagonal(scatter, axis1=1, axis2=2).copy()
        precision = _precision(n_terms)
        # One after the other: there may be many atoms.
        for atom in range(len(scatter)):
            scatter[atom] -= weight[atom] * np.outer(mean[atom], mean[atom])
            _clear_constant_columns(scatter[atom], spread[atom], precision)
        if offsets is not None:
            mean += offsets
        return cls(weight, mean, spread, scatter, n_terms)

    def total(self) -> Moments:
        """Moments of all rows."""
        return self.combine(np.ones(len(self.weight), dtype=np.intp))

    def combine(self, counts) -> Moments:
        """Moments of the set that contains atom ``a`` ``counts[a]`` times."""
        atoms = np.flatnonzero((counts > 0) & (self.weight > 0))
        factors, mean_of = counts[atoms], self.mean[atoms]
        weights = factors * self.weight[atoms]
        weight = weights.sum()
        precision = _precision(self.n_terms + len(atoms))
        if not weight > 0:
            nothing = np.zeros_like(self.mean[0])
            return Moments(0.0, nothing, np.outer(nothing, nothing), nothing, precision)
        mean = weights @ mean_of / weight
        distances = mean_of - mean
        scaled = np.sqrt(weights)[:, None] * distances
        scatter = scaled.T @ scaled
        for factor, atom in zip(factors, atoms, strict=True):
            scatter += factor * self.scatter[atom]
        # Errors of the means in units of the precision, that of the mean of all too.
        share = 4 * UNIT_ROUNDOFF / precision
        errors = np.sqrt(self.spread[atoms] / self.weight[atoms][:, None])
        errors += share * np.abs(mean_of)
        errors += weights @ errors / weight + share * np.abs(mean)
        spread = factors @ self.spread[atoms]
        spread += weights @ (np.abs(distances) + errors) ** 2
        _clear_constant_columns(scatter, spread, precision)
        return Moments(float(weight), mean, scatter, spread, precision)
