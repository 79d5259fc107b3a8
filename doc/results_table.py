"""Sphinx directive: a table that a benchmark wrote, as it stands in the repository.

::

    .. results-table:: peers/README.md
       :heading: Summary
       :machine:

shows the first Markdown table after a heading of a file in
``examples/benchmarks/results``, or the one of a given ``number``. With ``machine`` the
line in which the benchmark describes processor and versions stands above it.
"""

from itertools import groupby
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

RESULTS = Path(__file__).parents[1] / "examples" / "benchmarks" / "results"


def read_tables(lines: list[str]) -> list[list[list[str]]]:
    """Return the cells of all Markdown tables, the header first in each."""
    tables = []
    for is_table, block in groupby(lines, key=lambda line: line.startswith("|")):
        if is_table:
            header, _, *rows = (line.strip("|").split("|") for line in block)
            tables.append([header, *rows])
    return tables


def list_table(rows: list[list[str]]) -> list[str]:
    """Return the lines of a list table in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        bullets = ["   * -"] + ["     -"] * (len(row) - 1)
        lines += [
            f"{bullet} {cell.strip()}"
            for bullet, cell in zip(bullets, row, strict=True)
        ]
    return lines


class ResultsTable(Directive):
    """The directive."""

    required_arguments = 1
    option_spec = {  # noqa: RUF012 - the convention of docutils
        "heading": directives.unchanged_required,
        "number": directives.positive_int,
        "machine": directives.flag,
    }

    def run(self):
        """Return the table as nodes, parsed from a list table."""
        path = RESULTS / self.arguments[0]
        self.state.document.settings.record_dependencies.add(str(path))
        lines = path.read_text().splitlines()
        machine = next(line for line in lines[1:] if line)
        if "heading" in self.options:
            lines = lines[lines.index(f"## {self.options['heading']}") :]
        text = list_table(read_tables(lines)[self.options.get("number", 1) - 1])
        if "machine" in self.options:
            text = [machine, "", *text]
        container = nodes.Element()
        self.state.nested_parse(StringList(text, source=str(path)), 0, container)
        return container.children


def setup(app):
    """Register the directive."""
    app.add_directive("results-table", ResultsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
