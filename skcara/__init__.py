"""Linear models on tall data from a few exactly weighted rows."""

from skcara._version import __version__

__all__ = ["__version__"]
