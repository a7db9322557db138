"""The outputs that a backward pass starts from, in nested containers."""

from collections import deque
from collections.abc import Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import GradientEdge, Node

from leafgrad import _autograd

Output = torch.Tensor | GradientEdge


def iter_outputs(outputs: object) -> Iterator[Output]:
    """Yield the tensors and edges of a nest, in order.

    What is neither has no graph, and is left out as long as anything else is there.
    """
    if isinstance(outputs, torch.Tensor):  # as nearly always
        yield outputs
        return
    other: tuple[_Place, object] | None = None
    found = False
    for place, item in _items_in(outputs):
        if isinstance(item, Output):
            found = True
            yield item
        elif other is None and (item is not None or place.around is None):
            other = place, item
    if other is not None and not found:
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
                raise ValueError(
                    f"outputs must be a nest that ends, but {place} is a {type(item).__name__} "
                    "that stands in itself, or that others hold over and over; pass each result "
                    "once, in one list"
                )
            around.add(id(item))
            met[id(item)] = item
            ahead.append((None, item))
            ahead += reversed(inside)


def _inside(place: _Place, item: Any) -> list[tuple[_Place | None, Any]] | None:
    """Return the items of a container with their positions; None if it is no container."""
    if isinstance(item, Output):
        _check_edge(place, item)
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


def _check_edge(place: _Place, output: Output) -> None:
    if isinstance(output, GradientEdge) and not isinstance(output.node, Node):
        raise TypeError(
            f"{place}.node must be a node, not {type(output.node).__name__}; "
            "torch.autograd.graph.get_gradient_edge(tensor) gives an edge"
        )


def _not_an_output(place: _Place, item: object) -> str:
    cure = next((cure for kind, cure in CURES.items() if isinstance(item, kind)), None)
    if cure is None:
        cure = CURE_OF_OBJECTS if hasattr(item, "__dict__") else CURE_OF_NUMBERS
    must = "must be a tensor, a GradientEdge, or a nest of lists, tuples, dicts and dataclasses"
    return f"{place} {must} of them, not {type(item).__name__}; {cure}"


# These may hold what has a graph, so they are not left out; to read an iterator would use it up.
REFUSED: tuple[type, ...] = (Node, Iterator, AbstractSet, MappingView, deque)

CURES: dict[Any, str] = {
    type(None): "did the model's forward forget its `return`?",
    torch.nn.Module: "pass what a call of the module returns",
    Node: "pass the tensor that the node made, or GradientEdge(node, 0)",
    REFUSED: "pass list() of it",
}
CURE_OF_OBJECTS = "pass the tensors that it holds, in a list"
CURE_OF_NUMBERS = "pass what the forward computation made, before any .item() or .numpy()"


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
        raise ValueError("outputs must hold at least one tensor, not none; pass a result")
    roots = list(dict.fromkeys(node for node, _ in gradient_edges(outputs)))
    if not roots:
        raise ValueError(
            "outputs must hold a tensor that needs a gradient, but none of them requires grad; "
            "compute them from a tensor with requires_grad=True, outside no_grad() and detach()"
        )
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
