"""A graph as JSON, and back out of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch

from leafgrad._display.jsonable import json_types
from leafgrad._graph.failure import ForwardFailure
from leafgrad._graph.graph import Graph
from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.traced_inputs import TracedInput

SCHEMA = 1  # grows when a field goes or changes its meaning

Nodes = tuple[TracedNode, ...]
Modules = tuple[TracedModule, ...]
Inputs = tuple[TracedInput, ...]


def graph_to_dict(graph: Graph) -> dict[str, Any]:
    """Return the nodes with all that is known of them, and the graph's own facts."""
    return {
        "schema": SCHEMA,
        "nodes": [node_to_dict(node) for node in graph.nodes],
        "roots": [node.index for node in graph.roots],
        "modules": [json_types(module) for module in graph.modules],
        "inputs": [json_types(one) for one in graph.inputs],
        "leaves": [node.index for node in graph.leaves],
        "sinks": [node.index for node in graph.sinks],
        "depth": graph.depth,
        "is_freed": graph.is_freed,
        "failure": json_types(graph.failure),
    }


def node_to_dict(node: TracedNode) -> dict[str, Any]:
    """Return a node's fields, and what follows from them."""
    return {**json_types(node), "leaf_name": node.leaf_name, "is_freed": node.is_freed}


def graph_fields(text: str) -> dict[str, Any]:
    """Return the fields of the graph that a text holds; the rest follows from them."""
    data = _parse(text)
    schema = data.get("schema") if isinstance(data, Mapping) else None
    if schema != SCHEMA:
        raise ValueError(
            f"the text must hold a graph of schema {SCHEMA}, not {schema}; "
            "write it with to_json() of this version of leafgrad"
        )
    try:
        nodes: Nodes = _loader(Nodes)(data["nodes"])
        failure = data.get("failure")
        return {
            "nodes": nodes,
            "roots": tuple(nodes[index] for index in data["roots"]),
            "modules": _loader(Modules)(data.get("modules", ())),
            "inputs": _loader(Inputs)(data.get("inputs", ())),
            "failure": failure and _loader(ForwardFailure)(failure),
        }
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"the text must hold a whole graph as to_json() writes it, not a damaged one: {error!r}"
        ) from error


def _parse(text: str) -> Any:
    must = "the text must be JSON as to_json() writes it, and whole, not a path or anything else"
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{must}: {error.msg}", error.doc, error.pos) from None
    except RecursionError:
        raise ValueError(f"{must}: it is a nest too deep to be a graph") from None
    except TypeError as error:
        raise TypeError(f"{must}: {error}") from None


_ADDED_LATER = {
    "derivative_order",
    "gradient",
    "gradient_so_far",
    "gradient_turn_kind",
    "gradient_turns",
    "gradients",
    "value_turn_given",
    "value_turn_is_near",
    "value_turn_kind",
    "value_turns",
    "values",
    "visited",
    "within",
}
"""The fields that a text of this schema may lack."""

Loader = Callable[[Any], Any]


@cache
def _loader(kind: Any) -> Loader:
    """Return what makes a value of a type out of JSON types."""
    is_union = get_origin(kind) in {Union, UnionType}
    kinds = [one for one in get_args(kind) if one is not NoneType] if is_union else [kind]
    if len(kinds) > 1:
        return _number if float in kinds else _as_it_is
    (kind,) = kinds
    if get_origin(kind) is tuple:
        return partial(_tuple, _loader(get_args(kind)[0]))
    if is_dataclass(kind):
        loaders = {name: _loader(hint) for name, hint in get_type_hints(kind).items()}
        return partial(_fields, kind, loaders)
    return _LOADERS.get(kind, _as_it_is)


def _as_it_is(data: Any) -> Any:
    return data


def _number(data: Any) -> Any:
    """Return a number, also one that JSON does not have: a complex one, NaN or an infinity."""
    if not isinstance(data, str):
        return data
    return complex(data) if "j" in data else float(data)


_LOADERS: dict[Any, Loader] = {
    float: _number,
    torch.dtype: partial(getattr, torch),
    torch.device: torch.device,
}


def _tuple(loader: Loader, data: Any) -> Any:
    return tuple(None if item is None else loader(item) for item in data)


def _fields(kind: Any, loaders: Mapping[str, Loader], data: Any) -> Any:
    known = {name: data[name] for name in loaders if name in data or name not in _ADDED_LATER}
    return kind(
        **{name: value if value is None else loaders[name](value) for name, value in known.items()}
    )
