"""A traced graph for networkx."""

import importlib
from typing import Any

from leafgrad._graph.graph import Graph
from leafgrad._graph.serialize import node_to_dict


def as_networkx(trace: Graph) -> Any:
    """Make a multigraph; networkx is imported here and nowhere else."""
    try:
        nx = importlib.import_module("networkx")
    except ImportError as error:
        raise ImportError(
            "networkx must be installed for to_networkx(), but it cannot be imported; "
            "install it (pip install networkx), or use to_dict()"
        ) from error
    graph = nx.MultiDiGraph()
    graph.add_nodes_from((node.index, node_to_dict(node)) for node in trace.nodes)
    graph.add_edges_from(
        (edge.source, edge.target, {"input_nr": edge.input_nr, "output_nr": edge.output_nr})
        for edge in trace.edges
        if edge.target is not None
    )
    return graph
