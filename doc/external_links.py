"""Links into the documentation of other projects, without asking their servers.

A file ``inventories/PROJECT.txt`` starts with the address of the project's pages and
lists the names that our pages refer to, in the format of Sphinx inventories: name,
kind, priority, page, title (``$`` stands for the name, ``-`` for the same as the name).
A name that is not listed is an error of the build, so that no link goes nowhere
unnoticed. Docstrings that our classes inherit are another matter: what they refer to is
not ours to list, and stays plain text.
"""

import zlib
from pathlib import Path

import sklearn
from docutils.utils import get_source_line

_HEADER = """\
# Sphinx inventory version 2
# Project: {project}
# Version:
# The remainder of this file is compressed using zlib.
"""


def make_mapping(source: Path, target: Path) -> dict[str, tuple[str, str]]:
    """Return the value of ``intersphinx_mapping``.

    Parameters
    ----------
    source : Path
        Folder with the text files.
    target : Path
        Folder for the inventories that Sphinx reads; it is made.
    """
    target.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for listing in sorted(source.glob("*.txt")):
        address, *entries = listing.read_text().splitlines()
        inventory = target / f"{listing.stem}.inv"
        header = _HEADER.format(project=listing.stem).encode()
        # Sphinx itself expands the sign only at the end of an address.
        body = "".join(
            f"{entry.replace('$', entry.split()[0])}\n" for entry in entries if entry
        )
        inventory.write_bytes(header + zlib.compress(body.encode()))
        mapping[listing.stem] = (address, str(inventory.resolve()))
    return mapping


def leave_inherited_unlinked(app, environment, node, text):
    """Return the text of an unresolved reference in a docstring of scikit-learn."""
    source, _ = get_source_line(node)
    if source is not None and source.startswith(str(Path(sklearn.__file__).parent)):
        return text
    return None


def setup(app):
    """Let inherited docstrings refer to what they like, after all others were asked."""
    app.connect("missing-reference", leave_inherited_unlinked, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
