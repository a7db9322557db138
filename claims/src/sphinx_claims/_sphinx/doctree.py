"""Unexecuted code: what a built page shows as Python must be what was executed."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes

from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._page import Doctest, Problem
from sphinx_claims._reading.html import html_problems
from sphinx_claims._reading.languages import language_of_file
from sphinx_claims._reading.tables import Entry, results
from sphinx_claims._reading.typed_results import ROLES, by_hand, shown_result
from sphinx_claims._reading.unexecuted_code import has_examples, unexecuted
from sphinx_claims._sphinx.ledger_tables import OURS
from sphinx_claims._sphinx.tree import above, line_of
from sphinx_claims._sphinx.unproven import is_unproven

Example = tuple[str, str]

_ROLES = frozenset(ROLES)
_FLAGS = re.compile(r"#\s*doctest:.*")
"""What Sphinx leaves out of the examples that it shows."""

_SHOWN = (nodes.doctest_block, nodes.literal_block, nodes.raw)


def executed_examples(site: SiteVerdict) -> frozenset[Example]:
    """Return source and output of every example that was executed.

    Of a `{testcode}` both are there, each without the other.
    """
    steps = (step for page in site.pages for step in page.page.steps[: len(page.records)])
    examples = [step for step in steps if isinstance(step, Doctest)]
    texts = (text for step in examples if step.is_code for text in (step.source, step.output))
    return frozenset(
        (
            *(pair for step in examples if not step.is_code for pair in _examples(step.source)),
            *((text.strip(), "") for text in texts),
        )
    )


def unexecuted_code(doctree: nodes.document, executed: frozenset[Example]) -> Iterator[Problem]:
    """Yield a problem for each snippet of `doctree` that shows Python and was not executed."""
    yield from _shown(doctree, executed)
    for role in doctree.findall(nodes.literal):
        if "unexecuted" in role["classes"]:
            yield Problem(line_of(role), f"nobody evaluates `{role.astext()}`")
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and not cell["cell_metadata"].get("judged"):
            yield Problem(line_of(cell), "nobody executes this cell", cell.astext().strip())


def _shown(doctree: nodes.document, executed: frozenset[Example]) -> Iterator[Problem]:
    """Yield a problem for each block, table and HTML that is not what it seems."""
    for table in doctree.findall(nodes.table):
        if not (_is_cell(table) or is_unproven(table) or table.get(OURS)):
            yield from results(*_read_table(table))
    for node in doctree.findall(nodes.Element):
        if not isinstance(node, _SHOWN) or _is_cell(node) or is_unproven(node):
            continue
        line, text = line_of(node), node.astext().strip()
        if isinstance(node, nodes.raw):
            yield from html_problems(text, line)
        elif reason := _wrong(node, executed):
            yield Problem(line, reason, snippet=text)


def _read_table(table: nodes.table) -> tuple[list[str], list[list[Entry]]]:
    """Return the heads of a table and the entries of its other rows."""
    heads: list[str] = []
    rows = []
    for row in table.findall(nodes.row):
        entries = [_entry(node) for node in row.children if isinstance(node, nodes.entry)]
        if isinstance(row.parent, nodes.thead):
            heads = [entry.text for entry in entries]
        else:
            rows.append(entries)
    return heads, rows


def _entry(node: nodes.entry) -> Entry:
    text = node.astext().strip()
    is_code = any(literal.astext() == text for literal in node.findall(nodes.literal))
    return Entry(
        text=f"`{text}`" if is_code else text,
        line=line_of(node),
        is_executed=any(_ROLES & {*child["classes"]} for child in node.findall(nodes.Element)),
    )


def _wrong(block: nodes.Element, executed: frozenset[Example]) -> str | None:
    text = block.astext()
    if "testnodetype" in block and (text.strip(), "") in executed:
        return None
    if has_examples(text):
        if _examples(text) <= executed:
            return None
        if shown := re.search(r"docstring of (\S+)", block.source or ""):
            cure = "name its module under docstrings in [tool.claims]"
            return f"nobody executes the examples of {shown[1]}: {cure}"
    node = shown_result(text)
    reason = unexecuted(text, _language(block)) if text.strip() else None
    return reason or (by_hand(node) if node else None)


def _language(block: nodes.Element) -> str:
    """Return the language of a block, by its words or by the file that it shows."""
    named = [block.get("language", ""), *(name for name in block["classes"] if name != "code")]
    return next(filter(None, named), language_of_file(Path(block.get("source", ""))))


def _examples(text: str) -> frozenset[Example]:
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return frozenset({(text, "")})
    return frozenset((_FLAGS.sub("", e.source).strip(), e.want.strip()) for e in examples)


def _is_cell(node: nodes.Element) -> bool:
    return any(str(part.get("nb_element", "")).startswith("cell_code") for part in above(node))
