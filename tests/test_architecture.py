"""The cut of the code: imports go one way, recombination stands on its own."""

import ast
from pathlib import Path

import pytest

import skcara

PACKAGE = Path(skcara.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
RECOMBINATION_MODULES = [path for path in MODULES if "recombination" in path.parts]

# Layers from the top; a module may import from layers strictly below its own, and
# from its own package.
LAYERS = [
    {"estimators", "plotting"},
    {"solvers", "io"},
    {"passes"},
    {"blocks", "recombination", "objective"},
    {"data"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imported_names(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module


def package_of(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_imports_go_one_way(path):
    package = package_of(path)
    for name in imported_names(path):
        parts = name.split(".")
        if parts[0] != "skcara" or len(parts) == 1 or package is None:
            continue
        if parts[1] in RANK and parts[1] != package:
            assert RANK[parts[1]] > RANK[package], f"{path.name} imports {name}"


@pytest.mark.parametrize(
    "path",
    sorted((PACKAGE / "recombination").rglob("*.py")),
    ids=lambda path: path.stem,
)
def test_recombination_knows_numpy_and_scipy_only(path):
    standard = {"__future__", "collections", "dataclasses", "functools", "math"}
    standard |= {"itertools", "numbers", "typing", "warnings"}
    roots = {name.split(".")[0] for name in imported_names(path)}
    assert roots <= standard | {"numpy", "scipy", "skcara"}
    own = {name for name in imported_names(path) if name.startswith("skcara")}
    assert all(name.startswith("skcara.recombination") for name in own)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
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


def test_public_names_exist():
    for name in skcara.__all__:
        assert hasattr(skcara, name)
