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

    Other values are ignored, unless there is no tensor or edge at all: that raises an error. So
    does a container that cannot be searched, such as a set or an iterator.
    """
    other: tuple[str, object] | None = None
    has_output = False
    ahead: list[tuple[str, Any]] = [("outputs", outputs)]
    met: dict[int, object] = {}  # It keeps containers alive, so that no id is reused.
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
    """Return the items of a container with their places, None for any other value.

    A place is a text such as ``outputs[0]``. Raise an error for the types in `REFUSED`.
    """
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
    """Return the error message for an item that is not an output.

    `place` is its expression in the message, such as `outputs[1]`.
    """
    cure = next((cure for kind, cure in CURES.items() if isinstance(item, kind)), None)
    if cure is None:
        cure = "object" if hasattr(item, "__dict__") else "number"
    kind, advice = type(item).__name__, message(f"errors.outputs.cure.{cure}")
    return message("errors.outputs.type", place=place, type=kind, cure=advice)


# Objects of these types may contain tensors. Ignoring them could lose an output, and reading an
# iterator would exhaust it, so they raise an error.
REFUSED: tuple[type, ...] = (Node, Iterator, AbstractSet, MappingView, deque)

CURES: dict[Any, str] = {
    type(None): "none",
    torch.nn.Module: "module",
    Node: "node",
    REFUSED: "container",
}
"""Message keys of the advice, by the type of a value that is not an output."""


def unwrap_functorch(output: Any) -> Any:
    """Remove the outer `torch.func` wrappers of a tensor, up to the first that requires grad.

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
