"""A traced graph as JSON types."""

import json
from typing import Any

from leafgrad._display.jsonable import json_types
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode

SCHEMA = 1  # grows when a field goes or changes its meaning


def as_dict(trace: Graph) -> dict[str, Any]:
    """Give the nodes with all that is known of them, and the graph's own facts."""
    return {
        "schema": SCHEMA,
        "nodes": [node_as_dict(node) for node in trace.nodes],
        "roots": [node.index for node in trace.roots],
        "leaves": [node.index for node in trace.leaves],
        "sinks": [node.index for node in trace.sinks],
        "depth": trace.depth,
        "is_freed": trace.is_freed,
    }


def as_json(trace: Graph, *, indent: int | None) -> str:
    """Write `as_dict` as JSON text."""
    return json.dumps(as_dict(trace), indent=indent)


def node_as_dict(node: "TracedNode") -> dict[str, Any]:
    """Give a node's fields, and what follows from them."""
    return {**json_types(node), "leaf_name": node.leaf_name, "is_freed": node.is_freed}
