"""A traced graph as JSON types."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leafgrad._trace import GraphTrace, SavedTensor, TracedNode


def as_dict(trace: "GraphTrace") -> dict[str, Any]:
    """Give the nodes with all that is known of them, and the graph's own facts."""
    return {
        "nodes": [node_as_dict(node) for node in trace.nodes],
        "roots": [node.index for node in trace.roots],
        "leaves": [node.index for node in trace.leaves],
        "sinks": [node.index for node in trace.sinks],
        "depth": trace.depth,
        "is_freed": trace.is_freed,
    }


def as_json(trace: "GraphTrace", *, indent: int | None) -> str:
    """Write `as_dict` as JSON text."""
    return json.dumps(as_dict(trace), indent=indent)


def node_as_dict(node: "TracedNode") -> dict[str, Any]:
    """Give a node's fields, and what follows from them."""
    return {
        **_fields(node),
        "shapes": [_listed(shape) for shape in node.shapes],
        "dtype": _name(node.dtype),
        "device": _name(node.device),
        "edges": [_fields(edge) for edge in node.edges],
        "saved": [_saved_as_dict(saved) for saved in node.saved],
        "tensor_names": [*node.tensor_names],
        "custom_function": node.custom_function and _fields(node.custom_function),
        "leaf_name": node.leaf_name,
        "is_freed": node.is_freed,
    }


def _saved_as_dict(saved: "SavedTensor") -> dict[str, Any]:
    return {**_fields(saved), "shape": _listed(saved.shape), "dtype": _name(saved.dtype)}


def _listed(shape: tuple[int | str, ...] | None) -> list[int | str] | None:
    return None if shape is None else [*shape]


def _name(kind: object) -> str | None:
    return None if kind is None else str(kind).removeprefix("torch.")


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
