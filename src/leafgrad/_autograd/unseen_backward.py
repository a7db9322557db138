"""A backward pass that nobody sees: no hook is called, and no tensor keeps a gradient of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch

from leafgrad._autograd.node import ForwardOutput, forward_class, forward_outputs
from leafgrad._autograd.path import Path
from leafgrad._autograd.tensor import unobserved
from leafgrad._autograd.traversal import Edge

Gradients = Sequence[torch.Tensor | None]


def unseen_gradient(
    outputs: torch.Tensor, inputs: Sequence[torch.Tensor], path: Path, weight: torch.Tensor
) -> torch.Tensor | None:
    """Return what arrives at the start of a path for a gradient of `outputs`; free nothing.

    The path leads to the tensors `inputs`. None if nothing arrives.

    PyTorch's engine calls hooks before and after a node, so here each node is called by itself, in
    the engine's stead: in the first node of a pass that ends there. So nodes know as in any pass
    which gradients are asked for, and a checkpoint runs its function once.
    """
    found: list[torch.Tensor | None] = []
    with unobserved():
        with torch.enable_grad():
            end = _First.apply(outputs, lambda: found.append(_sent_back(path, weight)))  # type: ignore[no-untyped-call]
        # Where anomalies are looked for, PyTorch warns of the end of the pass.
        with torch.autograd.set_detect_anomaly(False), suppress(_Ended):
            torch.autograd.grad(end, inputs, retain_graph=True, allow_unused=True)
    return found[0]


class _Ended(Exception):  # noqa: N818 (not an error)
    """Ends a pass before it comes to what somebody else made."""


class _First(torch.autograd.Function):
    """Leads to the graph of a tensor, but for its backward."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, look: Callable[[], None]) -> torch.Tensor:
        ctx.look = look
        return torch.zeros((), device="cpu")

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        ctx.look()
        raise _Ended


def _sent_back(path: Path, weight: torch.Tensor) -> torch.Tensor | None:
    """Send a gradient along the path, node by node."""
    waiting: dict[Edge, torch.Tensor] = {path.end: weight}
    for node in reversed(path.nodes):
        outputs = forward_outputs(node)
        arrived = [waiting.pop((node, number), None) for number in range(len(outputs))]
        if all(gradient is None for gradient in arrived):
            continue
        for edge, gradient in _passed_on(node, path, outputs, arrived):
            if edge in waiting:
                waiting[edge] = waiting[edge] + gradient
            else:
                waiting[edge] = gradient
    return waiting.get(path.start)


def _passed_on(
    node: Any, path: Path, outputs: Iterable[ForwardOutput], arrived: Gradients
) -> Iterator[tuple[Edge, torch.Tensor]]:
    """Call a node by itself, and give what it passes on along the path."""
    is_own = forward_class(node) is None
    passed = node(*arrived) if is_own else _custom_gradients(node, outputs, arrived)
    passed = passed if isinstance(passed, tuple) else (passed,)
    for (after, number), gradient in zip(path.nodes[node], passed, strict=True):
        if after is None or gradient is None:
            continue
        if after in path.nodes or (after, number) == path.start:
            yield (after, number), _fitted(gradient, forward_outputs(after)[number])


def _custom_gradients(node: Any, outputs: Iterable[ForwardOutput], arrived: Gradients) -> Gradients:
    """Return a gradient for each tensor a function got; its backward gives one per argument."""
    pairs = zip(outputs, arrived, strict=True)
    passed = node.apply(*[_zeros(output) if given is None else given for output, given in pairs])
    passed = passed if isinstance(passed, tuple) else (passed,)
    needed = zip(passed, node.needs_input_grad, strict=False)  # it may give a few Nones more
    wanted = iter([gradient for gradient, is_needed in needed if is_needed])
    return tuple([None if after is None else next(wanted) for after, _ in node.next_functions])


def _zeros(output: ForwardOutput) -> torch.Tensor | None:
    shape, dtype, device = output
    return None if shape is None else torch.zeros(shape, dtype=dtype, device=device)  # type: ignore[arg-type]


def _fitted(gradient: torch.Tensor, output: ForwardOutput) -> torch.Tensor:
    """Add up along axes that were broadcast, and cast, as the engine does between two nodes."""
    shape, dtype, device = output
    if shape is not None and tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)  # type: ignore[arg-type]
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(device, dtype)
