"""One fold and one penalty of a search: scores are those of the next point."""

import numpy as np
import pytest
from solvers.tall_problems import gaussian, labels, make_problem

from skcara.solvers._quadratic import QuadraticModel
from skcara.solvers.paths._fold_column import Column, TestSet


class Stubborn(QuadraticModel):
    """Does not learn from steps, as along nearly flat directions no model can."""

    def secant(self, step, gradient_change):
        return self


def make_column():
    X, score, rng = gaussian(500, 3)
    problem = make_problem(X, labels(score, rng), "logistic", l2=1e-3).problem
    column = Column(0, 0, problem)
    column.model = QuadraticModel(np.eye(4), np.zeros(4), np.zeros(4, dtype=bool))
    return column, rng


def test_scores_are_corrected_by_the_step_that_is_left():
    column, rng = make_column()
    test = TestSet(0.7, rng.standard_normal((4, 1)))
    column.learn(rng.standard_normal((4, 1)), test)
    anchor = column.base
    column.step()
    change = float(np.sum(test.gradient * (column.params - anchor)))
    assert abs(change) > 1e-3
    assert column.score_loss == pytest.approx(test.loss + change)
    assert not column.has_score


def test_score_is_not_accepted_because_its_correction_is_small_by_chance():
    column, rng = make_column()
    gradient, slope = rng.standard_normal((2, 4, 1))
    slope -= gradient * np.sum(gradient * slope) / np.sum(gradient**2)
    column.learn(gradient, TestSet(0.7, slope))
    assert column.score_loss == pytest.approx(0.7, abs=1e-12)
    assert not column.has_score


def test_a_column_that_makes_no_progress_is_given_up():
    column, rng = make_column()
    gradient = rng.standard_normal((4, 1))
    n_reads = 0
    while not column.is_stalled:
        column.learn(gradient, None)
        n_reads += 1
        assert n_reads < 20
    column, _ = make_column()
    for _ in range(40):
        column.learn(gradient, None)
        gradient = 0.9 * gradient
        assert not column.is_stalled


def test_score_is_not_corrected_by_rounding():
    """Where training rows say nothing, a step is rounding divided by nothing.

    Nor is the score promised, however small the decrease that is left: the step may be
    more than rounding, and is then worth a part in a thousand.
    """
    column, rng = make_column()
    gradient = 1e-9 * rng.standard_normal((4, 1))
    column.learn(gradient, TestSet(0.7, 1e6 * gradient / np.linalg.norm(gradient)))
    assert column.score_loss == 0.7
    assert not column.has_score


def test_a_column_is_given_up_at_rounding():
    """A few reads there may make a score better, and no more than a few."""
    column, rng = make_column()
    gradient = 1e-9 * rng.standard_normal((4, 1))
    while not column.is_stalled:
        gradient = 0.5 * gradient
        column.learn(gradient, TestSet(0.7, 1e6 * gradient / np.linalg.norm(gradient)))
        assert column.n_reads <= 7
    assert column.n_reads >= 3


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9, 1.5])
def test_error_of_a_score_whose_model_goes_a_share_of_the_way(share):
    """What such a model proposes is small, and what it leaves to do is not."""
    column, rng = make_column()
    goal, slope = rng.standard_normal((2, 4, 1))
    l2 = column.problem.penalty.l2
    for n_reads in range(1, 60):
        column.model = Stubborn(np.eye(4) / share, np.zeros(4), np.zeros(4, dtype=bool))
        score = float(1 + np.sum(slope * (column.params - goal)))
        gradient = (column.params - goal) - l2 * column.params
        column.learn(gradient, TestSet(score, slope))
        if n_reads > 1:
            assert abs(column.score_loss - 1) <= 2 * column.score_error + 1e-9
        if column.has_score:
            break
        column.params = column.base + 0.75 * (goal - column.base)
    assert column.has_score


def test_noise_of_gradients_is_an_error_of_scores():
    column, rng = make_column()
    slope = rng.standard_normal((4, 1))
    column.learn(np.zeros((4, 1)), TestSet(0.7, slope), 1e-9)
    assert column.has_score
    assert not column.is_noisy
    column, _ = make_column()
    column.learn(np.zeros((4, 1)), TestSet(0.7, slope), 1e-5)
    assert not column.has_score
    assert column.is_noisy
    column.step()
    column.learn(1e-9 * np.ones((4, 1)), TestSet(0.7, slope))
    assert not column.is_rejected
    assert not column.is_noisy


def test_an_anchor_without_a_score_gives_way_to_one_that_is_as_good():
    """Reads in single precision have no scores, and round more than the next one."""
    column, rng = make_column()
    gradient = 1e-8 * rng.standard_normal((4, 1))
    column.learn(gradient, None)
    column.learn(2 * gradient, TestSet(0.7, rng.standard_normal((4, 1))))
    assert not column.is_rejected
    assert column.score_loss == pytest.approx(0.7)


def test_a_step_that_makes_things_worse_is_halved_until_it_does_not():
    """The objective is 50 times as curved as the model: of 1/50 it is the minimum."""
    column, rng = make_column()
    goal, l2 = rng.standard_normal((4, 1)), column.problem.penalty.l2
    column.learn(-50 * goal, None)
    anchor = column.base
    column.step()
    lengths = [np.linalg.norm(column.params - anchor)]
    while True:
        column.learn(50 * (column.params - goal) - l2 * column.params, None)
        if not column.is_rejected:
            break
        assert column.base is anchor
        column.step()
        lengths.append(np.linalg.norm(column.params - anchor))
        assert len(lengths) < 10
    np.testing.assert_allclose(lengths, lengths[0] * 0.5 ** np.arange(len(lengths)))
    # Half as long as a step that leads to the same value on the other side.
    assert lengths[-1] <= 2 * np.linalg.norm(goal) < 2 * lengths[-1]


def test_a_step_that_changes_predictions_much_is_shortened():
    column, rng = make_column()
    column.learn(rng.standard_normal((4, 1)), None)
    column.step()
    way = column.params - column.base
    column.shorten(0.1)
    np.testing.assert_array_equal(column.params - column.base, way)
    column.shorten(1e6)
    share = np.linalg.norm(column.params - column.base) / np.linalg.norm(way)
    assert share < 1e-5
    np.testing.assert_allclose(column.params - column.base, share * way)
