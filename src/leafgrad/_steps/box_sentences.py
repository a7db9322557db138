"""The sentences of a backward at the scale of a picture: what comes to each box, and what goes."""

from collections.abc import Sequence

from leafgrad._display.units import first_few, shape_text, size
from leafgrad._graph.gradient_norms import EXPLODED, VANISHED, norm_of
from leafgrad._graph.nodes import UNKNOWN, TracedEdge, TracedNode, place_text
from leafgrad._graph.summary import TensorSummary, brief_text
from leafgrad._steps.visits import Visit, Visits

MOST_NAMES = 3
MOST_LEAVES = 2

Summaries = Sequence[TensorSummary | None]


def forward(visit: Visit, visits: Visits) -> str:
    """Return what a box makes of what."""
    made = visits.made(visit)
    written = _amounts(made) if any(made) else UNKNOWN
    givers = visits.givers(visit)
    sentence = f"Forward: {visit.title} makes {written}"
    if givers:
        sentence += f", from {first_few(givers, MOST_NAMES)}"
    turned = [node for node in (*visit.leaves, *visit.nodes) if node.value_turns]
    return " ".join([f"{sentence}.", *(_turn(node.value_turn_kind, node) for node in turned)])


def backward(visit: Visit, visits: Visits, head: Visit | None) -> str:
    """Return what arrives at a box, what it passes on, completes and lets go.

    What is much more or less than what arrived at the `head` is told as a share of that.
    """
    told = [_flow(visit, visits, head)]
    leaves = visits.complete[visit]
    if leaves:
        told.append(_complete(leaves, visit))
    if nbytes := visits.let_go.get(visit):
        told.append(f"It lets go of {size(nbytes)} that no later step needs.")
    turned = [node for node in (*visit.nodes, *leaves) if node.gradient_turns]
    told += [_turn(node.gradient_turn_kind, node) for node in turned]
    return " ".join(told)


def _flow(visit: Visit, visits: Visits, head: Visit | None) -> str:
    arrived = visits.arrived(visit)
    came = _amounts(arrived) if any(arrived) else "nothing"
    came += f"{_share(visit, visits, head)} arrives"
    if sources := visits.sources(visit):
        came += f" from {first_few(sources, MOST_NAMES)}"
    gone = [_passed(name, edges) for name, edges in visits.passed(visit)]
    went = first_few(gone, MOST_NAMES) if gone else "nothing goes on"
    return f"Backward: at {visit.title}, {came}; {went}."


def _share(visit: Visit, visits: Visits, head: Visit | None) -> str:
    """Return how much arrived beside the norm at the first module, where that is far from it."""
    first = None if head is None else norm_of(visits.arrived(head))
    norm = norm_of(visits.arrived(visit))
    if head is None or not first or not norm or VANISHED <= norm / first <= EXPLODED:
        return ""
    return f", {norm / first:.1e} of that at {head.name},"


def _passed(name: str, edges: Sequence[TracedEdge]) -> str:
    """Return what goes on to one place, and what that makes with what was there."""
    last = edges[-1]
    if len(edges) > 1:
        return (
            f"{len(edges)} gradients go on to {name}, together {_amounts([last.gradient_so_far])}"
        )
    passed = f"{_amounts([last.gradient])} goes on to {name}"
    if last.gradient == last.gradient_so_far:
        return passed
    return f"{passed}, which makes {_amounts([last.gradient_so_far])} there"


def _complete(leaves: Sequence[TracedNode], visit: Visit) -> str:
    """Return which leaves get their gradients, by their names within the module."""
    names = [leaf.leaf_name or f"node {leaf.index}" for leaf in leaves]
    which = first_few([name.removeprefix(f"{visit.name}.") for name in names], MOST_LEAVES)
    norm = norm_of([one for leaf in leaves for one in leaf.gradients])
    if len(leaves) == 1:
        total = "" if norm is None else f", of norm {norm:.2g}"
        return f"The gradient of {which} is complete{total}: backward() adds it to its .grad."
    total = "" if norm is None else f", of norm {norm:.2g} together"
    return f"backward() adds to the .grad of {len(leaves)} leaves{total}: {which}."


def _amounts(summaries: Summaries) -> str:
    return " and ".join(_amount(one) for one in summaries if one is not None)


def _amount(summary: TensorSummary) -> str:
    """Write the shape and the norm of a tensor; a single number as it is."""
    if summary.unread is not None:
        return str(summary)
    is_one = summary.numbers is not None and len(summary.numbers) == 1
    return (
        brief_text(summary) if is_one else f"{shape_text(summary.shape)} of {brief_text(summary)}"
    )


def _turn(kind: str | None, node: TracedNode) -> str:
    return f"It turns to {kind} at {place_text(node)}."
