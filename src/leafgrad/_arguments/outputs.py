"""The outputs that a backward pass starts from, in nested containers."""

from collections import deque
from collections.abc import Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import GradientEdge, Node

from leafgrad import _autograd
from leafgrad._messages import message

Output = torch.Tensor | GradientEdge


def iter_outputs(outputs: object) -> Iterator[Output]:
    """Yield the tensors and edges of a nest, in order.

    What is neither has no graph, and is left out as long as anything else is there.
    """
    if isinstance(outputs, torch.Tensor):  # as nearly always
        yield outputs
        return
    other: tuple[_Place, object] | None = None
    has_output = False
    for place, item in _items_in(outputs):
        if isinstance(item, Output):
            has_output = True
            yield item
        elif other is None and (item is not None or place.around is None):
            other = place, item
    if other is not None and not has_output:
        raise TypeError(_not_an_output(*other))


class _Place(NamedTuple):
    """The position of an item in nested containers. It becomes text only for an error."""

    around: "_Place | None"
    key: object
    is_field: bool = False

    def __str__(self) -> str:
        steps = []
        place: _Place | None = self
        while place is not None and place.around is not None:
            steps.append(f".{place.key}" if place.is_field else _step(place.key))
            place = place.around
        if len(steps) > MOST_STEPS:
            steps[MOST_STEPS // 2 : -MOST_STEPS // 2] = ["..."]
        return "".join(["outputs", *reversed(steps)])


MOST_STEPS = 10
MOST_REPEATS = 100_000
"""How often lists may be met again: a few that hold each other twice are met without an end."""


def _step(key: object) -> str:
    """Return a key in brackets; its type if ``repr()`` might run a user's code."""
    return f"[{key!r}]" if type(key) in {str, int} else f"[{type(key).__name__}]"


def _items_in(outputs: object) -> Iterator[tuple[_Place, object]]:
    """Yield the items in nested containers, depth first.

    What waits on the stack is an item or, without a place, a nest that has been gone through.
    """
    ahead: list[tuple[_Place | None, Any]] = [(_Place(None, None), outputs)]
    around: set[int] = set()
    met: dict[int, object] = {}
    repeats = 0
    while ahead:
        place, item = ahead.pop()
        if place is None:
            around.remove(id(item))
            continue
        inside = _inside(place, item)
        if inside is None:
            yield place, item
        elif inside:
            if id(item) in met:
                repeats += 1
            if id(item) in around or repeats > MOST_REPEATS:
                kind = type(item).__name__
                raise ValueError(message("errors.outputs.endless", place=place, type=kind))
            around.add(id(item))
            met[id(item)] = item
            ahead.append((None, item))
            ahead += reversed(inside)


def _inside(place: _Place, item: Any) -> list[tuple[_Place | None, Any]] | None:
    """Return the items of a container with their positions; None if it is no container."""
    if isinstance(item, Output):
        if isinstance(item, GradientEdge) and not isinstance(item.node, Node):
            raise TypeError(
                message("errors.outputs.edge", place=place, type=type(item.node).__name__)
            )
        return None
    if isinstance(item, Mapping):
        return [(_Place(place, key), item[key]) for key in item]
    if isinstance(item, list | tuple):
        return [(_Place(place, number), part) for number, part in enumerate(item)]
    if isinstance(item, REFUSED):
        raise TypeError(_not_an_output(place, item))
    if is_dataclass(item) and not isinstance(item, type | torch.nn.Module):
        names = [field.name for field in fields(item)]
        return [(_Place(place, name, is_field=True), getattr(item, name, None)) for name in names]
    return None


def _not_an_output(place: _Place, item: object) -> str:
    cure = next((cure for kind, cure in CURES.items() if isinstance(item, kind)), None)
    if cure is None:
        cure = "object" if hasattr(item, "__dict__") else "number"
    kind, advice = type(item).__name__, message(f"errors.outputs.cure.{cure}")
    return message("errors.outputs.type", place=place, type=kind, cure=advice)


# These may hold what has a graph, so they are not left out; to read an iterator would use it up.
REFUSED: tuple[type, ...] = (Node, Iterator, AbstractSet, MappingView, deque)

CURES: dict[Any, str] = {
    type(None): "none",
    torch.nn.Module: "module",
    Node: "node",
    REFUSED: "container",
}
"""The key of the cure for each type that cannot be traced."""


def unwrap_functorch(output: Any) -> Any:
    """Return the tensor inside `torch.func` wrappers that need no gradient at their level.

    An edge is returned as it is.
    """
    if isinstance(output, GradientEdge):
        return output
    while _autograd.functorch_wrapper(output) and not _autograd.plain(output, "requires_grad"):
        output = _autograd.unwrapped(output)
    return output


def root_nodes(outputs: Sequence[Output]) -> list[Node]:
    """Return the nodes at which a backward pass from the outputs starts, each once."""
    if not outputs:
        raise ValueError(message("errors.outputs.empty"))
    roots = list(dict.fromkeys(node for node, _ in gradient_edges(outputs)))
    if not roots:
        raise ValueError(message("errors.outputs.constant"))
    return roots


def gradient_edges(outputs: Sequence[Output]) -> list[_autograd.Edge]:
    """Return the edges at which the gradients of the outputs arrive, if they need any."""
    edges = [
        (output.node, output.output_nr)
        if isinstance(output, GradientEdge)
        else _autograd.gradient_edge(output)
        for output in outputs
    ]
    return [edge for edge in edges if edge is not None]
