"""Find the outputs that a backward pass starts from, in nested containers."""

from collections import deque
from collections.abc import Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node

from leafgrad import _autograd
from leafgrad._messages import message

Output = torch.Tensor | GradientEdge


def iter_outputs(outputs: object) -> Iterator[Output]:
    """Yield the tensors and edges in nested containers, in order; each container only once.

    Other values are ignored, unless there is no tensor or edge at all: that raises an error.
    """
    other: tuple[str, object] | None = None
    has_output = False
    ahead: list[tuple[str, Any]] = [("outputs", outputs)]
    met: dict[int, object] = {}  # keeps containers alive, so that no id is reused
    while ahead:
        place, item = ahead.pop()
        inside = _inside(place, item)
        if inside is not None:
            if id(item) not in met:
                met[id(item)] = item
                ahead += reversed(inside)
        elif isinstance(item, Output):
            has_output = True
            yield item
        elif other is None and (item is not None or place == "outputs"):
            other = place, item
    if other is not None and not has_output:
        raise TypeError(_not_an_output(*other))


def _inside(place: str, item: Any) -> list[tuple[str, Any]] | None:
    """Return the items of a container with their positions, None if it is no container."""
    if isinstance(item, Output):
        return None
    if isinstance(item, Mapping):
        return [(f"{place}[{_autograd.key_text(key)}]", item[key]) for key in item]
    if isinstance(item, list | tuple):
        return [(f"{place}[{number}]", part) for number, part in enumerate(item)]
    if isinstance(item, REFUSED):
        raise TypeError(_not_an_output(place, item))
    if is_dataclass(item) and not isinstance(item, type | torch.nn.Module):
        names = [field.name for field in fields(item)]
        return [(f"{place}.{name}", getattr(item, name, None)) for name in names]
    return None


def _not_an_output(place: str, item: object) -> str:
    """Return the error message for an item that cannot be traced."""
    cure = next((cure for kind, cure in CURES.items() if isinstance(item, kind)), None)
    if cure is None:
        cure = "object" if hasattr(item, "__dict__") else "number"
    kind, advice = type(item).__name__, message(f"errors.outputs.cure.{cure}")
    return message("errors.outputs.type", place=place, type=kind, cure=advice)


# These may contain tensors, so they are not ignored. Reading an iterator would exhaust it.
REFUSED: tuple[type, ...] = (Node, Iterator, AbstractSet, MappingView, deque)

CURES: dict[Any, str] = {
    type(None): "none",
    torch.nn.Module: "module",
    Node: "node",
    REFUSED: "container",
}
"""Message keys of the advice for each type that cannot be traced."""


def unwrap_functorch(output: Any) -> Any:
    """Return the tensor inside `torch.func` wrappers that need no gradient at their level.

    An edge is returned unchanged.
    """
    if isinstance(output, GradientEdge):
        return output
    while _autograd.functorch_wrapper(output) and not _autograd.plain(output, "requires_grad"):
        output = _autograd.unwrapped(output)
    return output


def root_nodes(outputs: Sequence[Output]) -> list[Node]:
    """Return the nodes where a backward pass from the outputs starts, each once."""
    if not outputs:
        raise ValueError(message("errors.outputs.empty"))
    roots = list(dict.fromkeys(node for node, _ in gradient_edges(outputs)))
    if not roots:
        raise ValueError(message("errors.outputs.constant"))
    return roots


def gradient_edges(outputs: Sequence[Output]) -> list[_autograd.Edge]:
    """Return the edges where gradients of the outputs arrive; skip outputs that need none."""
    edges = [
        (output.node, output.output_nr)
        if isinstance(output, GradientEdge)
        else _autograd.gradient_edge(output)
        for output in outputs
    ]
    return [edge for edge in edges if edge is not None]
