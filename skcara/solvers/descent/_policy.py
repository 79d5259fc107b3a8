"""How blocks move, as users choose it."""

from dataclasses import dataclass

from skcara.solvers.descent._control import GUARANTEED


@dataclass(frozen=True)
class DescentPolicy:
    """How blocks move, with every ``"auto"`` resolved except that of the step.

    Attributes
    ----------
    direction : {"auto", "gradient", "Lb", "Hb"}
        See :mod:`skcara.solvers.descent._steps`.
    step_size : "auto" or float
        See :func:`skcara.solvers.descent._block_steps.make_steps`.
    control : str
        A name in ``CONTROLS``.
    momentum : float
        Heavy-ball factor.
    max_inner_iter : int
        Most steps on one measure.
    """

    direction: str
    step_size: str | float
    control: str
    momentum: float
    max_inner_iter: int

    @property
    def needs_hessian(self):
        """Whether a block's Hessian bound is used by the step or the control."""
        is_free = self.direction == "gradient" and self.step_size != "auto"
        return not is_free or self.control in GUARANTEED

    @property
    def gains_from_reduction(self):
        """Whether steps after the first one can be accepted.

        The first proximal Newton step minimises the block-hessian statistic, so that
        no later step can lower it.
        """
        is_minimal = self.direction == "Hb" and self.control == "block-hessian"
        return self.max_inner_iter > 1 and not is_minimal
