r"""The Lasso for all penalties at once: a homotopy on the Gram matrix.

With signs ``s`` on the active set ``A`` and zeros elsewhere, the solution of

.. math:: \min_b \tfrac12 b^\top G b - q^\top b + \alpha \|b\|_1

is :math:`b_A = G_{AA}^{-1} (q_A - \alpha s_A)`, and the correlations :math:`q - G b`
of the others are linear in :math:`\alpha` as well. So every feature has one *line*,
``level - alpha * slope``: its coefficient if it is active, else its correlation. Going
down from the largest penalty, this holds until a correlation reaches :math:`\pm\alpha`
(a feature *joins*) or a coefficient reaches zero (it *leaves*). The path is a chain of
such pieces.

From one to the next the *tableau* is swept: the symmetric matrix

.. math:: T = \begin{pmatrix} -G_{AA}^{-1} & G_{AA}^{-1} G_{AB} \\
              G_{BA} G_{AA}^{-1} & G_{BB} - G_{BA} G_{AA}^{-1} G_{AB} \end{pmatrix} .

With the column ``u`` of the feature ``k`` that changes sides, its entry :math:`p = u_k`
and :math:`w = u \mp e_k`, minus if it joins,

.. math:: T \leftarrow T - w w^\top / p \mp 2\, e_k e_k^\top , \qquad
          \text{lines} \leftarrow \text{lines} - \text{lines}_k\, w / p ,

the slope of ``k`` having its sign added before it joins and subtracted after it has
left. A sweep thus needs one column of the tableau. Multiples of :math:`w w^\top` are
kept aside and added many at a time, because that reads and writes all of it. All this
happens with features that are divided by about their norms, and penalties as well:
pivots are then at most one, and :math:`u_k - 1` cancels none of their digits.

A feature that depends on active ones cannot join; its correlation follows theirs, and
it gets another chance when one of them leaves. Ties are resolved one feature at a time,
with steps of length zero. Rounding may still lead the chain astray, and therefore
nothing here is trusted: what is not optimal is found by its optimality conditions and
solved in another way.

References
----------
M. R. Osborne, B. Presnell, B. A. Turlach, "A new approach to variable selection in
least squares problems", IMA Journal of Numerical Analysis 20, 2000.

J. H. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33, 1979.
"""

import numpy as np

# A feature joins if at least this share of its square is not explained by active ones.
_MIN_INDEPENDENT = 1e-12
# Error of the linear systems, relative to the largest entry of their right sides, above
# which they are refined: rounding adds up slowly from piece to piece.
_MAX_ERROR = 1e-13
# Sweeps that are added to the tableau at once.
_MAX_PENDING = 32
# Steps per feature; chains this long go in circles.
_MAX_STEPS = 16
# A chain that is this much above its penalty is at it, up to rounding.
_TIE = 1e-12


def lasso_homotopy(gram, cross, alphas, positive=False):
    """Solutions of the Lasso for descending penalties.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
    cross : ndarray of shape (n_features,)
    alphas : ndarray of shape (n_alphas,)
        Descending.
    positive : bool
        Whether coefficients must not be negative.

    Returns
    -------
    coefs : ndarray of shape (n_features, n_alphas)
        NaN from the penalty on at which the chain broke.
    """
    # Powers of two: nothing is rounded.
    scale = np.ldexp(1.0, np.frexp(np.sqrt(np.diagonal(gram)))[1])
    chain = _Chain(gram / scale / scale[:, None], cross / scale, 1.0 / scale, positive)
    ascending = -alphas
    first = int(ascending.searchsorted(-chain.alpha, side="right"))
    n_alphas, lowest = len(alphas), float(alphas[-1])
    pieces, lengths = [np.zeros((3, len(cross)))], [first]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_MAX_STEPS * len(cross) + 1):
            if first == n_alphas:
                break
            following = chain.find_next(lowest)
            last = int(ascending.searchsorted(-following, side="right"))
            if last > first:
                pieces.append(chain.piece())
                lengths.append(last - first)
                first = last
            if following <= lowest or not chain.advance():
                break
    pieces.append(np.full((3, len(cross)), np.nan))
    coefs = _evaluate(pieces, [*lengths, n_alphas - first], alphas)
    return coefs / scale[:, None]


def _evaluate(pieces, lengths, alphas):
    """Coefficients on pieces of the path, given with the number of their penalties."""
    level, slope, signs = np.repeat(np.stack(pieces, axis=-1), lengths, axis=-1)
    coefs = level - slope * alphas
    # The end of a piece is where a coefficient is zero, not rounding.
    coefs[coefs * signs <= 0] = 0.0
    return coefs


class _Chain:
    """A piece of the path, and how to get to the next one.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
        Its diagonal is at most one, and zero for features that are zero.
    cross, strengths : ndarray of shape (n_features,)
        Cross moments, and what the penalty is multiplied by.
    positive : bool
    """

    def __init__(self, gram, cross, strengths, positive):
        self._gram, self._strengths, self._positive = gram, strengths, positive
        self._tableau = _Tableau(gram)
        # Level and slope of all features, and the right sides of their systems.
        self._lines = np.array([cross, 0.0 * cross])
        self._sides = self._lines.copy()
        # Strengths of the penalty with the signs of active features, and of the others.
        self._signed, self._inactive = self._sides[1], strengths.copy()
        # A number for each feature: short arrays of booleans take twice as long.
        self._is_active = np.zeros(len(cross))
        self._can_join = np.diagonal(gram) > 0
        self._is_free = self._can_join.copy()
        self._next: int | None = None
        reach = (cross if positive else np.abs(cross)) / strengths
        #: Where this piece begins.
        self.alpha = float(max(reach.max(initial=0.0, where=self._is_free), 0.0))
        self._max_errors = _MAX_ERROR * np.array([self.alpha * strengths, strengths])

    def piece(self):
        """Level, slope and signs of all coefficients, shape (3, n_features)."""
        self._refine()
        piece = np.empty((3, len(self._signed)))
        np.multiply(self._lines, self._is_active, out=piece[:2])
        piece[2] = self._signed
        return piece

    def _refine(self):
        """Solve both systems ``G_AA line_A = side_A`` for the error they have left."""
        errors = self._sides - (self._lines * self._is_active) @ self._gram
        active_errors = errors * self._is_active
        if (np.abs(active_errors) > self._max_errors).any():
            self._lines = np.where(self._is_active, self._lines, errors)
            self._lines -= self._tableau.times(active_errors)

    # ---- the end of a piece ------------------------------------------------------

    def find_next(self, lowest: float) -> float:
        """Penalty at which this piece ends, at least ``lowest`` or zero."""
        level, slope = self._lines
        # A correlation can only meet the penalty that has the sign of its level. A
        # feature that has just left is at its penalty, but slower than it.
        ends = level / (slope + np.copysign(self._inactive, level))
        joins = self._is_free & (ends > 0)
        if self._positive:
            joins &= level > 0
        # Coefficients that grow with the penalty falling never get to zero.
        leaves = (slope * self._signed < 0) & (ends < self.alpha * (1 + _TIE))
        ends = np.where(joins | leaves, ends, 0.0)
        feature = int(ends.argmax())
        end, lowest = float(ends[feature]), max(lowest, 0.0)
        self._next = feature if end > lowest else None
        self.alpha = min(max(end, lowest), self.alpha)
        return self.alpha

    # ---- from piece to piece -----------------------------------------------------

    def advance(self) -> bool:
        """Go to the next piece; False if there is none."""
        if self._next is None:
            return False
        if self._signed[self._next]:
            self._leave(self._next)
        else:
            self._join(self._next)
        return True

    def _join(self, feature):
        """Make a feature active, unless it depends on the active ones."""
        self._is_free[feature] = False
        column = self._tableau.column(feature)
        if not column[feature] > _MIN_INDEPENDENT * self._gram[feature, feature]:
            return
        signed = np.copysign(self._strengths[feature], self._lines[0, feature])
        self._signed[feature], self._inactive[feature] = signed, 0.0
        self._is_active[feature] = 1.0
        self._lines[1, feature] += signed
        self._sweep(feature, column, 1.0)

    def _leave(self, feature):
        """Make an active feature inactive."""
        self._sweep(feature, self._tableau.column(feature), -1.0)
        self._lines[1, feature] -= self._signed[feature]
        self._signed[feature], self._inactive[feature] = 0.0, self._strengths[feature]
        self._is_active[feature] = 0.0
        # Without this feature, others may be independent.
        self._is_free = self._can_join & (self._signed == 0)

    def _sweep(self, feature, column, change):
        shares = self._lines[:, feature, None] / column[feature]
        self._lines -= shares * self._tableau.sweep(feature, column, change)


class _Tableau:
    """The matrix ``T`` of the module.

    It is the sum of a settled matrix, of multiples of ``outer(w, w)`` for the sweeps
    that are pending, and of -2 on the diagonal for every active feature.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
    """

    def __init__(self, gram):
        self._settled, self._diagonal = gram.copy(), np.zeros(len(gram))
        self._directions = np.empty((_MAX_PENDING, len(gram)))
        self._factors = np.empty(_MAX_PENDING)
        self._n_pending = 0

    def _pending(self):
        return self._directions[: self._n_pending], self._factors[: self._n_pending]

    def column(self, feature):
        """One column, a new array."""
        directions, factors = self._pending()
        column = (factors * directions[:, feature]) @ directions
        column += self._settled[feature]
        column[feature] += self._diagonal[feature]
        return column

    def times(self, vectors):
        """Product with the rows of ``vectors``, shape (n_vectors, n_features)."""
        directions, factors = self._pending()
        product = vectors @ self._settled + self._diagonal * vectors
        return product + (vectors @ directions.T * factors) @ directions

    def sweep(self, feature, column, change):
        """Let a feature join (change 1) or leave (change -1).

        Parameters
        ----------
        feature : int
        column : ndarray of shape (n_features,)
            Of the feature; used up.
        change : float

        Returns
        -------
        direction : ndarray of shape (n_features,)
            ``w``.
        """
        if self._n_pending == _MAX_PENDING:
            self._settle()
        self._factors[self._n_pending] = -1.0 / column[feature]
        column[feature] -= change
        self._directions[self._n_pending] = column
        self._diagonal[feature] -= 2 * change
        self._n_pending += 1
        return column

    def _settle(self):
        """Add the pending sweeps to the matrix."""
        directions, factors = self._pending()
        self._settled += (factors[:, None] * directions).T @ directions
        self._n_pending = 0
