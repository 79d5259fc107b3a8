"""How to make a part: the tasks of Dask that belong to it alone, as one task.

Dask runs a task for every step from a file to a part, and its scheduler spends about a
millisecond on each, and it may run the steps of a part on different workers. A *recipe*
holds the steps of one part and runs them one after the other, wherever it is called.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from skcara.io._optional import import_optional

# A part of more steps is left to Dask: it may be put together from many others, which
# several workers can make at the same time.
_MOST_STEPS = 16


@dataclass(frozen=True, eq=False)
class Recipe:
    """The steps that make one part.

    Not a tuple: Dask looks for tasks in tuples.

    Attributes
    ----------
    steps : dict
        A graph of Dask.
    output : object
        Key of the part.
    inputs : tuple
        Keys of results that steps need and that are on the cluster already.
    """

    steps: dict
    output: Any
    inputs: tuple

    def __call__(self, values: dict):
        """Return the part, given the values of the inputs by their keys."""
        core = import_optional("dask.core", extra="dask", needed_by="from_dask")
        needed = {key: values[key] for key in self.inputs}
        return core.get(self.steps, self.output, cache=needed)


def find_recipes(parts, known: Collection) -> list[Recipe] | None:
    """Return a recipe for each part, or None if Dask should see to the graph.

    That is so if parts have steps in common, as a mean of all rows, if they consist of
    many, or if some are annotated for the scheduler, as with resources that they need.

    Parameters
    ----------
    parts : list of Delayed
    known : collection
        Keys of results that are on the cluster.
    """
    graphs = import_optional("dask.highlevelgraph", extra="dask", needed_by="from_dask")
    graph = graphs.HighLevelGraph.merge(*(part.__dask_graph__() for part in parts))
    if any(layer.annotations for layer in graph.layers.values()):
        return None
    steps = {key: task for key, task in dict(graph).items() if key not in known}
    taken: set = set()
    recipes = []
    for part in parts:
        recipe = _recipe_of(part.key, steps, known)
        if recipe is None or not taken.isdisjoint(recipe.steps):
            return None
        taken.update(recipe.steps)
        recipes.append(recipe)
    return recipes


def _recipe_of(output, steps: dict, known: Collection) -> Recipe | None:
    """All steps behind a key; None if they are many, or not of the usual kind."""
    own: dict = {}
    inputs: dict = {}
    waiting = [output]
    while waiting:
        key = waiting.pop()
        if key in known:
            inputs[key] = None
            continue
        step = own[key] = steps.get(key)
        # Steps of old versions do not say what they need.
        needed = getattr(step, "dependencies", None)
        if needed is None or len(own) > _MOST_STEPS:
            return None
        waiting += [other for other in needed if other not in own]
    return Recipe(own, output, tuple(inputs))
