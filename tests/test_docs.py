"""What the documentation says is true: its code runs, its names and pictures exist."""

import ast
import builtins
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import matplotlib
import pytest

import skcara

matplotlib.use("Agg")
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "doc").glob("*.rst"))]
MODULES = ["skcara"] + [
    module.name for module in pkgutil.walk_packages(skcara.__path__, "skcara.")
]
GALLERY = sorted((ROOT / "examples").glob("plot_*.py"))
PAGES_WITH_CODE = {
    "README.md",
    "index.rst",
    "getting_started.rst",
    "user_guide.rst",
    "choosing_the_penalty.rst",
    "larger_than_memory.rst",
}


INVENTORIES = sorted((ROOT / "doc" / "inventories").glob("*.txt"))


def resolve(name):
    """Return the object with this full name, whatever part of it is a module."""
    if name in vars(builtins):
        return vars(builtins)[name]
    return pkgutil.resolve_name(name)


def python_blocks(page):
    """Code blocks of a page, in order."""
    text = page.read_text()
    if page.suffix == ".md":
        return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:(?:   .*)?\n)+)", text)
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in blocks]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures, _ = doctest.testmod(module, optionflags=options)
    assert failures == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_the_pages_runs(page, capsys):
    blocks = python_blocks(page)
    assert bool(blocks) == (page.name in PAGES_WITH_CODE)
    if page.name == "user_guide.rst":
        pytest.importorskip("sklearn.callback")  # shown for scikit-learn >= 1.9
    if page.name == "larger_than_memory.rst":
        pytest.importorskip("pyarrow")
        pytest.importorskip("dask.dataframe")
    namespace = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)


def test_readme_has_the_commands_for_a_fresh_machine():
    text = (ROOT / "README.md").read_text()
    for marker, command in (
        ("main-job", "examples/quickstart.py"),
        ("tests", "-m pytest"),
    ):
        block = re.search(f"<!-- {marker} -->\n```bash\n(.*?)```", text, re.DOTALL)
        assert "venv" in block[1]
        assert command in block[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_mention_exist(page):
    text = page.read_text()
    images = re.findall(r"!\[[^]]*\]\(([^)]+)\)|\.\. image:: (\S+)", text)
    scripts = re.findall(r"`((?:examples|skcara|tests)/[\w/]+(?:\.py)?)`", text)
    for image in map("".join, images):
        assert (page.parent / image).stat().st_size <= 150 * 1024
    for path in scripts:
        assert (ROOT / path).exists(), path


def test_no_page_has_the_name_of_one_that_sphinx_writes():
    """Sphinx writes its own pages last, over those of the same name."""
    assert {page.stem for page in PAGES}.isdisjoint(("search", "genindex", "objects"))


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "doc" / "api.rst").read_text().split()
    for name in skcara.__all__:
        assert name.startswith("__") or name in reference


@pytest.mark.parametrize(
    "estimator", [skcara.CaLasso, skcara.CaLeastSquares, skcara.CaLogisticRegression]
)
def test_every_parameter_and_attribute_is_documented(estimator):
    parameters, attributes = estimator.__doc__.split("Attributes\n----------\n")
    for name in estimator().get_params():
        assert re.search(rf"^{name} : ", parameters, re.MULTILINE), name
    X = [[float(i), float(i % 3)] for i in range(20)]
    for name in vars(estimator(tol=0.1).fit(X, [i % 2 for i in range(20)])):
        if name.endswith("_") and not name.startswith("_"):
            assert re.search(rf"^{name} : ", attributes, re.MULTILINE), name


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_gallery_scripts_have_a_title_and_a_place(script):
    docstring = ast.get_docstring(ast.parse(script.read_text()))
    title, underline = docstring.lstrip("=\n").splitlines()[:2]
    assert underline == "=" * len(title)
    order = (ROOT / "doc" / "gallery_order.py").read_text()
    assert f'"{script.name}"' in order


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.stem)
def test_names_that_pages_link_to_exist(inventory):
    address, *entries = inventory.read_text().splitlines()
    assert address.startswith("https://")
    assert address.endswith("/")
    names = [entry.split()[0] for entry in entries if " py:" in entry]
    assert len(names) == len(set(names))
    for name in names:
        resolve(name)
