"""The inputs of a graph, which stand in a picture like nodes that nothing leads on from."""

from dataclasses import dataclass, replace

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedEdge, TracedNode
from leafgrad._graph.traced_inputs import TracedInput

INPUT = "input"


@dataclass(frozen=True, kw_only=True, slots=True)
class InputNode(TracedNode):
    """What stands for an input.

    Attributes:
        given: The input.
    """

    given: TracedInput


@dataclass(frozen=True, kw_only=True, slots=True)
class InputEdge(TracedEdge):
    """What leads from an operation to an input that it was given.

    Attributes:
        target: The index of the node that stands for the input.
        given: The input.
        argument: What the operation calls it.
    """

    target: int
    given: TracedInput
    argument: str


def with_inputs(graph: Graph) -> Graph:
    """Return the graph with a node for each input, behind all others, and edges that lead there."""
    nodes = [*graph.nodes]
    for index, given in enumerate(graph.inputs, start=len(nodes)):
        for use in given.uses:
            node = nodes[use.node]
            edges = {edge.output_nr: edge for edge in node.edges}
            at = len(edges) if use.output_nr is None else use.output_nr
            edges[at] = InputEdge(
                source=node.index,
                target=index,
                input_nr=0,
                output_nr=at,
                given=given,
                argument=use.argument,
            )
            nodes[node.index] = replace(node, edges=tuple(edges.values()))
        nodes.append(_node(index, given))
    return replace(graph, nodes=tuple(nodes), roots=tuple(nodes[one.index] for one in graph.roots))


def _node(index: int, given: TracedInput) -> InputNode:
    return InputNode(
        index=index,
        name=INPUT,
        shapes=(given.shape,),
        dtype=given.dtype,
        device=given.device,
        edges=(),
        saved=(),
        tensor_names=() if given.name is None else (given.name,),
        is_leaf=False,
        retains_grad=None,
        custom_function=None,
        given=given,
    )
