"""Examples that a built page shows and that were not executed."""

import doctest
import re
from collections.abc import Iterator

from docutils import nodes

from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._page import Doctest, Problem
from sphinx_claims._reading.fence import has_examples
from sphinx_claims._sphinx.directives import UNEXECUTED
from sphinx_claims._sphinx.unproven import above, is_unproven, line_of

Example = tuple[str, str]

_FLAGS = re.compile(r"#\s*doctest:.*")
"""What Sphinx leaves out of the examples that it shows."""


def executed_examples(site: SiteVerdict) -> frozenset[Example]:
    """Return source and output of every `>>>` example that was executed."""
    steps = (step for page in site.pages for step in page.page.steps[: len(page.records)])
    return frozenset(
        pair
        for step in steps
        if isinstance(step, Doctest) and not step.is_code
        for pair in _examples(step.source)
    )


def unexecuted_examples(doctree: nodes.document, executed: frozenset[Example]) -> Iterator[Problem]:
    """Yield a problem for each example of `doctree` that was not executed."""
    for block in doctree.findall(nodes.Element):
        is_block = isinstance(block, nodes.doctest_block | nodes.literal_block)
        if is_block and has_examples(block.astext()) and not _is_executed(block, executed):
            shown = re.search(r"docstring of (\S+)", block.source or "")
            cure = "write it in Markdown"
            if shown:
                cure = f"name the module of {shown[1]} in docstrings in [tool.claims]"
            yield Problem(line_of(block), f"this example is not executed: {cure}")


def unexecuted_code(doctree: nodes.document) -> Iterator[Problem]:
    """Yield a problem for each role and cell of `doctree` that was not executed."""
    for code in doctree.findall(nodes.Element):
        if isinstance(code, nodes.literal | nodes.literal_block) and UNEXECUTED in code["classes"]:
            yield Problem(line_of(code), f"`{code.astext()}` is not executed: write it in Markdown")
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and not cell["cell_metadata"].get("judged"):
            yield Problem(line_of(cell), "this cell is not executed")


def _is_executed(block: nodes.Element, executed: frozenset[Example]) -> bool:
    is_cell = any(str(part.get("nb_element", "")).startswith("cell_code") for part in above(block))
    return is_cell or is_unproven(block) or _examples(block.astext()) <= executed


def _examples(text: str) -> frozenset[Example]:
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return frozenset({(text, "")})
    return frozenset((_FLAGS.sub("", e.source).strip(), e.want.strip()) for e in examples)
