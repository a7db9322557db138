"""A graph as JSON, and back."""

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch

from leafgrad._display.jsonable import json_types
from leafgrad._graph.graph import Graph, sinks_of
from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import ForwardFailure, TracedInput, TracedNode
from leafgrad._messages import message

SCHEMA = 1
"""The version of the format. Increase it when a field is removed or changes its meaning."""

Nodes = tuple[TracedNode, ...]
Modules = tuple[TracedModule, ...]
Inputs = tuple[TracedInput, ...]


def graph_to_json(graph: Graph, indent: int | None = None) -> str:
    """Return the fields of the nodes and of the graph, and some facts that follow from them."""
    facts = {
        "schema": SCHEMA,
        "nodes": [
            {**json_types(node), "leaf_name": node.leaf_name, "is_freed": node.is_freed}
            for node in graph.nodes
        ],
        "roots": [node.index for node in graph.roots],
        "modules": json_types(graph.modules),
        "inputs": json_types(graph.inputs),
        "leaves": [node.index for node in graph.leaves],
        "sinks": [node.index for node in sinks_of(graph)],
        "depth": graph.depth,
        "is_freed": graph.is_freed,
        "failure": json_types(graph.failure),
    }
    return json.dumps(facts, indent=indent)


def graph_fields(text: str) -> dict[str, Any]:
    """Return the fields of the graph in a text that `graph_to_json` wrote."""
    data = _parse(text)
    schema = data.get("schema") if isinstance(data, Mapping) else None
    if schema != SCHEMA:
        raise ValueError(message("errors.graph.schema", schema=SCHEMA, came=schema))
    try:
        nodes: Nodes = _loader(Nodes)(data["nodes"])
        failure = data["failure"]
        return {
            "nodes": nodes,
            "roots": tuple(nodes[index] for index in data["roots"]),
            "modules": _loader(Modules)(data["modules"]),
            "inputs": _loader(Inputs)(data["inputs"]),
            "failure": failure and _loader(ForwardFailure)(failure),
        }
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(message("errors.graph.damaged", error=error)) from error


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = message("errors.graph.json", error=error.msg)
        raise json.JSONDecodeError(reason, error.doc, error.pos) from None
    except RecursionError:
        nested = message("errors.graph.nested")
        raise ValueError(message("errors.graph.json", error=nested)) from None
    except TypeError as error:
        raise TypeError(message("errors.graph.json", error=error)) from None


@cache
def _loader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that converts JSON types to a type."""
    is_union = get_origin(kind) in {Union, UnionType}
    kinds = [one for one in get_args(kind) if one is not NoneType] if is_union else [kind]
    if len(kinds) > 1:
        return _load_number if float in kinds else _load_as_is
    (kind,) = kinds
    if get_origin(kind) is tuple:
        load = _loader(get_args(kind)[0])
        return lambda items: tuple(None if item is None else load(item) for item in items)
    if is_dataclass(kind):
        loaders = {name: _loader(hint) for name, hint in get_type_hints(kind).items()}
        return partial(_load_fields, kind, loaders)
    return _LOADERS.get(kind, _load_as_is)


def _load_as_is(data: Any) -> Any:
    return data


def _load_number(data: Any) -> Any:
    """Return a number. JSON has no complex numbers, NaN and infinities, so these are text."""
    if not isinstance(data, str):
        return data
    return complex(data) if "j" in data else float(data)


def _load_fields(kind: Any, loaders: Mapping[str, Callable[[Any], Any]], data: Any) -> Any:
    values = {name: data[name] for name in loaders}
    return kind(
        **{name: value if value is None else loaders[name](value) for name, value in values.items()}
    )


_LOADERS: dict[Any, Callable[[Any], Any]] = {
    float: _load_number,
    torch.dtype: partial(getattr, torch),
    torch.device: torch.device,
}
