"""Inputs of a graph that need no gradient, as nodes of a picture."""

from dataclasses import dataclass, replace

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedEdge, TracedInput, TracedNode
from leafgrad._messages import message


@dataclass(frozen=True, kw_only=True, slots=True)
class InputNode(TracedNode):
    """A node that stands for an input of the graph, which autograd has no node for."""

    input: TracedInput


@dataclass(frozen=True, kw_only=True, slots=True)
class InputEdge(TracedEdge):
    """An edge from an operation to an input of the graph.

    Attributes:
        target: The index of the input's node.
        input: The input.
        argument: The name of the operation's parameter that the input was passed as.
    """

    target: int
    input: TracedInput
    argument: str


def with_inputs(graph: Graph) -> Graph:
    """Return a copy of a graph with a node for each input at the end, and edges to these nodes."""
    nodes = [*graph.nodes]
    for index, one in enumerate(graph.inputs, start=len(nodes)):
        for use in one.uses:
            node = nodes[use.node]
            edge = InputEdge(
                source=node.index,
                target=index,
                input_nr=0,
                output_nr=len(node.edges),
                input=one,
                argument=use.argument,
            )
            nodes[node.index] = replace(node, edges=(*node.edges, edge))
        nodes.append(
            InputNode(
                index=index,
                name=message("box.input"),
                shapes=(one.shape,),
                dtype=one.dtype,
                device=one.device,
                edges=(),
                saved=(),
                tensor_names=(one.name,),
                is_leaf=False,
                retains_grad=None,
                custom_function=None,
                input=one,
            )
        )
    return replace(
        graph,
        nodes=tuple(nodes),
        roots=tuple(nodes[one.index] for one in graph.roots),
    )
