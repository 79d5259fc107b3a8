"""Whether a sequence of objectives still decreases by more than rounding."""

#: Relative change of an objective that is rounding.
OBJECTIVE_NOISE = 1e-14
# One decrease below rounding may be chance, three in a row are not.
_MAX_STALLED = 3


class StallDetector:
    """Counts steps in a row that did not decrease the objective."""

    def __init__(self):
        self._n_stalled = 0

    def is_stalled_after(self, before: float, after: float) -> bool:
        """Record a step from one objective to the next; whether it was one too many."""
        is_decrease = before - after > OBJECTIVE_NOISE * abs(before)
        self._n_stalled = 0 if is_decrease else self._n_stalled + 1
        return self._n_stalled >= _MAX_STALLED
