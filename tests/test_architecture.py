"""The cut of the code: imports go one way, modules and functions stay small."""

import ast
import importlib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import skcara

PACKAGE = Path(skcara.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = [path for path in MODULES if path.name == "__init__.py"]

# What the modules of a package may import, besides their own package. Solvers ask for
# passes over data and never for the data of one kind of source; losses, block rules and
# recombination know nothing of each other. A kind of input knows nothing of what is
# summed, and displays know fitted attributes only.
GROUND = {"data"}
MIDDLE = GROUND | {"blocks", "recombination", "objective"}
ALLOWED = {
    "data": set(),
    "blocks": GROUND,
    "recombination": set(),
    "objective": GROUND,
    "passes": GROUND | {"objective"},
    "io": GROUND,
    "solvers": MIDDLE | {"passes"},
    "estimators": MIDDLE | {"passes", "io", "solvers"},
    "plotting": set(),
}
# Rooms of the solvers, and the rooms that each may look into. Descent knows no Hessian
# of all rows; Newton hands the squared loss over, which takes Newton steps on a sample;
# a search of paths leaves the fit on all rows to Newton.
ROOMS = {
    "descent": set(),
    "newton": {"squared"},
    "paths": {"newton"},
    "squared": {"newton"},
}
# Modules of the solvers that know the rooms.
ABOVE_ROOMS = {"__init__", "_registry"}

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60


def name_of(path):
    """Path relative to the package, for messages and names of tests."""
    return path.relative_to(PACKAGE).as_posix().removesuffix(".py")


def each_module(paths=MODULES):
    return pytest.mark.parametrize("path", paths, ids=map(name_of, paths))


@cache
def nodes_of(path):
    """All nodes of the syntax tree of a file, without what only type checkers see."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        is_hidden = (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        if is_hidden:
            node.body = []
    return list(ast.walk(tree))


def imported_names(path):
    """Modules that are imported anywhere in a file, also inside of functions."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module
            # What is imported may itself be a module.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(path):
    """Parts of the names imported from this package, without its own name."""
    for name in imported_names(path):
        root, *parts = name.split(".")
        if root == "skcara" and parts:
            yield parts


def package_of(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def room_of(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[1] if len(parts) > 2 and parts[0] == "solvers" else None


def test_every_package_has_its_place():
    assert {package_of(path) for path in MODULES} - {None} <= set(ALLOWED)
    assert {room_of(path) for path in MODULES} - {None} == set(ROOMS)


@each_module()
def test_imports_go_one_way(path):
    package = package_of(path)
    if package is None:
        return
    for first, *_ in own_imports(path):
        if first in ALLOWED and first != package:
            assert first in ALLOWED[package], f"{name_of(path)} imports {first}"


@each_module([path for path in MODULES if package_of(path) == "solvers"])
def test_rooms_of_the_solvers_are_apart(path):
    room = room_of(path)
    if room is None and path.stem in ABOVE_ROOMS:
        return
    allowed = set() if room is None else ROOMS[room] | {room}
    for parts in own_imports(path):
        if parts[0] == "solvers" and len(parts) > 1:
            entered = parts[1] if parts[1] in ROOMS else None
            assert entered is None or entered in allowed, ".".join(parts)
            assert room is None or parts[1] not in ABOVE_ROOMS, ".".join(parts)


def test_no_module_imports_itself_by_detours():
    graph = {}
    known = {name_of(path).removesuffix("/__init__"): path for path in MODULES}
    for name, path in known.items():
        found = {"/".join(parts) for parts in own_imports(path)}
        # A package hands on what its modules define.
        graph[name] = {one for one in found & set(known) if one != name}
    tuple(TopologicalSorter(graph).static_order())


@each_module([path for path in MODULES if package_of(path) == "recombination"])
def test_recombination_knows_numpy_and_scipy_only(path):
    standard = {"__future__", "collections", "dataclasses", "functools", "math"}
    standard |= {"itertools", "numbers", "typing", "warnings"}
    roots = {name.split(".")[0] for name in imported_names(path)}
    assert roots <= standard | {"numpy", "scipy", "skcara"}
    assert all(parts[0] == "recombination" for parts in own_imports(path))


@each_module()
def test_private_names_of_sklearn_have_one_home(path):
    if path.name == "_sklearn_compat.py":
        return
    private = [
        name
        for name in imported_names(path)
        if name.startswith("sklearn")
        and any(p.startswith("_") for p in name.split("."))
    ]
    assert not private


@each_module([path for path in MODULES if package_of(path) in {"solvers", "passes"}])
def test_solvers_do_not_know_the_losses(path):
    """What they have to know they ask the loss, so that any loss can be plugged in."""
    losses = {"SquaredLoss", "LogisticLoss", "MultinomialLoss"}
    objective = [parts for parts in own_imports(path) if parts[0] == "objective"]
    assert not losses & {parts[-1] for parts in objective}


@each_module([path for path in MODULES if package_of(path) == "solvers"])
def test_solvers_read_nothing(path):
    """They ask; the driver alone runs tasks, and requests alone fetch rows."""
    calls = [
        node.func
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    of_sources = {
        call.attr for call in calls if ast.unparse(call.value).endswith("source")
    }
    reading = {"run", "take", "draw"} & of_sources
    reading |= {"fetch", "visit"} & {call.attr for call in calls}
    assert path.stem == "_driver" or not reading


@each_module()
def test_modules_are_short(path):
    n_lines = len(path.read_text().splitlines())
    assert n_lines <= MAX_MODULE_LINES


@each_module()
def test_functions_are_short(path):
    """Counted without the docstring, which may be as long as it has to."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            n_lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                n_lines -= body[0].end_lineno - body[0].lineno + 1
            assert n_lines <= MAX_FUNCTION_LINES, f"{node.name}: {n_lines} lines"


def order_of(name):
    """Constants, classes, then functions; each in alphabetical order."""
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


@each_module(PACKAGES)
def test_public_names_exist_in_order(path):
    parts = path.parent.relative_to(PACKAGE).parts
    module = importlib.import_module(".".join(["skcara", *parts]))
    names = list(module.__all__)
    assert all(hasattr(module, name) for name in names)
    assert len(set(names)) == len(names)
    dunder = [name for name in names if name.startswith("__")]
    assert [*sorted(set(names) - set(dunder), key=order_of), *dunder] == [
        *(name for name in names if name not in dunder),
        *dunder,
    ]
