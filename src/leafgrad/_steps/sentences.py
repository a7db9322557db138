"""The sentence of each step of a forward and backward pass."""

from leafgrad._display.units import shape_text
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedEdge, TracedNode, gradient_text, short_name, value_text
from leafgrad._graph.summary import TensorSummary, number_text
from leafgrad._messages import message

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
"""The derivative of each operation with respect to an input {0}; {1} is the other input, if any."""


def describe_value(node: TracedNode, graph: Graph) -> str:
    """Return the sentence for the value of a leaf, or of an operation and its inputs."""
    if not any(node.values):
        return message("steps.value-unknown", node=full_name(node))
    slots = {"node": full_name(node), "value": value_text(node)}
    if node.is_leaf:
        return message("steps.value-leaf", **slots)
    targets = (edge.target for edge in node.edges)
    inputs = [
        message("steps.constant") if target is None else short_name(graph.nodes[target])
        for target in targets
    ]
    listed = message("lists.and").join(inputs or [message("steps.nothing")])
    return message("steps.value", inputs=listed, **slots)


def describe_start(root: TracedNode, graph: Graph) -> str:
    """Return the sentence for the root where backward starts, with its gradient if complete."""
    if any(edge.target == root.index for edge in graph.edges):
        return message("steps.start", node=full_name(root))
    return message("steps.start-with", node=full_name(root), gradient=gradient_text(root))


def describe_pass(edge: TracedEdge, graph: Graph, *, is_first: bool) -> str:
    """Return the sentence for a gradient that a node computes and passes along an edge."""
    node, target = graph.nodes[edge.source], short_name(graph.nodes[edge.target or 0])
    ends = {"node": full_name(node), "target": target}
    if edge.gradient is None:
        return message("steps.nothing-passed", **ends)
    gradients = {"arrived": _full(node.gradients), "passed": _full((edge.gradient,))}
    factor = _factor(node, edge)
    if factor is None:
        sentence = message("steps.passed", **ends, **gradients)
    else:
        rule = _rule(node, edge, graph)
        sentence = message("steps.times", **ends, **gradients, rule=rule, factor=factor)
    if not is_first or edge.gradient != edge.gradient_so_far:
        total = edge.gradient_so_far
        return message("steps.sum", sentence=sentence, target=target, total=total)
    place = edge.target, edge.input_nr
    arriving = [e for e in graph.edges if (e.target, e.input_nr) == place and e.gradient]
    if len(arriving) == 1:
        return sentence
    return message("steps.first", sentence=sentence, count=len(arriving))


def _rule(node: TracedNode, edge: TracedEdge, graph: Graph) -> str:
    """Return the formula of the local derivative and " = ", or "" if it or a name is unknown.

    The derivative is that of the node's result with respect to the input that `edge` leads to.
    """
    places = [edge.target, *(other.target for other in node.edges if other is not edge)]
    if node.name not in LOCAL or None in places:
        return ""
    names = [short_name(graph.nodes[place]) for place in places if place is not None]
    return f"{LOCAL[node.name].format(*names)} = "


def _factor(node: TracedNode, edge: TracedEdge) -> str | None:
    """Return the gradient that was passed on, divided by the one that arrived, as text.

    `edge` is where it was passed on. Return None unless both are single real numbers, and the one
    that arrived is finite and not 0.
    """
    match node.gradients, edge.gradient:
        case [arrived], left if arrived is not None and left is not None:
            match arrived.numbers, left.numbers:
                case [int() | float() as divisor], [int() | float() as number] if (
                    divisor and arrived.is_finite
                ):
                    return number_text(number / divisor)
    return None


def describe_complete(leaf: TracedNode) -> str:
    """Return the sentence that says that the gradient of a leaf is complete."""
    grad = f"{leaf.leaf_name}.grad" if leaf.leaf_name else message("steps.its-grad")
    gradient = _full(leaf.gradients)
    return message("steps.complete", leaf=short_name(leaf), gradient=gradient, grad=grad)


def _full(tensors: tuple[TensorSummary | None, ...]) -> str:
    """Return tensors as text: their numbers, or shape, mean and norm if they are large."""
    return "; ".join(
        message("steps.tensor", shape=shape_text(tensor.shape), summary=tensor)
        if tensor.numbers is None and tensor.unread is None
        else str(tensor)
        for tensor in tensors
        if tensor is not None
    )


def full_name(node: TracedNode) -> str:
    """Return the name and the kind of a node, as in "y (MulBackward0)"."""
    kind = message("nodes.leaf") if node.is_leaf else node.name
    return message("steps.called", name=short_name(node), kind=kind)
