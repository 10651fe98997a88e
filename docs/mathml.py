"""A Sphinx extension that writes formulas as MathML, which browsers draw without scripts or a network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)
# What the converter does not know, in words that it knows.
WORDS = {
    r"\\arg\\(min|max)(?![a-zA-Z])": r"\\operatorname{arg\1}",
    r"\\[bB]ig+\\\|": r"\\Vert ",
    r"\\[bB]ig+(?![a-zA-Z])": "",
    r"\\textstyle(?![a-zA-Z])": "",
}


def formula(node, display):
    """Return a formula as MathML; one that is not understood is a warning."""
    text = node.astext()
    for pattern, word in WORDS.items():
        text = re.sub(pattern, word, text)
    # As in Sphinx, a double backslash outside of an environment begins a new line.
    if r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    found = convert(text, display=display)
    if "\\" in re.sub(r"<[^>]+>", "", found):
        logger.warning("a part of this formula is not understood: %s", text, location=node)
    return found


def visit_math(translator, node):
    translator.body.append(formula(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(translator, node):
    translator.body.append(f'<div class="formula">{formula(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
