"""Parameters of scikit-learn's classes that have changed their names."""

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

_VERSION = parse_version(sklearn.__version__)
_TAKES_NUMBERS = parse_version("1.7") <= _VERSION

needs_recent_twin = pytest.mark.skipif(
    parse_version("1.9") > _VERSION,
    reason="older versions of scikit-learn behave differently",
)


def twin_grid(alphas) -> dict:
    """Penalties, or how many of them, for a class or function of scikit-learn."""
    if isinstance(alphas, int) and not _TAKES_NUMBERS:
        return {"n_alphas": alphas}
    return {"alphas": alphas}
