"""Parameters of scikit-learn's classes that have changed their names."""

import sklearn
from sklearn.utils.fixes import parse_version

_TAKES_NUMBERS = parse_version(sklearn.__version__) >= parse_version("1.7")


def twin_grid(alphas) -> dict:
    """Penalties, or how many of them, for a class or function of scikit-learn."""
    if isinstance(alphas, int) and not _TAKES_NUMBERS:
        return {"n_alphas": alphas}
    return {"alphas": alphas}
