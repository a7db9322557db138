"""The outputs that a backward would start from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node

from leafgrad import _autograd

End = torch.Tensor | GradientEdge


def ends_in(outputs: object) -> Iterator[End]:
    """Yield the tensors and edges of a nest, in order."""
    ahead = [("outputs", outputs)]
    while ahead:
        path, item = ahead.pop()
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, GradientEdge):
            if not isinstance(item.node, Node):
                raise TypeError(
                    f"{path}.node must be a node, not {type(item.node).__name__}; "
                    "torch.autograd.graph.get_gradient_edge(tensor) gives an edge"
                )
            yield item
        elif isinstance(item, Mapping):
            ahead.extend((f"{path}[{key!r}]", item[key]) for key in reversed([*item]))
        elif isinstance(item, list | tuple):
            ahead.extend((f"{path}[{i}]", item[i]) for i in reversed(range(len(item))))
        else:
            raise TypeError(_not_an_output(path, item))


def _not_an_output(path: str, item: object) -> str:
    cure = next((cure for kind, cure in CURES.items() if isinstance(item, kind)), ANY_CURE)
    must = "must be a tensor, a GradientEdge, or a nest of lists, tuples and dicts of them"
    return f"{path} {must}, not {type(item).__name__}; {cure}"


CURES: dict[type, str] = {
    type(None): "leave it out",
    torch.nn.Module: "pass what a call of the module returns",
    Node: "pass the tensor that the node made, or GradientEdge(node, 0)",
}
ANY_CURE = "pass what the forward computation made, before any .item() or .numpy()"


def inside_transforms(end: Any) -> Any:
    """Look through wrappers of ``torch.func`` that need no gradient at their own level."""
    if isinstance(end, GradientEdge):
        return end
    while _autograd.functorch_wrapper(end) and not _autograd.plain(end, "requires_grad"):
        end = _autograd.unwrapped(end)
    return end


def roots_of(ends: Sequence[End]) -> list[Node]:
    """Find the nodes that the outputs' gradients arrive at, each of them once."""
    if not ends:
        raise ValueError("outputs must hold at least one tensor, not none; pass a result")
    roots = list(dict.fromkeys(node for node, _ in edges_of(ends)))
    if not roots:
        raise ValueError(
            "outputs must hold a tensor that needs a gradient, but none of them requires grad; "
            "compute them from a tensor with requires_grad=True, outside no_grad() and detach()"
        )
    return roots


def edges_of(ends: Sequence[End]) -> list[tuple[Node, int]]:
    """Find where the gradients of the outputs arrive, those that need none left out."""
    edges = [
        (end.node, end.output_nr) if isinstance(end, GradientEdge) else _autograd.gradient_edge(end)
        for end in ends
    ]
    return [edge for edge in edges if edge is not None]
