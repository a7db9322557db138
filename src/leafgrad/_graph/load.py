"""Traced graphs out of JSON types."""

import json
from collections.abc import Mapping
from typing import Any

import torch

from leafgrad._graph.data import SCHEMA
from leafgrad._graph.nodes import (
    CustomFunction,
    SavedTensor,
    Shape,
    Source,
    TracedEdge,
    TracedNode,
    Write,
)
from leafgrad._graph.summary import summary_from

Nodes = tuple[TracedNode, ...]


def nodes_and_roots(text: str) -> tuple[Nodes, Nodes]:
    """Rebuild the nodes, and tell which of them are roots; the rest follows from them."""
    data = _read(text)
    schema = data.get("schema") if isinstance(data, Mapping) else None
    if schema != SCHEMA:
        raise ValueError(
            f"the text must hold a graph of schema {SCHEMA}, not {schema}; "
            "write it with to_json() of this version of leafgrad"
        )
    try:
        nodes = tuple(map(_node, data["nodes"]))
        return nodes, tuple(nodes[index] for index in data["roots"])
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"the text must hold a whole graph as to_json() writes it, not a damaged one: {error!r}"
        ) from error


def _read(text: str) -> Any:
    must = "the text must be JSON as to_json() writes it, and whole, not a path or anything else"
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{must}: {error.msg}", error.doc, error.pos) from None
    except RecursionError:
        raise ValueError(f"{must}: it is a nest too deep to be a graph") from None
    except TypeError as error:
        raise TypeError(f"{must}: {error}") from None


def _node(data: Mapping[str, Any]) -> TracedNode:
    custom = data["custom_function"]
    return TracedNode(
        **{name: data[name] for name in _PLAIN},
        **{name: data[name] for name in _ONLY_WITH_NUMBERS if name in data},
        shapes=tuple(map(_shape, data["shapes"])),
        dtype=getattr(torch, data["dtype"]),
        device=torch.device(data["device"]),
        edges=tuple(map(_edge, data["edges"])),
        saved=tuple(map(_saved, data["saved"])),
        tensor_names=tuple(data["tensor_names"]),
        custom_function=custom and CustomFunction(**custom),
        source=_source(data["source"]),
        values=tuple(map(summary_from, data.get("values", ()))),
        gradients=tuple(map(summary_from, data.get("gradients", ()))),
        value_turn_given=tuple(data.get("value_turn_given", ())),
        derivative_order=data.get("derivative_order"),
    )


_PLAIN = (
    "index",
    "name",
    "is_leaf",
    "retains_grad",
    "created",
    "module",
    "is_module_inferred",
    "hides_saved",
)
_ONLY_WITH_NUMBERS = (
    "visited",
    "value_turns",
    "value_turn_kind",
    "value_turn_is_near",
    "gradient_turns",
    "gradient_turn_kind",
)


def _edge(data: Mapping[str, Any]) -> TracedEdge:
    read = {name: summary_from(data.get(name)) for name in ("gradient", "gradient_so_far")}
    return TracedEdge(**{**data, **read})


def _saved(data: Mapping[str, Any]) -> SavedTensor:
    special = {
        "shape": _shape(data["shape"]),
        "dtype": data["dtype"] and getattr(torch, data["dtype"]),
        "device": data["device"] and torch.device(data["device"]),
        "writes": tuple(map(_write, data["writes"])),
    }
    return SavedTensor(**{**data, **special})


def _write(data: Mapping[str, Any]) -> Write:
    return Write(**{**data, "source": _source(data["source"])})


def _source(data: Mapping[str, Any] | None) -> Source | None:
    return None if data is None else Source(**data)


def _shape(sizes: list[int | str] | None) -> Shape | None:
    return None if sizes is None else tuple(sizes)
