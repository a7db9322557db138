"""What a cell raised, in colour as far as that goes."""

from docutils import nodes
from sphinx.application import Sphinx

_OUTPUT = {"output", "traceback"}


def color_anyway(_app: Sphinx, doctree: nodes.document) -> None:
    """Keep the lexer of tracebacks from warning: the message of an error may hold anything."""
    for block in doctree.findall(nodes.literal_block):
        if _OUTPUT.issubset(block["classes"]):
            block["force"] = True
