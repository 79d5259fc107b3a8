"""The breaks of `mutations` are still about lines that exist."""

import pytest
from mutations import BREAKS, ROOT, apply


@pytest.mark.parametrize("change", BREAKS, ids=lambda change: change.name)
def test_breaks_apply(change, tmp_path):
    module = tmp_path / change.module
    module.parent.mkdir(parents=True)
    original = (ROOT / "skcara" / change.module).read_text()
    module.write_text(original)
    apply(change, tmp_path)
    assert module.read_text() != original
    for path in change.tests.split():
        assert (ROOT / path).exists()
