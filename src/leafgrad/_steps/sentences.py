"""The sentences of a backward pass: what happened at each step."""

from leafgrad._display.units import shape_text
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import UNKNOWN, TracedEdge, TracedNode, gradient_text, value_text
from leafgrad._graph.summary import TensorSummary, number_text

LOCAL = {
    "CosBackward0": "-sin({0})",
    "ExpBackward0": "exp({0})",
    "LogBackward0": "1 / {0}",
    "MulBackward0": "{1}",
    "ReciprocalBackward0": "-1 / {0}**2",
    "SigmoidBackward0": "sigmoid({0}) * (1 - sigmoid({0}))",
    "SinBackward0": "cos({0})",
    "SqrtBackward0": "1 / (2 * sqrt({0}))",
    "TanhBackward0": "1 - tanh({0})**2",
}
"""The derivative of an operation by an input {0}, where it has another one, {1}, too."""

CONSTANT = "a constant"


def value(node: TracedNode, graph: Graph) -> str:
    """Return what a leaf holds, or what an operation made of what."""
    made = value_text(node)
    if made == UNKNOWN:
        return f"Forward: what {called(node)} is was not recorded."
    if node.is_leaf:
        return f"Forward: {called(node)} is {made}."
    given = [
        CONSTANT if edge.target is None else short(graph.nodes[edge.target]) for edge in node.edges
    ]
    return f"Forward: {called(node)} is {made}, made from {' and '.join(given) or 'nothing'}."


def start(root: TracedNode, graph: Graph) -> str:
    """Return where a backward starts, and with what if nothing else arrives there."""
    sentence = f"Backward starts at {called(root)}"
    if all(edge.target != root.index for edge in graph.edges):
        sentence += f" with the gradient {gradient_text(root)}"
    return f"{sentence}."


def passed(edge: TracedEdge, graph: Graph, hooked: str, *, is_first: bool) -> str:
    """Return what a node makes of what arrived, and for whom."""
    node, target = graph.nodes[edge.source], graph.nodes[edge.target or 0]
    where = f"Backward: at {called(node)}, "
    if edge.gradient is None:
        return f"{where}nothing is passed on to {short(target)}."
    arrived, factor = gradient_text(node), _factor(node, edge)
    made = f"{arrived}{hooked} times the local derivative {_rule(node, edge, graph)}{factor} is"
    if factor is None:
        made = f"{_full(node.gradients)}{hooked} becomes"
    added = f" With what was there, that makes {edge.gradient_so_far}."
    if is_first and edge.gradient == edge.gradient_so_far:
        added = _first(edge, graph)
    return f"{where}{made} {_full((edge.gradient,))}, for {short(target)}.{added}"


def _rule(node: TracedNode, edge: TracedEdge, graph: Graph) -> str:
    """Write the local derivative as a formula where it is known and all in it has a name."""
    others = [other for other in node.edges if other is not edge]
    places = [edge.target, *(other.target for other in others)]
    if node.name not in LOCAL or None in places:
        return ""
    named = [short(graph.nodes[place]) for place in places if place is not None]
    return f"{LOCAL[node.name].format(*named)} = "


def _factor(node: TracedNode, edge: TracedEdge) -> str | None:
    """Divide what left by what arrived, where both are one real number, and it is not 0."""
    match node.gradients, edge.gradient:
        case [one], passed if one is not None and passed is not None:
            match one.numbers, passed.numbers:
                case [int() | float() as arrived], [int() | float() as left] if (
                    arrived and one.is_finite
                ):
                    return number_text(left / arrived)
    return None


def _first(edge: TracedEdge, graph: Graph) -> str:
    """Return how many will arrive where this is the first."""
    place = edge.target, edge.input_nr
    there = [one for one in graph.edges if (one.target, one.input_nr) == place and one.gradient]
    return f" It is the first of {len(there)} to arrive there." if len(there) > 1 else ""


def hooked(node: TracedNode, last: TracedEdge | None) -> str:
    """Return that a hook changed what had arrived, if one did."""
    if last is None or node.gradients == (last.gradient_so_far,) or len(node.gradients) > 1:
        return ""
    return f", which a hook made of {last.gradient_so_far},"


def complete(leaf: TracedNode, hooked: str) -> str:
    """Return that the gradient of a leaf is complete."""
    name = leaf.leaf_name
    kept = f"{name}.grad" if name else "its .grad"
    arrived = f"{_full(leaf.gradients)}{hooked.rstrip(',')}"
    return f"The gradient of {short(leaf)} is complete: {arrived}. backward() adds it to {kept}."


def _full(tensors: tuple[TensorSummary | None, ...]) -> str:
    known = [tensor for tensor in tensors if tensor is not None]
    return "; ".join(
        f"{shape_text(tensor.shape)} of {tensor}"
        if tensor.numbers is None and tensor.unread is None
        else str(tensor)
        for tensor in known
    )


def called(node: TracedNode) -> str:
    """Return the name of a node, and what it is."""
    return f"{short(node)} ({'a leaf' if node.is_leaf else node.name})"


def short(node: TracedNode) -> str:
    """Return the name of a node's tensor, or the node's number."""
    return node.tensor_names[0] if node.tensor_names else f"node {node.index}"
