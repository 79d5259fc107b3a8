"""Parts are made by one task of Dask each, unless it has a reason to make more."""

import numpy as np
import pytest
from io_tasks import assert_same_bits, load_part

from skcara.io._recipes import _MOST_STEPS, find_recipes

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from skcara.io._dask_parts import bind_parts  # noqa: E402

N_PARTS = 3


def make_table():
    """Rows in partitions of different lengths."""
    parts = [load_part(number)[: 100 + number] for number in range(N_PARTS)]
    return da.concatenate(
        [da.from_delayed(dask.delayed(part), part.shape, float) for part in parts]
    )


def assert_makes(recipes, parts, values):
    """Recipes give the bits that Dask gives."""
    assert len(recipes) == len(parts)
    for recipe, part in zip(recipes, parts, strict=True):
        made, expected = recipe(values), part.compute(scheduler="synchronous")
        assert_same_bits([made.rows, made.target], [expected.rows, expected.target])


def test_steps_of_a_part_are_one_task():
    table = make_table()
    parts = bind_parts(2 * table[:, :6], table[:, 6] > 0)
    recipes = find_recipes(parts, {})
    assert_makes(recipes, parts, {})
    assert all(len(recipe.steps) > 1 for recipe in recipes)
    assert not any(recipe.inputs for recipe in recipes)


def test_results_on_the_cluster_are_inputs():
    """Those of other parts are not, and what made them is not made again."""
    table = make_table()
    keys = [key for (key,) in table.__dask_keys__()]
    values = dict(zip(keys, dask.get(dict(table.dask), keys), strict=True))
    parts = bind_parts(table[:, :6], table[:, 6])
    recipes = find_recipes(parts, values)
    assert [recipe.inputs for recipe in recipes] == [(key,) for key in keys]
    assert_makes(recipes, parts, values)
    assert not any(key in recipe.steps for recipe in recipes for key in keys)


def test_what_parts_have_in_common_is_left_to_dask():
    """It would be computed once for each part."""
    table = make_table()
    centred = table - table.mean(axis=0)
    assert find_recipes(bind_parts(centred[:, :6], centred[:, 6]), {}) is None


def test_annotated_parts_are_left_to_dask():
    """They say where tasks may run."""
    table = make_table()
    with dask.annotate(resources={"GPU": 1}):
        parts = bind_parts(table[:, :6], table[:, 6])
    assert find_recipes(parts, {}) is None


def test_parts_put_together_from_many_are_left_to_dask():
    """Several workers can make them at the same time."""
    pieces = da.from_array(np.ones((10 * _MOST_STEPS, 3)), chunks=(5, -1))
    table = (pieces + 1).rechunk((5 * _MOST_STEPS, -1))
    assert find_recipes(bind_parts(table[:, :2], table[:, 2]), {}) is None
