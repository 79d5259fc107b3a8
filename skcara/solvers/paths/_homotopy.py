r"""The Lasso for all penalties at once: a homotopy on the Gram matrix.

With signs ``s`` on the active set ``A`` and zeros elsewhere, the solution of

.. math:: \min_b \tfrac12 b^\top G b - q^\top b + \alpha \|b\|_1

is :math:`b_A = G_{AA}^{-1} (q_A - \alpha s_A) =` ``level - alpha * slope``, and the
correlations :math:`c = q - G b` are linear in :math:`\alpha` as well. Going down from
the largest penalty, this holds until a correlation reaches :math:`\pm\alpha` (a
feature *joins*) or a coefficient reaches zero (it *leaves*). The path is a chain of
such pieces. From one to the next both vectors change along one direction ``d``: that
which changes the correlation of the joining or leaving feature only, among all active
ones. It costs one product with the rows of ``G`` that belong to active features and one
with the inverse of :math:`G_{AA}`, to which :math:`f d d^\top` is added with a number
``f``: for many features at once, because that reads and writes all of it.

A feature that depends on active ones cannot join; its correlation follows theirs, and
it gets another chance when one of them leaves. Ties are resolved one feature at a time,
with steps of length zero. Rounding may still lead the chain astray, and therefore
nothing here is trusted: what is not optimal is found by its optimality conditions and
solved in another way.

References
----------
M. R. Osborne, B. Presnell, B. A. Turlach, "A new approach to variable selection in
least squares problems", IMA Journal of Numerical Analysis 20, 2000.
"""

import numpy as np

# A feature joins if at least this share of its square is not explained by active ones.
_MIN_INDEPENDENT = 1e-12
# Error of the linear systems, relative to the largest entry of their right sides, above
# which they are refined: rounding adds up slowly from piece to piece.
_MAX_ERROR = 1e-13
# Directions that are added to the inverse at once.
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
    chain = _Chain(gram, cross, positive)
    first = int(np.searchsorted(-alphas, -chain.alpha, side="right"))
    pieces = [(first, np.zeros((3, len(cross))))]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_MAX_STEPS * len(cross) + 1):
            if first == len(alphas):
                break
            following = chain.find_next(alphas[-1])
            last = int(np.searchsorted(-alphas, -following, side="right"))
            if last > first:
                pieces.append((last - first, chain.piece()))
                first = last
            if following <= alphas[-1] or not chain.advance():
                break
    pieces.append((len(alphas) - first, np.full((3, len(cross)), np.nan)))
    return _evaluate(pieces, alphas)


def _evaluate(pieces, alphas):
    """Coefficients on pieces of the path, given with the number of their penalties."""
    lengths, lines = zip(*pieces, strict=True)
    level, slope, signs = np.repeat(np.stack(lines, axis=-1), lengths, axis=-1)
    coefs = level - slope * alphas
    # The end of a piece is where a coefficient is zero, not rounding.
    coefs[coefs * signs <= 0] = 0.0
    return coefs


class _Chain:
    """A piece of the path, and how to get to the next one.

    Parameters
    ----------
    gram, cross, positive
        As in :func:`lasso_homotopy`.
    """

    def __init__(self, gram, cross, positive):
        n_features = len(cross)
        self._gram, self._cross, self._positive = gram, cross, positive
        self._curvature = np.diagonal(gram)
        # Active features have places in order of their arrival; coefficients are
        # level - alpha * slope, the two rows of ``lines``, and solve systems with the
        # two rows of ``sides``, cross moments and signs.
        self._n_active = 0
        self._order = np.empty(n_features, dtype=np.intp)
        self._rows = np.empty((n_features, n_features))
        self._lines, self._sides = np.zeros((2, 2, n_features))
        # Of all features: the Gram matrix times level and slope. Correlations are
        # cross - images[0] + alpha * images[1].
        self._images = np.zeros((2, n_features))
        self._inverse = _GrowingInverse(n_features)
        self._is_free = self._curvature > 0
        self._event: tuple | None = None
        reach = cross if positive else np.abs(cross)
        reach = np.where(self._is_free, reach, 0.0)
        #: Where this piece begins.
        self.alpha = float(max(reach.max(initial=0.0), 0.0))
        self._max_errors = _MAX_ERROR * np.array([self.alpha, 1.0])

    @property
    def _active(self):
        return self._order[: self._n_active]

    def piece(self):
        """Level, slope and signs of all coefficients, shape (3, n_features)."""
        lines = np.zeros((3, len(self._cross)))
        lines[:2, self._active] = self._lines[:, : self._n_active]
        lines[2, self._active] = self._sides[1, : self._n_active]
        return lines

    # ---- the end of a piece ------------------------------------------------------

    def find_next(self, lowest):
        """Penalty at which this piece ends, at least ``lowest`` or zero."""
        level, ascent = self._cross - self._images[0], self._images[1]
        following = max(lowest, 0.0)
        event: tuple | None = None
        ends = self._joins(level, ascent)
        join = int(ends.argmax())
        if ends[join] > following:
            following = min(ends[join], self.alpha)
            event = (self._join, join, 1.0 if level[join] > 0 else -1.0)
        if self._n_active:
            ends = self._leaves()
            place = int(ends.argmax())
            if ends[place] >= following and ends[place] > 0:
                following = min(ends[place], self.alpha)
                event = (self._leave, place)
        self.alpha, self._event = following, event
        return following

    def _joins(self, level, ascent):
        """Penalties at which correlations ``level + alpha * ascent`` reach them.

        A feature that has just left is at its penalty, but slower than it.
        """
        speed = 1.0 - np.where(level > 0, ascent, -ascent)
        candidates = self._is_free & (speed > 0)
        if self._positive:
            candidates &= level > 0
        return np.where(candidates, np.abs(level) / speed, 0.0)

    def _leaves(self):
        """Penalties at which active coefficients are zero."""
        level, slope = self._lines[:, : self._n_active]
        ends = level / slope
        # Where a coefficient grows with the penalty falling it never gets to zero.
        shrinks = slope * self._sides[1, : self._n_active] < 0
        return np.where(shrinks & (ends < self.alpha * (1 + _TIE)), ends, 0.0)

    # ---- from piece to piece -----------------------------------------------------

    def advance(self) -> bool:
        """Go to the next piece; False if there is none."""
        if self._event is None:
            return False
        change, *arguments = self._event
        change(*arguments)
        self._refine()
        return True

    def _join(self, feature, sign):
        """Append a feature to the active ones, unless it depends on them."""
        size = self._n_active
        self._is_free[feature] = False
        column = self._gram[feature].take(self._active)
        share = self._inverse.times(column)
        curvature = self._curvature[feature]
        rest = curvature - column @ share
        if not rest > _MIN_INDEPENDENT * curvature:
            return
        self._order[size], self._rows[size] = feature, self._gram[feature]
        self._sides[:, size] = self._cross[feature], sign
        self._lines[:, size] = 0.0
        self._n_active += 1
        direction = np.append(-share, 1.0)
        self._inverse.append(direction, 1.0 / rest)
        self._move(direction, (self._sides[:, size] - self._images[:, feature]) / rest)

    def _leave(self, place):
        """Remove an active feature; the last one takes its place."""
        direction = self._inverse.remove(place)
        self._move(direction, -self._lines[:, place])
        last = self._n_active - 1
        for by_place in (self._order, self._rows, self._lines.T, self._sides.T):
            by_place[place] = by_place[last]
        self._n_active = last
        # Without this feature, others may be independent.
        self._is_free = self._curvature > 0
        self._is_free[self._active] = False

    def _move(self, direction, factors):
        """Add multiples of a direction to level and slope."""
        size = self._n_active
        lines, rows = self._lines[:, :size], self._rows[:size]
        lines += np.multiply.outer(factors, direction)
        self._images += np.multiply.outer(factors, direction @ rows)

    def _refine(self):
        """Solve both systems ``G_AA line_A = side_A`` for the error they have left."""
        sides = self._sides[:, : self._n_active]
        errors = sides - self._images.take(self._active, axis=1)
        if (np.abs(errors).max(axis=1, initial=0.0) > self._max_errors).any():
            lines = self._lines[:, : self._n_active]
            lines += np.array([self._inverse.times(error) for error in errors])
            np.dot(lines, self._rows[: self._n_active], out=self._images)


class _GrowingInverse:
    """Inverse of the Gram matrix of the active features, by their places.

    The sum of a matrix, of the size at which directions were added to it last, and of
    multiples of ``outer(d, d)`` for the directions ``d`` that are pending.
    """

    def __init__(self, n_features):
        self._matrix = np.zeros((n_features, n_features))
        self._size = self._n_settled = self._n_pending = 0
        self._directions = np.zeros((_MAX_PENDING, n_features))
        self._factors = np.zeros(_MAX_PENDING)

    def times(self, vector):
        """Product with a vector."""
        settled, n_pending = self._n_settled, self._n_pending
        product = np.zeros(self._size)
        product[:settled] = self._matrix[:settled, :settled] @ vector[:settled]
        if n_pending:
            directions = self._directions[:n_pending, : self._size]
            shares = self._factors[:n_pending] * (directions @ vector)
            product += shares @ directions
        return product

    def append(self, direction, factor):
        """Grow by one place."""
        if self._n_pending == _MAX_PENDING:
            self._settle()
        self._size += 1
        pending = self._directions[self._n_pending]
        pending[: self._size], pending[self._size :] = direction, 0.0
        self._factors[self._n_pending] = factor
        self._n_pending += 1

    def remove(self, place):
        """Shrink by one place, which the last one takes.

        Returns
        -------
        direction : ndarray of shape (size,)
            The column of the place, divided by its diagonal entry.
        """
        self._settle()
        size, last = self._size, self._size - 1
        matrix = self._matrix[:size, :size]
        pivot = matrix[place, place]
        direction = matrix[place] / pivot
        matrix -= np.multiply.outer(pivot * direction, direction)
        matrix[place] = matrix[last]
        matrix[:, place] = matrix[:, last]
        matrix[last] = matrix[:, last] = 0.0
        self._size = self._n_settled = last
        return direction

    def _settle(self):
        """Add the pending directions to the matrix."""
        directions = self._directions[: self._n_pending, : self._size]
        factors = self._factors[: self._n_pending, None]
        self._matrix[: self._size, : self._size] += (
            factors * directions
        ).T @ directions
        self._n_settled, self._n_pending = self._size, 0
