"""Is the sentence that a reader sees the one that was judged?"""

from collections import Counter
from collections.abc import Iterator

from docutils import nodes

from sphinx_claims._page import Problem
from sphinx_claims._translating.facts import figures_of

_SAID = "claims_said"
_ID = "claim-id"
_DUMB = str.maketrans("\u201c\u201d\u2018\u2019\u2013\u2014", "\"\"''--")
"""What smart quotes and dashes are made of; of several hyphens one is left in either."""


def note_sentence(box: nodes.Element, *, is_as_judged: bool) -> None:
    """Note what the box of a claim says as it is parsed, and whether that was judged."""
    box[_SAID] = (_text(box), _facts(box)) if is_as_judged else None


def changed_claims(doctree: nodes.document) -> Iterator[Problem]:
    """Yield a problem for each claim of `doctree` that does not say what was judged.

    A translation must have the numbers and the code of the original: nobody judges its words.
    """
    for box in doctree.findall(nodes.container):
        if _SAID in box and not _is_as_judged(box):
            message = (
                "what a claim shows must be what was judged, and something has changed it "
                "(a handler of Sphinx's events, a substitution, the numbers of a translation): "
                f"it shows {_text(box)!r}"
            )
            yield Problem(box.line or 1, message)


def original(box: nodes.Element) -> str | None:
    """Return the sentence that was judged, where the box shows a translation of it."""
    return box[_SAID][0] if box.get(_SAID) and _is_translated(box) else None


def _is_as_judged(box: nodes.Element) -> bool:
    if box[_SAID] is None:
        return False
    text, facts = box[_SAID]
    return text == _text(box) or (_is_translated(box) and facts == _facts(box))


def _is_translated(box: nodes.Element) -> bool:
    return any(node.get("translated") for node in box.findall(nodes.Element))


def _sentence(box: nodes.Element) -> list[nodes.Element]:
    parts = (child for child in box.children if isinstance(child, nodes.Element))
    return [part for part in parts if _ID not in part["classes"]]


def _text(box: nodes.Element) -> str:
    text = " ".join(" ".join(node.astext() for node in _sentence(box)).split())
    return text.translate(_DUMB).replace("...", "…").replace("--", "-").replace("--", "-")


def _facts(box: nodes.Element) -> Counter[str]:
    """Count the numbers and the spans of code in the sentence of a box."""
    found = Counter(f"{number:g}" for number in figures_of(_text(box)))
    for node in _sentence(box):
        found.update(code.astext() for code in node.findall(nodes.literal))
    return found
