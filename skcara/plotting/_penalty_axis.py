"""The axis that paths and validation curves share: penalties, strong ones left."""

import numpy as np

#: What the axis says: ``alpha`` grows with the strength of the penalty, ``C`` falls.
PENALTY_LABELS = {
    "alpha": "alpha (strong penalty left)",
    "C": "C (strong penalty left)",
}


def check_penalties(penalties, name: str) -> np.ndarray:
    """Return penalties that a logarithmic axis can show.

    Parameters
    ----------
    penalties : array-like
        Values of ``alpha`` or ``C``.
    name : {"alpha", "C"}
        What they are.
    """
    if name not in PENALTY_LABELS:
        raise ValueError(
            f"penalty_name must be one of {tuple(PENALTY_LABELS)}, got {name!r}."
        )
    penalties = np.asarray(penalties, dtype=np.float64)
    if not (np.isfinite(penalties) & (penalties > 0)).all():
        raise ValueError(
            f"Every {name} must be positive and finite to be drawn on a logarithmic "
            f"axis, got {penalties}. Leave the others out."
        )
    return penalties


def set_penalty_axis(ax, penalties: np.ndarray, name: str) -> None:
    """Scale, limits and label of the horizontal axis."""
    strong, weak = penalties.max(), penalties.min()
    if name == "C":
        strong, weak = weak, strong
    ax.set(xscale="log", xlabel=PENALTY_LABELS[name])
    if strong != weak:
        ax.set_xlim(strong, weak)


def mark_chosen(ax, chosen: float, name: str):
    """Dashed line at the penalty that was chosen; return it."""
    label = f"chosen {name} = {chosen:.3g}"
    return ax.axvline(chosen, color="0.3", linestyle="--", linewidth=1, label=label)
