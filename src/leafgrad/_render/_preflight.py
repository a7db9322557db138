"""What a backward would fail at or leave out, as a card."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from leafgrad._render._card import Card
from leafgrad._render._units import count

if TYPE_CHECKING:
    from leafgrad._findings import InPlaceConflict, Preflight
    from leafgrad._traced import TracedNode, Write

MOST_SENTENCES = 5


def card(found: "Preflight") -> Card:
    """Put the counts into rows, and what matters of each finding into a sentence."""
    rows = (
        ("in-place conflicts", str(len(found.conflicts))),
        ("freed nodes", str(len(found.freed))),
        ("refusing nodes", str(len(found.refusing))),
        ("without gradient", str(len(found.without_gradient))),
        ("differentiable only once", str(len(found.once_differentiable))),
    )
    return Card(
        title=f"preflight: {_verdict(found)}", rows=rows, sentences=tuple(_sentences(found))
    )


def _verdict(found: "Preflight") -> str:
    if found.first_failure is not None:
        return f"backward will fail at {found.first_failure.name}"
    if found.may_fail:
        return "backward may fail"
    limit = ", as far as nodes show" * bool(found.hidden)
    return f"nothing that backward would fail at{limit}"


def _sentences(found: "Preflight") -> Iterator[str]:
    yield from _first([_conflict(conflict) for conflict in found.conflicts], "conflict")
    if found.freed:
        yield _freed(found.freed)
    for node in found.detached[:1]:
        yield (
            f"A tensor that {_made(node)} saved has been cut from its graph by detach_() since, "
            "which backward refuses: use detach() instead, which gives another tensor."
        )
    for node in found.moved[:1]:
        yield (
            f"A leaf of shape {node.shapes[0]} has become the result of a write in place since it "
            "was used, which backward refuses: give the result a name of its own."
        )
    for node in found.refusing[:1]:
        yield f"{_made(node)} stands for a derivative that does not exist, and raises."
    if found.hidden:
        yield _unseen(found.hidden)
    unfilled = [f"{e.name}: {e.because} {e.cure}" for e in found.without_gradient]
    yield from _first(unfilled, "tensor without gradient")
    once = [
        f"{_made(one.node)} stands in the way of a second derivative: {one.reason}."
        for one in found.once_differentiable
    ]
    yield from _first(once, "node")


def _first(sentences: Sequence[str], noun: str) -> Iterator[str]:
    yield from sentences[:MOST_SENTENCES]
    if len(sentences) > MOST_SENTENCES:
        yield f"And {count(len(sentences) - MOST_SENTENCES, f'other {noun}')}."


def _conflict(conflict: "InPlaceConflict") -> str:
    saved = conflict.saved
    version = "a version that is not told" if saved.saved_version is None else saved.saved_version
    then = f"saved {saved.name} at version {version}"
    now = f"it is at version {saved.current_version} now"
    unseen = "written outside of record(), which would tell the line"
    writes = "; ".join(map(_write, saved.writes)) or unseen
    doubt = "" if conflict.is_certain else " Backward fails if it looks at that."
    return f"{_made(conflict.node)} {then}, and {now}: {writes}.{doubt}"


def _write(write: "Write") -> str:
    through = " through a view" * write.through_view
    place = "" if write.source is None else f" in {write.source}"
    return f"written by {write.operation}{through}{place}"


def _freed(freed: "Sequence[TracedNode]") -> str:
    others = f", the first of {len(freed)}," * (len(freed) > 1)
    return (
        f"What {_made(freed[0])} saved{others} was freed by an earlier backward: compute the "
        "outputs again, or pass retain_graph=True to that one."
    )


def _unseen(hidden: "Sequence[TracedNode]") -> str:
    others = f" and {count(len(hidden) - 1, 'other node')}" * (len(hidden) > 1)
    return (
        f"PyTorch does not show what {_made(hidden[0])}{others} saved, so a write into that, or "
        "that it is gone, would not be found."
    )


def _made(node: "TracedNode") -> str:
    return node.name if node.source is None else f"{node.name} ({node.source})"
