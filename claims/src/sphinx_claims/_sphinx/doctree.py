"""Find code that a built page shows as executed but that was not executed."""

from collections.abc import Iterator

from docutils import nodes

from sphinx_claims._page import Problem
from sphinx_claims._sphinx.directives import UNEXECUTED
from sphinx_claims._sphinx.unproven import line_of


def unexecuted_code(doctree: nodes.document) -> Iterator[Problem]:
    """Yield a problem for each role and cell in `doctree` that was not executed."""
    for code in doctree.findall(nodes.Element):
        if isinstance(code, nodes.literal | nodes.literal_block) and UNEXECUTED in code["classes"]:
            yield Problem(line_of(code), f"`{code.astext()}` is not executed: write it in Markdown")
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and not cell["cell_metadata"].get("judged"):
            yield Problem(line_of(cell), "this cell is not executed")
