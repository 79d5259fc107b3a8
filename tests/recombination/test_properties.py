"""Random shapes, scales and weights."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from recombination.clouds import Cloud, assert_contract, column_error

from skcara.recombination import RECOMBINATION_METHODS, merge, recombine

METHODS = st.sampled_from(sorted(RECOMBINATION_METHODS))
bounded = settings(max_examples=150, deadline=None)


@st.composite
def clouds(draw) -> Cloud:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_points, n_columns = draw(st.integers(1, 90)), draw(st.integers(0, 7))
    rank = draw(st.integers(1, 7))
    points = rng.normal(size=(n_points, rank)) @ rng.normal(size=(rank, n_columns))
    if draw(st.booleans()):
        # Few distinct values: ties, duplicates, degenerate vertices.
        points = np.round(points)
    points = points[rng.integers(0, draw(st.integers(1, n_points)), n_points)]
    points = points * 10.0 ** rng.uniform(-1, 1, n_columns) ** draw(st.integers(0, 100))
    points = points * 10.0 ** draw(st.integers(-290, 290))
    weights = None
    if draw(st.booleans()):
        weights = 10.0 ** rng.uniform(-draw(st.integers(0, 9)), 0, n_points)
        weights[rng.random(n_points) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
        weights[rng.integers(n_points)] = 1.0
        weights *= 10.0 ** draw(st.integers(-280, 280))
    return Cloud("drawn", points, weights)


@bounded
@given(clouds(), METHODS, st.none() | st.integers(1, 60), st.integers(0, 2**31))
def test_any_cloud_keeps_the_contract(cloud, method, target_size, seed):
    result = recombine(
        cloud.points,
        cloud.weights,
        method=method,
        target_size=target_size,
        random_state=seed,
    )
    assert_contract(cloud, result, target_size)


@bounded
@given(st.data(), METHODS, st.integers(0, 2**32 - 1))
def test_merging_parts_is_recombining_the_whole(data, method, seed):
    rng = np.random.default_rng(seed)
    n_points = data.draw(st.integers(2, 80))
    points, weights = rng.normal(size=(n_points, 3)), rng.random(n_points) + 0.1
    cut = data.draw(st.integers(1, n_points - 1))
    parts = []
    for rows in (np.arange(cut), np.arange(cut, n_points)):
        part = recombine(points[rows], weights[rows], method=method, random_state=0)
        parts.append((rows[part.indices], part.weights))
    merged = merge(points, parts, method=method, random_state=0)
    assert len(merged.indices) <= 4
    assert column_error(points, weights, *merged) <= 1e-13
