"""The sentences of a backward pass, box by box: what arrives at each box, and what it passes on."""

from collections.abc import Sequence

from leafgrad._display.units import first_few, shape_text, size
from leafgrad._graph.gradient_norms import EXPLODED, VANISHED, norm_of
from leafgrad._graph.nodes import TracedEdge, TracedNode, place_text, short_name
from leafgrad._graph.summary import NotFinite, TensorSummary, brief_text
from leafgrad._messages import message
from leafgrad._steps.visits import Visit, Visits

MOST_NAMES = 3
MOST_LEAVES = 2

Summaries = Sequence[TensorSummary | None]


def describe_forward(visit: Visit, visits: Visits) -> str:
    """Return the values that a box computes, and from which other boxes."""
    values = visits.computed_values(visit)
    slots = {
        "box": visit.title,
        "values": _amounts(values) if any(values) else message("nodes.not-recorded"),
        "inputs": first_few(visits.input_names(visit), MOST_NAMES),
    }
    key = "steps.box.forward-from" if slots["inputs"] else "steps.box.forward"
    turning = [node for node in (*visit.leaves, *visit.nodes) if node.value_turns]
    turns = (_describe_turn(node.value_turn_kind, node) for node in turning)
    return message("lists.sentence").join([message(key, **slots), *turns])


def describe_backward(visit: Visit, visits: Visits, head: Visit | None) -> str:
    """Return what arrives at a box, what it passes on, completes and frees.

    A norm far from the one that arrived at the `head` is shown as a share of that.
    """
    sentences = [_describe_flow(visit, visits, head)]
    leaves = visits.complete_leaves[visit]
    if leaves:
        sentences.append(_describe_complete(leaves, visit))
    if nbytes := visits.freed_bytes.get(visit):
        sentences.append(message("steps.box.frees", bytes=size(nbytes)))
    turning = [node for node in (*visit.nodes, *leaves) if node.gradient_turns]
    return message("lists.sentence").join(
        [*sentences, *(_describe_turn(node.gradient_turn_kind, node) for node in turning)]
    )


def _describe_flow(visit: Visit, visits: Visits, head: Visit | None) -> str:
    arrived = visits.arriving_gradients(visit)
    passed = [_describe_pass(name, edges) for name, edges in visits.passed_gradients(visit)]
    slots = {
        "box": visit.title,
        "arrived": _amounts(arrived) if any(arrived) else message("steps.box.nothing"),
        "share": _describe_share(visit, visits, head),
        "sources": first_few(visits.source_names(visit), MOST_NAMES),
        "passed": first_few(passed, MOST_NAMES) or message("steps.box.none-passed"),
    }
    return message(f"steps.box.{'arrives-from' if slots['sources'] else 'arrives'}", **slots)


def _describe_share(visit: Visit, visits: Visits, head: Visit | None) -> str:
    """Return the norm as a share of the norm at the first module, if the two are far apart."""
    first = None if head is None else norm_of(visits.arriving_gradients(head))
    norm = norm_of(visits.arriving_gradients(visit))
    if head is None or not first or not norm or VANISHED <= norm / first <= EXPLODED:
        return ""
    return message("steps.box.share", share=norm / first, module=head.name)


def _describe_pass(name: str, edges: Sequence[TracedEdge]) -> str:
    """Return the gradient that goes on to one box, and its sum with what had arrived there."""
    last = edges[-1]
    slots = {"target": name, "total": _amounts([last.gradient_so_far])}
    if len(edges) > 1:
        return message("steps.box.passed-several", count=len(edges), **slots)
    key = "passed" if last.gradient == last.gradient_so_far else "passed-sum"
    return message(f"steps.box.{key}", gradient=_amounts([last.gradient]), **slots)


def _describe_complete(leaves: Sequence[TracedNode], visit: Visit) -> str:
    """Return which leaves get their gradients, by their names within the module."""
    names = [short_name(leaf).removeprefix(f"{visit.name}.") for leaf in leaves]
    norm = norm_of([gradient for leaf in leaves for gradient in leaf.gradients])
    key = "complete" if len(leaves) == 1 else "complete-several"
    listed = first_few(names, MOST_LEAVES)
    slots = {"leaf": listed, "leaves": listed, "count": len(leaves), "norm": norm}
    return message(f"steps.box.{key}{'' if norm is None else '-norm'}", **slots)


def _amounts(summaries: Summaries) -> str:
    amounts = [_amount(summary) for summary in summaries if summary is not None]
    return message("lists.and").join(amounts)


def _amount(summary: TensorSummary) -> str:
    """Return the shape and the norm of a tensor; a single number as it is."""
    if summary.unread is not None:
        return str(summary)
    is_single = summary.numbers is not None and len(summary.numbers) == 1
    if is_single:
        return brief_text(summary)
    shape = shape_text(summary.shape)
    return message("steps.tensor", shape=shape, summary=brief_text(summary))


def _describe_turn(kind: NotFinite | None, node: TracedNode) -> str:
    return message("steps.box.turns", kind=kind, place=place_text(node))
