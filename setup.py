"""Description on package indexes: the README without addresses that lead nowhere there.

An index shows the README but none of the files beside it. Where ``[project.urls]``
names a ``Repository``, links and pictures are made absolute; without one, links become
plain text and pictures say where they are. Everything else is in ``pyproject.toml``.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
RELATIVE = r"\[([^]]*)\]\((?!https?://|#)([^)]+)\)"


def describe(readme: str, repository: str | None) -> str:
    """Return a README that stands on its own.

    Parameters
    ----------
    readme : str
        Markdown with addresses relative to the root of the repository.
    repository : str or None
        Address of the repository, without a slash at the end.
    """
    if repository is None:
        readme = re.sub(f"!{RELATIVE}", r"*Picture (\2): \1.*", readme)
        return re.sub(RELATIVE, r"\1", readme)
    readme = re.sub(f"!{RELATIVE}", rf"![\1]({repository}/raw/main/\2)", readme)
    return re.sub(RELATIVE, rf"[\1]({repository}/blob/main/\2)", readme)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    setup(
        long_description=describe(
            (ROOT / "README.md").read_text(), project["urls"].get("Repository")
        ),
        long_description_content_type="text/markdown",
    )
