"""Losses: derivatives, curvature, extreme predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skcara.objective import LogisticLoss, Loss, MultinomialLoss, SquaredLoss


def make_case(name, n_rows, rng, spread=3.0):
    if name == "squared":
        loss, target = SquaredLoss(), rng.standard_normal(n_rows)
    elif name == "logistic":
        loss, target = LogisticLoss(), rng.integers(0, 2, n_rows).astype(np.int8)
    else:
        loss, target = MultinomialLoss(4), rng.integers(0, 4, n_rows).astype(np.int8)
    return loss, target, spread * rng.standard_normal((n_rows, loss.n_outputs))


LOSSES = ["squared", "logistic", "multinomial"]


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_those_of_the_value(name, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    loss, target, prediction = make_case(name, 50, rng)
    step = 1e-5
    second = loss.second_derivative(target, prediction)
    second = second.reshape(50, loss.n_outputs, loss.n_outputs)
    for output in range(loss.n_outputs):
        direction = np.zeros(loss.n_outputs)
        direction[output] = step
        forward, backward = prediction + direction, prediction - direction
        slope = (loss.value(target, forward) - loss.value(target, backward)) / 2 / step
        derivative = loss.derivative(target, prediction)[:, output]
        assert_allclose(derivative, slope, atol=1e-8)
        change = loss.derivative(target, forward) - loss.derivative(target, backward)
        assert_allclose(second[:, output], change / 2 / step, atol=1e-8)


@pytest.mark.parametrize("name", LOSSES)
def test_curvature_never_exceeds_its_bound(name):
    loss, target, prediction = make_case(name, 2000, np.random.default_rng(0), 1.0)
    second = loss.second_derivative(target, prediction)
    second = second.reshape(2000, loss.n_outputs, loss.n_outputs)
    bound = loss.curvature_bound
    smallest = np.linalg.eigvalsh(bound - second)[:, 0].min()
    assert smallest >= -1e-12, "the bound minus the second derivative is semi-definite"
    largest = np.linalg.eigvalsh(second)[:, -1].max()
    limit = np.linalg.eigvalsh(bound)[-1]
    assert largest >= 0.8 * limit, "the bound should be attained"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows", [1, 127, 128, 1000])
@pytest.mark.parametrize("name", LOSSES)
def test_weighted_sum_adds_up_values_and_derivatives(name, n_rows, weighted):
    rng = np.random.default_rng(n_rows)
    loss, target, prediction = make_case(name, n_rows, rng)
    weights = rng.random(n_rows) if weighted else None
    factors = np.ones(n_rows) if weights is None else weights
    value = factors @ loss.value(target, prediction)
    derivative = factors[:, None] * loss.derivative(target, prediction)
    total, summed = loss.weighted_sum(target, prediction.copy(), weights)
    assert total == pytest.approx(value, rel=1e-12)
    assert_allclose(summed, derivative, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_huge_predictions_neither_overflow_nor_vanish(name):
    loss, target, _ = make_case(name, 6, np.random.default_rng(0))
    prediction = np.zeros((6, loss.n_outputs))
    prediction[:, -1] = [1e300, -1e300, 800.0, -800.0, 40.0, -40.0]
    value = loss.value(target, prediction)
    assert np.isfinite(value).all()
    assert (value >= 0).all()
    total, derivative = loss.weighted_sum(target, prediction.copy(), None)
    assert total == pytest.approx(value.sum())
    assert np.abs(derivative).max() <= 1


def test_hessian_of_many_classes_does_not_depend_on_how_rows_are_cut():
    """Forty coordinates and ninety rows: three parts, of which the last is short."""
    rng = np.random.default_rng(0)
    loss, target = MultinomialLoss(20), rng.integers(0, 20, 90)
    rows, weights = rng.standard_normal((90, 2)), rng.random(90)
    prediction = rng.standard_normal((90, 20))
    assert_allclose(
        loss.hessian(rows, weights, target, prediction),
        Loss.hessian(loss, rows, weights, target, prediction),
        atol=1e-13,
    )


@pytest.mark.parametrize("name", LOSSES)
def test_what_a_loss_adds_is_what_the_base_class_computes(name):
    """Faster methods of a loss agree with those that every loss inherits."""
    rng = np.random.default_rng(0)
    loss, target, prediction = make_case(name, 60, rng)
    rows, weights = rng.standard_normal((60, 3)), rng.random(60)
    assert_allclose(
        loss.hessian(rows, weights, target, prediction),
        Loss.hessian(loss, rows, weights, target, prediction),
        atol=1e-13,
    )
    assert_allclose(
        loss.curvature(target, prediction), Loss.curvature(loss, target, prediction)
    )
    kernels = loss.derivative_kernel(target), Loss.derivative_kernel(loss, target)
    outs = [np.empty(prediction.size) for _ in kernels]
    for write, out in zip(kernels, outs, strict=True):
        write(prediction.ravel().copy(), out)
    assert_allclose(*outs, atol=1e-14)


@pytest.mark.parametrize("name", LOSSES)
def test_a_quadratic_loss_is_equal_to_its_bound(name):
    loss, target, prediction = make_case(name, 100, np.random.default_rng(0))
    second = loss.second_derivative(target, prediction)
    second = second.reshape(100, loss.n_outputs, loss.n_outputs)
    is_constant = np.allclose(second, loss.curvature_bound)
    assert loss.is_quadratic == is_constant
