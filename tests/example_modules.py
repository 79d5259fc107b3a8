"""Modules of the example folders, for the tests."""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@contextmanager
def imported(folder, names):
    """Import modules of a folder of examples without shadowing modules of the tests."""
    shadowed = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    yield {name: importlib.import_module(name) for name in names}
    sys.path.remove(str(folder))
    for name in names:
        del sys.modules[name]
    sys.modules.update(shadowed)
