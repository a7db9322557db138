"""Group the nodes of each derivative into one module, so that they share a box and a table row."""

from dataclasses import replace

from leafgrad._graph.graph import Graph
from leafgrad._graph.modules import TracedModule
from leafgrad._messages import message


def with_derivatives(graph: Graph) -> Graph:
    """Return a copy of a graph in which the nodes of each named derivative form a module."""
    names = {
        node.derivative: node.derivative.replace(".", "_")
        for node in graph.nodes
        if node.derivative
    }
    if not names:
        return graph
    nodes = tuple(
        replace(node, module=names[node.derivative]) if node.derivative else node
        for node in graph.nodes
    )
    modules = [
        TracedModule(
            path=name,
            class_name=message("box.derivative"),
            has_forward=True,
            parameters=0,
            frozen=0,
            frozen_numbers=0,
        )
        for name in dict.fromkeys(names.values())
        if graph.modules
    ]
    roots = tuple(nodes[root.index] for root in graph.roots)
    return replace(graph, nodes=nodes, roots=roots, modules=(*graph.modules, *modules))
