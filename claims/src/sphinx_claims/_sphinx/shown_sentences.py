"""The sentence of a claim as it was judged, beside its translation."""

from docutils import nodes

_JUDGED = "claims_judged"


def note_sentence(box: nodes.Element) -> None:
    """Note what the box of a claim says before it is translated."""
    box[_JUDGED] = " ".join(" ".join(child.astext() for child in box.children).split())


def original(box: nodes.Element) -> str | None:
    """Return the sentence that was judged, where the box shows a translation of it."""
    is_translated = any(node.get("translated") for node in box.findall(nodes.Element))
    return box[_JUDGED] if is_translated and _JUDGED in box else None
