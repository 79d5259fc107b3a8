"""Sphinx extension: formulas as MathML, drawn by the browser itself.

Nothing is loaded when a page is read, neither a script nor a font, so formulas show on
a machine without a network and in a file that was opened from a disk.
"""

from docutils import nodes
from latex2mathml.converter import convert


def render_inline(translator, node):
    """Write a formula inside a sentence."""
    translator.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def render_block(translator, node):
    """Write a formula on a line of its own."""
    formula = convert(node.astext(), display="block")
    translator.body.append(f'<div class="math">{formula}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (render_inline, None), (render_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
