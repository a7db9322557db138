"""Find the words for each glossary term in another language."""

from collections.abc import Iterator, Mapping

from sphinx_claims._reading.directive import parse_directive
from sphinx_claims._reading.markdown import parser
from sphinx_claims._translating.catalogue import Catalogue

Words = Mapping[str, frozenset[str]]
"""The allowed words for each term. Terms are in lower case; those of one entry share words."""


def words_for(glossary: str, catalogue: Catalogue) -> Words:
    """Return the words for the terms of a glossary page, read from its catalogue.

    `glossary` is the text of the page.
    """
    found: dict[str, frozenset[str]] = {}
    for terms in _entries(glossary):
        shown = (catalogue[term] for term in terms if term in catalogue)
        words = frozenset(message.translation for message in shown if message.is_shown)
        found |= {term.lower(): words for term in terms if words}
    return found


def _entries(glossary: str) -> Iterator[list[str]]:
    """Yield the terms of each glossary entry: the lines above its indented definition."""
    for token in parser().parse(glossary):
        if token.type in {"fence", "colon_fence"} and token.info.strip() == "{glossary}":
            body = parse_directive("glossary", "", token.content, 0).body
            yield from _terms(body.splitlines())


def _terms(lines: list[str]) -> Iterator[list[str]]:
    terms: list[str] = []
    for line in lines:
        if not line.strip() or line.startswith(".."):
            continue
        if not line[0].isspace():
            terms.append(line.strip())
        elif terms:
            yield terms
            terms = []
