"""Write math as MathML while the site is built: no JavaScript, no font, no request, and it prints.

docutils' own converter knows less LaTeX than TeX does; what it does not know is a warning at the
formula's place, so that a strict build is red rather than the page wrong.
"""

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


def mathml(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    """Convert one formula, or warn and show its source."""
    tex = node.astext()
    try:
        return tex2mathml(tex, as_block=block)
    except MathError as error:
        logger.warning("math that MathML cannot show: %s: %s", error, tex, location=node)
        return escape(tex)


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def visit_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on its own, with its number if it has one."""
    # furo wraps every formula, and the wrapper has the anchor.
    writer.body.append('<div class="math" tabindex="0">')
    if node.get("number"):
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(mathml(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
