"""Laws of the parts: bases, cones, null spaces, calibration, fallbacks."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from recombination.clouds import Cloud, assert_contract
from scipy.optimize import nnls

from skcara.recombination import RecombinationError, _cone, _methods, _reduce, recombine
from skcara.recombination._basis import exchange, move_to_boundary
from skcara.recombination._calibration import (
    DenseColumns,
    calibrate,
    pseudo_inverse,
    ridged_inverse,
)
from skcara.recombination._cone import Cone, luby_sequence
from skcara.recombination._coordinates import Atoms, affine_coordinates
from skcara.recombination._methods import METHODS
from skcara.recombination._moments import Rows, Totals, column_peak, group_moments
from skcara.recombination._pivoting import Simplex, most_opposite_atom
from skcara.recombination._result import MethodFailed
from skcara.recombination._sample import draw_by_mass
from skcara.recombination._tchernychova_lyons import reduce_by_tree, without_atom
from skcara.recombination._tree import groups_per_dimension, through_groups
from skcara.recombination._verification import moment_errors, polished


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def make_coordinates(rng, n_points=60, n_columns=4):
    points, weights = rng.exponential(size=(n_points, n_columns)), rng.random(n_points)
    return affine_coordinates(Atoms(points, weights, np.abs(points).max(axis=0)))


class TestCoordinates:
    def test_rows_are_centred_scaled_and_independent(self, rng):
        values, independent, weights = make_coordinates(rng, 500, 6)
        assert np.abs(values @ weights).max() <= 1e-13 * weights.sum()
        np.testing.assert_allclose(np.abs(values).max(axis=1), 1.0)
        assert np.linalg.matrix_rank(values[:, independent]) == 6

    def test_the_mean_is_zero_next_to_a_large_offset(self, rng):
        """To the rounding of the spread, not of the offset."""
        points, weights = rng.normal(size=(200, 3)) + 1e9, rng.random(200)
        atoms = Atoms(points, weights, np.abs(points).max(axis=0))
        values = affine_coordinates(atoms).values
        assert np.abs(values @ weights).max() <= 1e-14 * weights.sum()

    def test_rank_is_judged_in_units_of_the_peaks(self, rng):
        points = rng.normal(size=(200, 4)) + np.array([1e8, 0.0, 0.0, 0.0])
        points[:, 3] = points[:, 1] - points[:, 2]
        points[:, 2] *= 1e-9
        peak = np.abs(points).max(axis=0)
        values, independent, _ = affine_coordinates(Atoms(points, np.ones(200), peak))
        assert values.shape == (3, 200)
        assert np.linalg.cond(values[:, independent]) < 1e6

    def test_last_basis_atom_is_affinely_independent(self, rng):
        values, independent, _ = make_coordinates(rng)
        basis = np.append(independent, most_opposite_atom(values, independent))
        columns = np.vstack([np.ones(len(basis)), values[:, basis]])
        assert abs(np.linalg.det(columns)) > abs(np.linalg.det(columns[1:, :-1])) * 0.99


class TestBasis:
    def test_boundary_step_keeps_mass_and_mean(self, rng):
        values = rng.normal(size=(3, 10))
        constraints = np.vstack([np.ones(10), values])
        direction = np.linalg.svd(constraints)[2][-1]
        weights = rng.random(10)
        before = constraints @ weights
        vanished = move_to_boundary(weights, direction)
        assert weights[vanished] == 0.0
        assert (weights >= 0.0).all()
        np.testing.assert_allclose(constraints @ weights, before, atol=1e-14)

    def test_boundary_step_takes_the_other_sign_if_need_be(self):
        weights = np.array([1.0, 2.0])
        assert move_to_boundary(weights, np.array([-1.0, -1e-20])) == 0
        assert weights[0] == 0.0

    def test_exchange_is_the_inverse_of_the_new_basis(self, rng):
        basis = rng.normal(size=(5, 5))
        inverse = np.linalg.inv(basis)
        entering = rng.normal(size=5)
        exchange(inverse, inverse @ entering, 2)
        basis[:, 2] = entering
        np.testing.assert_allclose(inverse @ basis, np.eye(5), atol=1e-10)

    def test_downdated_null_space_stays_orthonormal_and_avoids_the_atom(self, rng):
        constraints = np.vstack([np.ones(12), rng.normal(size=(3, 12))])
        null_space = np.linalg.svd(constraints)[2][4:].T
        for atom in (3, 7, 0):
            null_space = without_atom(null_space, atom)
            assert not null_space[atom].any()
            np.testing.assert_allclose(constraints @ null_space, 0.0, atol=1e-13)
            np.testing.assert_allclose(
                null_space.T @ null_space, np.eye(null_space.shape[1]), atol=1e-13
            )


class TestCone:
    def test_luby_sequence(self):
        expected = [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]
        assert list(islice(luby_sequence(), 15)) == expected

    def test_updates_equal_explicit_inverses(self, rng):
        """Sherman-Morrison against a fresh inverse, step by step."""
        values = make_coordinates(rng, 200, 6).values
        cone = Cone(values, np.arange(200), rng)
        for step in range(30):
            cone.delete_interior()
            cone.turn(step % 6, rng)
            inverse = np.linalg.inv(values[:, cone.live[cone.members]])
            scale = np.abs(inverse).max()
            np.testing.assert_allclose(cone.inverse, inverse, atol=1e-8 * scale)
            np.testing.assert_allclose(
                cone.coefficients, inverse @ values[:, cone.live], atol=1e-8 * scale
            )

    def test_deleting_interior_atoms_keeps_the_centre_in_the_hull(self, rng):
        values = make_coordinates(rng, 200, 4).values
        cone = Cone(values, np.arange(200), rng)
        for step in range(12):
            cone.delete_interior()
            columns = np.vstack([np.ones(len(cone.live)), values[:, cone.live]])
            assert nnls(columns, np.eye(5)[0])[1] <= 1e-10
            cone.turn(step % 4, rng)
        assert len(cone.live) < 200

    def test_answer_is_a_convex_combination_of_the_centre(self, rng):
        values = make_coordinates(rng, 500, 3).values
        cone, step = Cone(values, np.arange(500), rng), 0
        while (answer := cone.answer()) is None:
            cone.turn(step % 3, rng)
            step += 1
        positions, masses = answer
        assert masses.sum() == pytest.approx(1.0)
        assert (masses > 0).all()
        np.testing.assert_allclose(values[:, positions] @ masses, 0.0, atol=1e-13)

    def test_basis_atoms_are_never_deleted(self, rng):
        """Round-off may put a basis atom inside the cone."""
        cone = Cone(make_coordinates(rng).values, np.arange(60), rng)
        before = cone.live[cone.members]
        cone.coefficients[:, cone.members] = 1e-9
        cone.delete_interior()
        np.testing.assert_array_equal(cone.live[cone.members], before)

    @pytest.mark.parametrize("method", ["cone", "log"])
    def test_without_a_budget_the_tree_answers(self, method, rng, monkeypatch):
        monkeypatch.setattr(_cone, "EXCHANGES_PER_ATOM", 0)
        cloud = Cloud("", rng.normal(size=(400, 5)), rng.random(400))
        result = recombine(cloud.points, cloud.weights, method=method, random_state=0)
        assert result.method == "tree"
        assert_contract(cloud, result)

    def test_work_on_many_atoms_is_bounded(self, rng, monkeypatch):
        """A hundred coordinates take so many exchanges that elimination is faster."""
        updated, turn = [], Cone.turn

        def counted(cone, *arguments):
            updated.append(cone.coefficients.size)
            turn(cone, *arguments)

        monkeypatch.setattr(Cone, "turn", counted)
        monkeypatch.setattr(_cone, "MAX_UPDATED_ENTRIES", 2**22)
        cloud = Cloud("", rng.normal(size=(4000, 100)), None)
        result = recombine(cloud.points, method="cone", random_state=0)
        assert result.method == "tree"
        assert 0 < sum(updated) <= 2**22
        assert_contract(cloud, result)

    def test_with_a_budget_the_cone_answers(self, rng):
        points = rng.normal(size=(2000, 3))
        for method in ("cone", "log", "combined"):
            assert recombine(points, method=method, random_state=0).method == method


class TestPivoting:
    def test_every_step_keeps_mass_and_mean_and_removes_an_atom(self, rng):
        """Basis masses and the shared rest of the others are one feasible measure."""
        values, _, weights = coordinates = make_coordinates(rng, 300, 12)
        simplex = Simplex(coordinates)
        seen = set(simplex.atoms)
        n_steps = 0
        while (move := simplex.goal())[1].size:
            place = simplex.move_towards(*move)
            assert simplex.masses.min() >= -1e-15
            assert simplex.masses[place] == pytest.approx(0.0, abs=1e-15)
            atom = simplex.opposite_atom(place)
            assert atom not in seen
            seen.add(atom)
            simplex.replace(place, atom)
            masses = simplex.share * weights
            masses[list(seen)] = 0.0
            masses[simplex.atoms] = simplex.masses
            assert masses.sum() == pytest.approx(weights.sum(), rel=1e-12)
            np.testing.assert_allclose(values @ masses, 0.0, atol=1e-10)
            n_steps += 1
        assert n_steps > 0

    def test_the_number_of_exchanges_does_not_grow_with_the_atoms(self, rng):
        counts = []
        for n_points in (200, 20_000):
            simplex = Simplex(make_coordinates(rng, n_points, 10))
            counts.append(0)
            while (move := simplex.goal())[1].size:
                place = simplex.move_towards(*move)
                simplex.replace(place, simplex.opposite_atom(place))
                counts[-1] += 1
        # About one exchange per coordinate; elimination would need 20 000.
        assert max(counts) <= 50


class TestGroups:
    @pytest.mark.parametrize("n_points", [601, 700, 2000, 31_000])
    def test_last_reduction_is_left_with_enough_atoms(self, n_points, rng):
        """The cone search is exponential on few atoms."""
        seen = []

        def recording(atoms, target, random):
            seen.append(len(atoms.weights))
            return reduce_by_tree(atoms, target, random)

        points = rng.normal(size=(n_points, 2))
        atoms = Atoms(points, np.ones(n_points), np.abs(points).max(axis=0))
        count_groups = groups_per_dimension(50)
        through_groups(count_groups, recording, least_last_atoms=True)(
            atoms, None, None
        )
        assert 140 <= seen[-1] <= 301
        assert sum(seen) <= 4 * 301

    def test_groups_without_mass_do_not_survive(self, rng):
        weights = np.ones(30_000)
        weights[:20_000] = 0.0
        points = rng.normal(size=(30_000, 3))
        assert recombine(points, weights).indices.min() >= 20_000


class TestVerification:
    def test_polishing_restores_the_moments(self, rng):
        points, weights = rng.normal(size=(5, 4)) + 3.0, rng.random(5) + 0.5
        totals = Totals(weights @ points, weights.sum(), np.abs(points).max(axis=0))
        disturbed = weights * (1 + 1e-6 * rng.normal(size=5))
        assert max(moment_errors(points, disturbed, totals)) > 1e-8
        restored = polished(points, disturbed, totals)
        assert max(moment_errors(points, restored, totals)) < 1e-15

    def test_polishing_never_makes_a_mass_vanish(self):
        points = np.array([[0.0], [1.0]])
        totals = Totals(np.array([-1.0]), 1.0, np.array([1.0]))
        weights = np.array([0.5, 0.5])
        assert polished(points, weights, totals) is weights


def give_up(summary, target, random):
    raise MethodFailed


def even_masses(summary, target, random):
    return np.arange(3), np.full(3, summary.totals.mass / 3)


def exact_with(change):
    """An answer that is right but for one thing."""

    def reduce(summary, target, random):
        indices, masses = METHODS["pivoting"](summary, target, random)
        return change(indices, masses)

    return reduce


def first_twice(share):
    """Name the first atom twice, with masses that add up."""

    def change(indices, masses):
        part = share * masses[0]
        masses = np.append(masses, part)
        masses[0] -= part
        return np.append(indices, indices[0]), masses

    return exact_with(change)


GARBAGE = {
    "wrong masses": even_masses,
    "nothing": exact_with(lambda indices, masses: (indices[:0], masses[:0])),
    "NaN": exact_with(lambda indices, masses: (indices, np.nan * masses)),
    "infinity": exact_with(lambda indices, masses: (indices, np.inf * masses)),
    "an atom twice": first_twice(0.5),
    "negative masses": first_twice(-0.5),
}


class TestFallbacks:
    def break_methods(self, monkeypatch, n_broken, broken=give_up):
        """Let the first methods of the chain of 'auto' fail."""
        chain = _methods.chain("auto")
        chain |= dict.fromkeys(list(chain)[:n_broken], broken)
        monkeypatch.setattr(_reduce, "chain", lambda method: chain)

    @pytest.mark.parametrize(
        ("n_broken", "answering"),
        [(1, "pivoting"), (2, "tree"), (3, "litterer-lyons"), (4, "nnls")],
    )
    def test_the_next_method_answers(self, n_broken, answering, rng, monkeypatch):
        self.break_methods(monkeypatch, n_broken)
        cloud = Cloud("", rng.normal(size=(200, 4)), rng.random(200))
        result = recombine(cloud.points, cloud.weights, target_size=100)
        assert result.method == answering
        assert_contract(cloud, result, 100)

    def test_error_when_nothing_answers(self, rng, monkeypatch):
        self.break_methods(monkeypatch, 5)
        with pytest.raises(RecombinationError, match=r"calibration, pivoting, tree"):
            recombine(rng.normal(size=(50, 2)))

    @pytest.mark.parametrize("kind", GARBAGE)
    def test_a_wrong_answer_is_noticed(self, kind, rng, monkeypatch):
        """The measure is verified, so a broken method cannot pass."""
        self.break_methods(monkeypatch, 2, GARBAGE[kind])
        cloud = Cloud("", rng.normal(size=(200, 4)), None)
        result = recombine(cloud.points)
        assert result.method == "tree"
        assert_contract(cloud, result)


class TestNames:
    """The result names the method that answered, never "auto"."""

    @pytest.mark.parametrize("method", ["auto", "calibration"])
    @pytest.mark.parametrize(
        ("target_size", "answering"),
        [
            (None, "pivoting"),
            (1, "pivoting"),
            (14, "pivoting"),  # fewer than three rows for each of the five moments
            (15, "calibration"),
            (150, "calibration"),
            (400, "pivoting"),  # nothing to draw: all rows are wanted
        ],
    )
    def test_calibration_where_there_is_room(self, method, target_size, answering, rng):
        points = rng.uniform(size=(400, 4))
        result = recombine(
            points, method=method, target_size=target_size, random_state=0
        )
        assert result.method == answering

    @pytest.mark.parametrize("target_size", [None, 150])
    def test_pivoting_can_be_asked_for(self, target_size, rng):
        points = rng.normal(size=(400, 4))
        result = recombine(points, method="pivoting", target_size=target_size)
        assert result.method == "pivoting"

    def test_where_no_sample_can_be_calibrated_pivoting_answers(self):
        points = np.zeros((20_000, 1))
        points[123] = 5.0
        result = recombine(points, method="calibration", target_size=60, random_state=0)
        assert result.method == "pivoting"


class TestMoments:
    @pytest.mark.parametrize("group_size", [1, 7, 64, 5000])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_group_sums_of_one_pass(self, group_size, weighted, rng):
        points = rng.normal(size=(3001, 60))
        weights = rng.random(3001) * (rng.random(3001) < 0.7) if weighted else None
        moments = group_moments(Rows(points, weights), group_size)
        masses = np.ones(3001) if weights is None else weights
        starts = np.arange(0, 3001, group_size)
        np.testing.assert_allclose(
            moments.sums, np.add.reduceat(masses[:, None] * points, starts), atol=1e-12
        )
        np.testing.assert_allclose(moments.masses, np.add.reduceat(masses, starts))
        np.testing.assert_array_equal(moments.peak, np.abs(points[masses > 0]).max(0))

    @pytest.mark.parametrize("n_rows", [1, 31, 32, 64, 65, 200])
    def test_column_peak(self, n_rows, rng):
        block = rng.normal(size=(n_rows, 3))
        np.testing.assert_array_equal(column_peak(block), np.abs(block).max(axis=0))


class TestCalibration:
    def test_masses_stay_balanced(self, rng):
        """Kish's effective sample size stays near the number of atoms."""
        points, weights = rng.exponential(size=(5000, 10)), rng.random(5000)
        result = recombine(points, weights, target_size=500, random_state=0)
        effective = result.weights.sum() ** 2 / (result.weights**2).sum()
        assert result.method == "calibration"
        assert effective > 0.8 * 500

    def test_averages_of_other_functions_are_nearly_kept(self, rng):
        points = rng.normal(size=(50_000, 8))
        indices, weights = recombine(points, target_size=2000, random_state=0)
        second = (weights * points[indices].T) @ points[indices]
        # Standard error of a product of two columns: 1 / sqrt(2000), six of them.
        assert np.abs(second - np.cov(points.T)).max() < 6 / np.sqrt(2000)

    def test_a_column_missed_by_every_sample_is_still_matched(self, rng):
        points = rng.normal(size=(20_000, 3))
        points[:, 2] = 0.0
        points[123, 2] = 5.0
        cloud = Cloud("", points, None)
        result = recombine(points, target_size=60, random_state=0)
        assert_contract(cloud, result, 60)
        assert 123 in result.indices

    def test_a_sample_without_a_direction_cannot_be_calibrated(self):
        columns = DenseColumns(np.array([[1.0, 1.0, 1.0], [0.2, 0.2, 0.2]]))
        assert calibrate(columns, np.ones(3), np.array([3.0, 0.0])) is None

    @pytest.mark.parametrize("dependent", [False, True])
    def test_masses_change_as_little_as_possible(self, dependent, rng):
        """Stationarity: relative changes are a combination of the moments."""
        array = np.vstack([np.ones(200), rng.normal(size=(4, 200))])
        if dependent:
            array = np.vstack([array, array[1] - 2 * array[2], np.zeros(200)])
        base = rng.random(200) + 0.1
        wanted = array @ (base * (1 + 0.1 * array[3]))
        masses = calibrate(DenseColumns(array), base, wanted)
        np.testing.assert_allclose(array @ masses, wanted, atol=1e-10)
        change = masses / base - 1
        assert np.abs(change).max() > 0.01
        multiplier = np.linalg.lstsq(array.T, change, rcond=None)[0]
        np.testing.assert_allclose(array.T @ multiplier, change, atol=1e-12)

    def test_atoms_of_too_little_mass_are_dropped_if_that_is_allowed(self):
        columns = DenseColumns(np.array([[1.0, 1.0, 1.0], [-1.0, 0.1, 2.0]]))
        wanted = np.array([3.0, -2.9])
        assert calibrate(columns, np.ones(3), wanted) is None
        wanted = np.array([3.0, -2.0])
        masses = calibrate(columns, np.ones(3), wanted, max_solves=2)
        assert masses[2] == 0.0
        assert (masses[:2] > 0).all()
        np.testing.assert_allclose(masses.sum(), 3.0)
        assert calibrate(columns, np.ones(3), wanted, max_solves=1) is None

    def test_least_factor_bounds_the_change(self, rng):
        columns = DenseColumns(np.vstack([np.ones(50), rng.normal(size=50)]))
        base = np.full(50, 0.02)
        wanted = columns.moments(base) + np.array([0.0, 0.2])
        masses = calibrate(columns, base, wanted)
        smallest = (masses / base).min()
        assert 0 < smallest < 0.9
        above, below = smallest * 1.01, smallest * 0.99
        assert calibrate(columns, base, wanted, least_factor=above) is None
        again = calibrate(columns, base, wanted, least_factor=below)
        np.testing.assert_array_equal(again, masses)

    @pytest.mark.parametrize("inverse", [ridged_inverse, pseudo_inverse])
    def test_dependent_moments_are_solved(self, inverse, rng):
        array = rng.normal(size=(3, 40)) * np.array([[1e-6], [1.0], [1e6]])
        array = np.vstack([array, array[1], np.zeros(40)])
        gram = array @ array.T
        right = gram @ rng.normal(size=5)
        solution = inverse(gram)(right)
        np.testing.assert_allclose(gram @ solution, right, rtol=1e-9)

    def test_moments_that_overflow_are_refused(self):
        columns = DenseColumns(np.array([[1.0, 1.0], [1e200, -1e200]]))
        with np.errstate(over="ignore"):
            assert calibrate(columns, np.ones(2), np.array([2.0, 0.0])) is None

    def test_rows_without_mass_are_not_drawn_at_the_edge_of_a_stratum(self):
        class Zero:
            def random(self, size):
                return np.zeros(size)

        rows = Rows(np.zeros((4, 1)), np.array([0.0, 1.0, 0.0, 1.0]))
        indices, base = draw_by_mass(rows, 2.0, 2, Zero())
        assert indices.tolist() == [1, 3]
        assert base.tolist() == [1.0, 1.0]

    @pytest.mark.parametrize("weighted", [False, True])
    def test_rows_are_drawn_in_proportion_to_their_mass(self, weighted, rng):
        points = np.zeros((200_000, 1))
        weights = None
        masses = np.ones(200_000)
        if weighted:
            weights = masses = rng.random(200_000) * (rng.random(200_000) < 0.5)
        indices, base = draw_by_mass(Rows(points, weights), masses.sum(), 1000, rng)
        assert base.sum() == pytest.approx(masses.sum())
        assert (masses[indices] > 0).all()
        # Each stratum holds 1/1000 of the mass, so the drawn distribution function
        # is nowhere further away than one stratum.
        drawn = np.zeros(200_000)
        drawn[indices] = base
        distance = np.abs(np.cumsum(drawn) - np.cumsum(masses)).max()
        assert distance <= 1.01 * masses.sum() / 1000
