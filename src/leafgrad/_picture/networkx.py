"""A traced graph for networkx."""

import importlib
from typing import Any

from leafgrad._graph.graph import Graph
from leafgrad._graph.serialize import node_to_dict


def as_networkx(graph: Graph) -> Any:
    """Return the graph as a multigraph; networkx is imported here and nowhere else."""
    multigraph = importlib.import_module("networkx").MultiDiGraph()
    multigraph.add_nodes_from((node.index, node_to_dict(node)) for node in graph.nodes)
    multigraph.add_edges_from(
        (edge.source, edge.target, {"input_nr": edge.input_nr, "output_nr": edge.output_nr})
        for edge in graph.edges
        if edge.target is not None
    )
    return multigraph
