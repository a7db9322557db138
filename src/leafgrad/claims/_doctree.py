"""The census: what a built page shows as Python must be what was executed."""

import doctest
import re
from collections.abc import Iterator

from docutils import nodes

from leafgrad.claims._census import has_examples, unexecuted
from leafgrad.claims._page import Doctest, Problem
from leafgrad.claims._site import SiteVerdict

Example = tuple[str, str]


def executed_examples(site: SiteVerdict) -> frozenset[Example]:
    """Return source and output of every `>>>` example that was executed."""
    return frozenset(
        example
        for page in site.pages
        for step in page.page.steps[: len(page.records)]
        if isinstance(step, Doctest)
        for example in _examples(step.source)
    )


_Block = nodes.doctest_block | nodes.literal_block


def census(doctree: nodes.document, executed: frozenset[Example]) -> Iterator[Problem]:
    """Yield a problem for each snippet of `doctree` that shows Python and was not executed."""
    blocks = (node for node in doctree.findall() if isinstance(node, _Block))
    for block in blocks:
        reason = None if _is_cell(block) else _unexecuted(block, executed)
        if reason is not None:
            yield Problem(_line(block), reason, snippet=block.astext().strip())
    for role in doctree.findall(nodes.literal):
        if "unexecuted" in role["classes"]:
            yield Problem(_line(role), f"nobody evaluates `{role.astext()}`")
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and not cell["cell_metadata"].get("judged"):
            yield Problem(_line(cell), "nobody executes this cell")


def _unexecuted(block: nodes.Element, executed: frozenset[Example]) -> str | None:
    text = block.astext()
    if has_examples(text):
        if _examples(text) <= executed:
            return None
        if shown := re.search(r"docstring of (\S+)", block.source or ""):
            cure = "name its module under docstrings in [tool.leafgrad.claims]"
            return f"nobody executes the examples of {shown[1]}: {cure}"
    return unexecuted(text, block.get("language", ""))


def _examples(text: str) -> frozenset[Example]:
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return frozenset({(text, "")})
    return frozenset((example.source.strip(), example.want.strip()) for example in examples)


def _is_cell(node: nodes.Element) -> bool:
    while node.parent is not None:
        node = node.parent
        if str(node.get("nb_element", "")).startswith("cell_code"):
            return True
    return False


def _line(node: nodes.Node) -> int:
    while node.line is None and node.parent is not None:
        node = node.parent
    return node.line or 1
