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


@pytest.mark.parametrize("spread", [3.0, 900.0])
@pytest.mark.parametrize("name", LOSSES)
def test_stacked_predictions_have_the_losses_of_single_ones(name, spread):
    """Also where exponentials overflow, and in single precision."""
    rng = np.random.default_rng(1)
    loss, target, prediction = make_case(name, 50, rng, spread=spread)
    scores = np.array([prediction.T, -2 * prediction.T, 0 * prediction.T])
    values = np.array([loss.value(target, one.T) for one in scores])
    slopes = np.array([loss.derivative(target, one.T).T for one in scores])
    found, found_slopes = loss.stacked(target, scores.copy())
    assert_allclose(found, values, rtol=1e-13, atol=1e-15)
    assert_allclose(found_slopes, slopes, rtol=1e-13, atol=1e-15)
    derivatives = loss.stacked_derivatives(target, scores.copy())
    assert_allclose(derivatives, slopes, rtol=1e-13, atol=1e-15)
    single = loss.stacked_derivatives(target, scores.astype(np.float32))
    assert_allclose(single, slopes, rtol=3e-7 * spread, atol=3e-7 * spread)


@pytest.mark.parametrize("name", LOSSES)
def test_what_outputs_have_in_common_is_taken_out_where_nothing_depends_on_it(name):
    """Nothing is taken out of derivatives; a constant has no effect."""
    rng = np.random.default_rng(2)
    loss, target, prediction = make_case(name, 40, rng)
    slopes = loss.derivative(target, prediction)
    assert_allclose(loss.without_constants(slopes, axis=1), slopes, atol=1e-14)
    varying = loss.without_constants(prediction, axis=1)
    assert_allclose(loss.value(target, varying), loss.value(target, prediction))
    constant = loss.without_constants(np.ones_like(prediction), axis=1)
    assert (np.abs(constant) < 1e-15).all() == (
        loss.value_at_zero is not None and loss.n_outputs > 1
    )


@pytest.mark.parametrize("name", LOSSES)
def test_a_quadratic_loss_is_equal_to_its_bound(name):
    loss, target, prediction = make_case(name, 100, np.random.default_rng(0))
    second = loss.second_derivative(target, prediction)
    second = second.reshape(100, loss.n_outputs, loss.n_outputs)
    is_constant = np.allclose(second, loss.curvature_bound)
    assert loss.is_quadratic == is_constant


@pytest.mark.parametrize("name", LOSSES)
def test_free_outputs_determine_the_derivatives_of_all(name):
    loss, target, prediction = make_case(name, 300, np.random.default_rng(0))
    derivative = loss.derivative(target, prediction)
    free = derivative[:, : loss.n_free_outputs]
    assert np.linalg.matrix_rank(free) == loss.n_free_outputs
    others = derivative[:, loss.n_free_outputs :].sum(axis=1)
    if loss.n_free_outputs < loss.n_outputs:
        assert_allclose(others, -free.sum(axis=1), atol=1e-14)
    else:
        assert derivative.shape[1] == loss.n_free_outputs
