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


def read_run(estimator, name: str, display: str):
    """Return a fitted attribute that describes one run.

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
    ValueError
        If it was fitted on several targets and so describes several runs.
    """
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        raise TypeError(
            f"{display} reads {name!r}, which {type(estimator).__name__} does not "
            "have. Pass a fitted estimator of skcara: of a pipeline its last step, "
            "pipeline[-1], of a search its best_estimator_."
        )
    value = getattr(estimator, name)
    if isinstance(value, list):
        raise ValueError(
            f"{display} shows one run, but this {type(estimator).__name__} was fitted "
            f"on {len(value)} targets, one run each. Fit it on one target."
        )
    return value
