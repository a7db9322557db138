"""The glossary as a term base: which words of a language an entry may be shown by."""

from collections.abc import Iterator, Mapping

from sphinx_claims._reading.directive import parse_directive
from sphinx_claims._reading.markdown import parser
from sphinx_claims._translating.catalogue import Catalogue

Words = Mapping[str, frozenset[str]]
"""The words for each term, which is in lower case, and for those that its entry also defines."""


def words_for(glossary: str, catalogue: Catalogue) -> Words:
    """Return the words that a catalogue has for the terms of the page that is its glossary."""
    found: dict[str, frozenset[str]] = {}
    for terms in _entries(glossary):
        shown = (catalogue[term] for term in terms if term in catalogue)
        words = frozenset(message.translation for message in shown if message.is_shown)
        found |= {term.lower(): words for term in terms if words}
    return found


def _entries(glossary: str) -> Iterator[list[str]]:
    """Yield the terms of each entry: the lines above its definition, which is indented."""
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
