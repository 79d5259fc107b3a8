"""What a package index and a citation show is true, and no link leads nowhere."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import skcara

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ADDRESSES = r"\]\(([^)]+)\)"


@pytest.fixture(scope="module")
def describe():
    """The function that turns the README into the description of the package."""
    pytest.importorskip("setuptools")
    specification = importlib.util.spec_from_file_location("setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.describe


def test_relative_links_of_the_readme_exist():
    addresses = re.findall(ADDRESSES, README)
    relative = [address for address in addresses if "://" not in address]
    assert relative
    for address in relative:
        assert (ROOT / address).exists(), address


def test_description_without_a_repository_has_no_relative_address(describe):
    addresses = re.findall(ADDRESSES, describe(README, None))
    assert addresses
    assert all(address.startswith("https://") for address in addresses)
    assert "![" not in describe(README, None)


def test_description_with_a_repository_keeps_all_pictures_and_links(describe):
    text = describe(README, "https://host/skcara")
    addresses = re.findall(ADDRESSES, text)
    assert all(address.startswith("https://") for address in addresses)
    assert len(addresses) == len(re.findall(ADDRESSES, README))
    assert "https://host/skcara/raw/main/doc/_static/idea.png" in addresses
    assert "https://host/skcara/blob/main/doc/user_guide.rst" in addresses


def test_citation_names_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {skcara.__version__}\n" in citation


def test_classifiers_start_at_the_oldest_python():
    versions = [
        tuple(map(int, name.split(" :: ")[-1].split(".")))
        for name in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]
    oldest = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    assert min(versions) == oldest


def test_changelog_has_a_page_for_the_version():
    short = skcara.__version__.rpartition(".")[0]
    assert (ROOT / "doc" / "changes" / f"{short}.rst").exists()
