"""Convert math to MathML while the site is built, so that pages need no JavaScript or fonts for it.

docutils' converter supports only a part of LaTeX. For anything else it warns at the formula, so
that a strict build fails.
"""

import re
from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

NEXT_TO_FUNCTION = re.compile(
    r"(&ApplyFunction;</mo>(?!\s*<mo[^>]*>\()|</m(?:n|i|sup|row)>(?=\s*<mi[^>]*>[a-z]{2,}</mi>))"
)
MARKS = re.compile(r"[.,;:!?)\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]+")


def mathml(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    """Return the MathML of a formula; if it cannot be converted, warn and return its source."""
    tex = node.astext()
    try:
        # TeX puts a thin space on both sides of a function, as in 2 cos 2.
        thin = r'\1<mspace width="0.17em"></mspace>'
        return NEXT_TO_FUNCTION.sub(thin, tex2mathml(tex, as_block=block))
    except MathError as error:
        logger.warning("math that MathML cannot show: %s: %s", error, tex, location=node)
        return escape(tex)


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    writer.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def visit_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one."""
    # furo puts a wrapper with the anchor around every formula, so this element needs no `id`.
    writer.body.append('<div class="math" tabindex="0">')
    if node.get("number"):
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(mathml(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def join_marks(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Keep a formula and the punctuation after it on one line."""
    for formula in [*doctree.findall(nodes.math)]:
        line = formula.parent
        place = line.index(formula) + 1
        after = line[place] if place < len(line) else None
        if isinstance(after, nodes.Text) and (marks := MARKS.match(after)):
            joined = nodes.inline("", "", formula, nodes.Text(marks[0]), classes=["unbroken"])
            line[place - 1 : place + 1] = [joined, nodes.Text(after[marks.end() :])]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("doctree-resolved", join_marks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
