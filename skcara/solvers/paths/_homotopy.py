r"""The Lasso for all penalties at once: a homotopy on the Gram matrix.

With signs ``s`` on the active set ``A`` and zeros elsewhere, the solution of

.. math:: \min_b \tfrac12 b^\top G b - q^\top b + \alpha \|b\|_1

is :math:`b_A = G_{AA}^{-1} (q_A - \alpha s_A) =` ``level - alpha * slope``, and the
correlations :math:`c = q - G b` are linear in :math:`\alpha` as well. Going down from
the largest penalty, this holds until a correlation reaches :math:`\pm\alpha` (a
feature *joins*) or a coefficient reaches zero (it *leaves*). The path is a chain of
such pieces; each costs a few products with the inverse of :math:`G_{AA}`, which is
updated by a row and column at a time.

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
# Error of a linear system, relative to its right side, above which it is refined.
_MAX_ERROR = 1e-14
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
    coefs = np.full((len(cross), len(alphas)), np.nan)
    chain = _Chain(gram, cross, positive)
    first = int(np.searchsorted(-alphas, -chain.alpha, side="right"))
    coefs[:, :first] = 0.0
    for _ in range(_MAX_STEPS * len(cross) + 1):
        if first == len(alphas):
            break
        following = chain.find_next(alphas[-1])
        last = int(np.searchsorted(-alphas, -following, side="right"))
        if last > first:
            coefs[:, first:last] = chain.solution(alphas[first:last])
            first = last
        if following <= alphas[-1] or not chain.advance():
            break
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
        self._order = np.empty(n_features, dtype=np.intp)
        self._n_active = 0
        self._inverse = np.empty((n_features, n_features))
        # Coefficients are level - alpha * slope; the Gram matrix maps the two vectors
        # to image and ascent, and correlations are cross - image + alpha * ascent.
        self._level, self._slope = np.zeros(n_features), np.zeros(n_features)
        self._image, self._ascent = np.zeros(n_features), np.zeros(n_features)
        self._signs = np.zeros(n_features)
        self._is_free = self._curvature > 0
        self._event = None
        reach = cross if positive else np.abs(cross)
        reach = np.where(self._is_free, reach, 0.0)
        #: Where this piece begins.
        self.alpha = float(max(reach.max(initial=0.0), 0.0))

    @property
    def _active(self):
        return self._order[: self._n_active]

    def solution(self, alphas):
        """Solutions on this piece, shape (n_features, n_alphas)."""
        coefs = self._level[:, None] - self._slope[:, None] * alphas
        # The end of a piece is where a coefficient is zero, not rounding.
        return np.where(coefs * self._signs[:, None] > 0, coefs, 0.0)

    # ---- the end of a piece ------------------------------------------------------

    def find_next(self, lowest):
        """Penalty at which this piece ends, at least ``lowest`` or zero."""
        level = self._cross - self._image
        following, event = max(lowest, 0.0), None
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = self._joins(level, self._ascent)
            join = int(ends.argmax())
            if ends[join] > following:
                following, event = min(ends[join], self.alpha), (join, level[join])
            if self._n_active:
                ends = self._leaves()
                leave = int(ends.argmax())
                if ends[leave] >= following and ends[leave] > 0:
                    following = min(ends[leave], self.alpha)
                    event = (int(self._order[leave]), None)
        self.alpha, self._event = following, event
        return following

    def _joins(self, level, ascent):
        """Penalties at which correlations ``level + alpha * ascent`` reach them.

        A feature that has just left is at its penalty, but slower than it.
        """
        rising = np.where(level > 0, 1.0, -1.0)
        speed = 1.0 - rising * ascent
        ends = np.where(speed > 0, rising * level / speed, 0.0)
        candidates = self._is_free
        if self._positive:
            candidates = candidates & (level > 0)
        return np.where(candidates, ends, 0.0)

    def _leaves(self):
        """Penalties at which active coefficients are zero."""
        slope = self._slope.take(self._active)
        ends = self._level.take(self._active) / slope
        # Where a coefficient grows with the penalty falling it never gets to zero.
        shrinks = slope * self._signs.take(self._active) < 0
        return np.where(shrinks & (ends < self.alpha * (1 + _TIE)), ends, 0.0)

    # ---- from piece to piece -----------------------------------------------------

    def advance(self) -> bool:
        """Go to the next piece; False if the chain ends or breaks here."""
        if self._event is None:
            return False
        feature, level = self._event
        if level is None:
            self._leave(feature)
            # Without this feature, others may be independent.
            self._is_free = self._curvature > 0
            self._is_free[self._active] = False
        else:
            self._is_free[feature] = False
            if not self._join(feature, 1.0 if level > 0 else -1.0):
                return True
        self._resolve()
        return bool(np.isfinite(self._level).all() and np.isfinite(self._slope).all())

    def _join(self, feature, sign):
        """Append a feature to the active ones, unless it depends on them."""
        size = self._n_active
        known = self._inverse[:size, :size]
        column = self._gram[feature].take(self._active)
        share = known @ column
        curvature = self._curvature[feature]
        rest = curvature - column @ share
        if not rest > _MIN_INDEPENDENT * curvature:
            return False
        share /= rest
        known += np.multiply.outer(share * rest, share)
        self._inverse[size, :size] = self._inverse[:size, size] = -share
        self._inverse[size, size] = 1.0 / rest
        self._order[size] = feature
        self._n_active += 1
        self._signs[feature] = sign
        return True

    def _leave(self, feature):
        """Remove a feature from the active ones."""
        last = self._n_active - 1
        place = int(np.flatnonzero(self._active == feature)[0])
        inverse = self._inverse[: last + 1, : last + 1]
        if place != last:
            self._order[place] = self._order[last]
            inverse[[place, last]] = inverse[[last, place]]
            inverse[:, [place, last]] = inverse[:, [last, place]]
        column = inverse[:last, last].copy()
        inverse[:last, :last] -= np.multiply.outer(column, column / inverse[last, last])
        self._n_active = last
        self._signs[feature] = 0.0
        self._level[feature] = self._slope[feature] = 0.0

    def _resolve(self):
        """Compute level and slope of the coefficients and of the correlations."""
        active, size = self._active, self._n_active
        inverse = self._inverse[:size, :size]
        self._resolve_one(self._level, self._image, self._cross, inverse, active)
        self._resolve_one(self._slope, self._ascent, self._signs, inverse, active)

    def _resolve_one(self, solution, image, right_side, inverse, active):
        """Solve ``G_AA solution_A = right_side_A``; ``image`` is ``G @ solution``.

        The inverse has gone through many updates: one step of refinement, whose product
        with all of ``G`` is needed anyway, gives full accuracy back.
        """
        wanted = right_side.take(active)
        solution[active] = inverse @ wanted
        np.dot(self._gram, solution, out=image)
        error = wanted - image.take(active)
        limit = _MAX_ERROR * np.abs(wanted).max(initial=0.0)
        if np.abs(error).max(initial=0.0) > limit:
            solution[active] += inverse @ error
            np.dot(self._gram, solution, out=image)
