"""What a backward would fail at or leave out, as a card."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from leafgrad._display.card import Card
from leafgrad._display.units import count
from leafgrad._explain.sentences import cure

if TYPE_CHECKING:
    from leafgrad._explain.findings import InPlaceConflict, Preflight
    from leafgrad._graph.nodes import TracedNode, Write
    from leafgrad._record.cut import Cut

MOST_SENTENCES = 5


def card(found: "Preflight") -> Card:
    """Put the counts into rows, and what matters of each finding into a sentence."""
    rows = (
        ("in-place conflicts", str(len(found.conflicts))),
        ("freed nodes", str(len(found.freed))),
        ("refusing nodes", str(len(found.refusing))),
        ("without gradient", str(len(found.without_gradient))),
        ("differentiable only once", str(len(found.once_differentiable))),
        *_if_any("gradient cannot be seen", found.unseen),
        *_if_any("gradient is zero everywhere", found.all_zero),
    )
    return Card(
        title=f"preflight: {_verdict(found)}", rows=rows, sentences=tuple(_sentences(found))
    )


def _if_any(name: str, found: Sequence[object]) -> tuple[tuple[str, str], ...]:
    return ((name, str(len(found))),) * bool(found)


def _verdict(found: "Preflight") -> str:
    if found.lacks_graph:
        return "backward will fail, as no output requires grad"
    if found.first_failure is not None:
        return f"backward will fail at {found.first_failure.name}"
    if found.may_fail:
        return "backward may fail"
    limit = ", as far as nodes show" * bool(found.hidden or found.running)
    return f"nothing that backward would fail at{limit}"


def _sentences(found: "Preflight") -> Iterator[str]:
    if found.lacks_graph:
        yield _without_graph(found.cuts)
    conflicts = [_conflict(conflict) for conflict in found.conflicts]
    yield from _first(conflicts, "conflict", "conflicts")
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
    if found.running:
        yield _running(found.running)
    for explanations, one, many in (
        (found.without_gradient, "tensor without gradient", "tensors without gradient"),
        (found.unseen, "tensor of which it cannot be seen", "tensors of which it cannot be seen"),
        (found.all_zero, "tensor with zeros alone", "tensors with zeros alone"),
    ):
        told = [f"{e.name}: {e.because} {e.cure}" for e in explanations]
        yield from _first(told, one, many)
    once = [
        f"{_made(one.node)} stands in the way of a second derivative: {one.reason}."
        for one in found.once_differentiable
    ]
    yield from _first(once, "node", "nodes")


def _first(sentences: Sequence[str], one: str, many: str) -> Iterator[str]:
    yield from sentences[:MOST_SENTENCES]
    left = len(sentences) - MOST_SENTENCES
    if left > 0:
        yield f"And {left} other {one if left == 1 else many}."


def _without_graph(cuts: "tuple[Cut, ...]") -> str:
    """Say where the outputs lost their graph, as far as a recording tells."""
    reason = (
        "None of the outputs requires grad, which backward refuses (element 0 of tensors does not "
        "require grad and does not have a grad_fn)"
    )
    if not cuts:
        return (
            f"{reason}: compute them from a tensor that requires grad, outside no_grad() and "
            "detach(), or inside record(), which tells the line where the graph was lost."
        )
    more = f" (and {len(cuts) - 1} more)" * (len(cuts) > 1)
    place = "code that is not known" if cuts[0].source is None else str(cuts[0].source)
    to_do = cure(cuts[0].kind.name, cuts)
    return f"{reason}: cut by {cuts[0].operation} in {place}{more}. {to_do}"


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


def _running(running: "Sequence[TracedNode]") -> str:
    others = f" and {count(len(running) - 1, 'other node')}" * (len(running) > 1)
    return (
        f"{_made(running[0])}{others} may run a backward within this one, of which nothing is seen."
    )


def _made(node: "TracedNode") -> str:
    return node.name if node.source is None else f"{node.name} ({node.source})"
