"""Numbers added to all outputs of a column: found at once, not sign by sign."""

import numpy as np
import pytest

from skcara import CaLogisticRegression
from skcara.solvers import _quadratic
from skcara.solvers._output_shifts import least_shift


@pytest.mark.parametrize("n_terms", [2, 3, 6, 7])
@pytest.mark.parametrize("curvature", [0.0, 1e-3, 3.0, 1e6])
def test_shifts_minimise(n_terms, curvature, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    values, pull = rng.standard_normal((50, n_terms)), 3 * rng.standard_normal(50)
    values[::7] = values[::7, :1]
    pull[::3], l1 = 0.0, rng.uniform(0.1, 2.0, 50)
    # Without a parabola a pull that the terms do not hold has no minimum.
    limit = np.inf if curvature else n_terms * l1
    pull = np.clip(pull, -limit, limit)
    found = least_shift(values, pull, l1, np.full(50, curvature))

    def value(shift):
        terms = l1 * np.abs(values + shift[:, None]).sum(axis=1)
        return terms + pull * shift + 0.5 * curvature * shift**2

    for step in 10.0 ** np.arange(-12, 3):
        for sign in (-1, 1):
            other = value(found + sign * step)
            assert (value(found) <= other + 1e-13 * (1 + found**2)).all()


def test_shifts_without_a_minimum_are_none():
    values, strengths = np.array([[1.0, -2.0, 4.0]]), np.ones(1)
    for pull in (-3.1, -40.0):
        none = least_shift(values, np.array([pull]), strengths, np.zeros(1))
        assert none == 0.0


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_weak_l1_terms_do_not_change_sign_by_sign(l1_ratio, monkeypatch):
    """They took seventy and a hundred factorisations in place of fourteen."""
    sizes = []

    class Counted(_quadratic.ScaledCholesky):
        def __init__(self, matrix, *ridge):
            sizes.append(len(matrix))
            super().__init__(matrix, *ridge)

    monkeypatch.setattr(_quadratic, "ScaledCholesky", Counted)
    rng = np.random.default_rng(0)
    X, coef = rng.standard_normal((1000, 20)), rng.standard_normal((20, 6))
    y = np.argmax(X @ coef + 2 * rng.gumbel(size=(1000, 6)), axis=1)
    model = CaLogisticRegression(C=1000.0, l1_ratio=l1_ratio).fit(X, y)
    assert len(sizes) <= 28
    # As many positive as negative, up to one.
    assert (np.abs(np.sign(model.coef_).sum(axis=0)) <= 1).all()
