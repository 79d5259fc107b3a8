"""What displays read from a fitted estimator, with errors that say what to do."""

from sklearn.utils.validation import check_is_fitted


def import_pyplot(caller: str):
    """Return ``matplotlib.pyplot``, or say how to get it.

    Parameters
    ----------
    caller : str
        What needs it, for the message.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib, which is not installed. Install it with "
            "'pip install matplotlib' or 'pip install skcara[plot]'."
        ) from error
    return plt


def make_axes(caller: str, ax=None):
    """Return the given axes, or those of a new figure of the usual size.

    Parameters
    ----------
    caller : str
        Class name of the display, for the message if matplotlib is missing.
    ax : matplotlib axes, default=None
        What the user gave.
    """
    if ax is None:
        plt = import_pyplot(caller)
        _, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
    return ax


def read_run(estimator, name: str, display: str):
    """Return a fitted attribute that describes a fit.

    Parameters
    ----------
    estimator : fitted estimator of skcara
    name : str
        The attribute.
    display : str
        Class name of the display, for the messages.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If it does not describe its runs, as pipelines and searches.
    """
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        raise TypeError(
            f"{display} reads {name!r}, which {type(estimator).__name__} does not "
            "have. Pass a fitted estimator of skcara: of a pipeline its last step, "
            "pipeline[-1], of a search its best_estimator_."
        )
    return getattr(estimator, name)


def as_list(value) -> list:
    """Return one entry per target: estimators keep a list only for several targets."""
    return value if isinstance(value, list) else [value]
