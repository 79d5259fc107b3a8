"""Imports of packages that are not always installed."""

from importlib import import_module


def import_optional(name: str, *, extra: str, needed_by: str):
    """Import a module, or say how to install what it belongs to.

    Parameters
    ----------
    name : str
        Module, with dots.
    extra : str
        Extra of this package that brings it.
    needed_by : str
        What the user asked for.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{needed_by} needs {package}, which cannot be imported here. Install it "
            f'with: pip install "skcara[{extra}]"'
        ) from error
