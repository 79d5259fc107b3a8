"""Numbers that tune the package: each has a reason, and the fast ones a benchmark."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from example_modules import EXAMPLES, imported

import skcara

PACKAGE = Path(skcara.__file__).parent
BENCHMARKS = EXAMPLES / "benchmarks"


def is_number(node):
    """Whether an expression is made of literal numbers."""
    return any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float)
        for part in ast.walk(node)
    )


def constant_lines(module):
    """First line of each assignment of a number to a name in capitals."""
    for node in ast.parse(module.read_text()).body:
        if not isinstance(node, ast.Assign) or not is_number(node.value):
            continue
        names = [
            part for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)
        ]
        if names and all(name.id.isupper() for name in names):
            yield node.lineno


def unexplained_constants(module):
    """Constants with no comment above them or above the block that they end."""
    lines = [line.strip() for line in module.read_text().splitlines()]
    found = set(constant_lines(module))
    for number in sorted(found):
        first = number
        while first - 1 in found:
            first -= 1
        if not lines[first - 2].startswith("#"):
            yield f"{module.relative_to(PACKAGE)}:{number}: {lines[number - 1]}"


def test_every_number_has_a_reason():
    modules = sorted(PACKAGE.rglob("*.py"))
    assert sum(1 for module in modules for _ in constant_lines(module)) > 100
    assert [line for module in modules for line in unexplained_constants(module)] == []


@pytest.fixture(scope="module")
def bench_constants():
    names = ("problems", "measure", "report", "bench_constants")
    with imported(BENCHMARKS, names) as modules:
        yield modules["bench_constants"]


def test_studies_are_about_numbers_of_the_package(bench_constants):
    for name, (values, workloads) in bench_constants.STUDIES.items():
        shipped = bench_constants.shipped_value(name)
        assert isinstance(shipped, int | float), name
        assert shipped not in values, name
        assert set(workloads) <= set(bench_constants.WORKLOADS), name


def test_a_study_changes_the_number_and_restores_it(bench_constants):
    name = "solvers._strategy._MAX_DENSE_COLUMNS"
    shipped = bench_constants.shipped_value(name)
    with bench_constants.changed(name, 1):
        assert bench_constants.shipped_value(name) == 1
    assert bench_constants.shipped_value(name) == shipped


def test_a_study_is_written(tmp_path):
    name = "solvers._strategy._MAX_DENSE_COLUMNS"
    arguments = [name, "--values", "40", "--quick", "--output", str(tmp_path)]
    subprocess.run(
        [sys.executable, "bench_constants.py", *arguments], cwd=BENCHMARKS, check=True
    )
    table = (tmp_path / "constants.md").read_text()
    assert name in table
    assert "| 100 | Lasso, 60 columns | 40: " in table
