"""Fitted searches made by hand: the attributes that displays read, no data."""

import numpy as np
from sklearn.base import BaseEstimator


class FittedSearch(BaseEstimator):
    """Stands for a fitted search: it has the attributes that it is given."""

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True


def fitted_search(**attributes):
    search = FittedSearch()
    vars(search).update(attributes)
    return search


def logistic_search(n_classes=1, fit_intercept=True, seed=0):
    rng = np.random.default_rng(seed)
    n_folds, n_ratios, n_cs, n_features = 3, 2, 5, 4
    columns = n_features + fit_intercept
    return fitted_search(
        Cs_=np.geomspace(1e-2, 1e2, n_cs),
        l1_ratios_=np.array([0.0, 0.5]),
        C_=1.0,
        l1_ratio_=0.5,
        fit_intercept=fit_intercept,
        classes_=np.arange(max(n_classes, 2)),
        coefs_paths_=rng.standard_normal((n_folds, n_ratios, n_cs, n_classes, columns)),
    )


def lasso_search(l1_ratio=1.0, **attributes):
    n_ratios = np.size(l1_ratio)
    alphas = np.geomspace(1.0, 0.01, 6)
    return fitted_search(
        l1_ratio=l1_ratio,
        l1_ratio_=float(np.atleast_1d(l1_ratio)[-1]),
        alphas_=np.squeeze(np.outer(np.arange(1, n_ratios + 1), alphas)),
        mse_path_=np.ones((n_ratios, 6, 5)),
        alpha_=0.1,
        fit_intercept=True,
        positive=False,
        tol=1e-4,
        **attributes,
    )
