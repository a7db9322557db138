"""What a node kept of its forward operation: the arguments and tensors that backward needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch.autograd.graph import Node

Result = TypeVar("Result")


def kept(node: Node, name: str) -> Any:
    """Give what the node saved under a name, as backward would get it.

    A tensor comes with the graph that it was saved with. PyTorch raises where the graph was freed,
    or the tensor was changed in place, and calls the hooks for saved tensors.
    """
    value = getattr(node, f"_saved_{name}")
    return value if isinstance(value, torch.Tensor) else _signed(value)


def _signed(value: Any) -> Any:
    """Undo that PyTorch shows a negative number, such as an axis, as an unsigned one."""
    if isinstance(value, tuple):
        return tuple(map(_signed, value))
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


def is_recomputed(node: Node, name: str) -> bool:
    """Say whether unpacking what the node saved would run a checkpointed function once more."""
    slot = getattr(node, f"_raw_saved_{name}", None)
    hook = None if slot is None or isinstance(slot, tuple) else slot.unpack_hook
    return hook is not None and hook.__module__ == "torch.utils.checkpoint"


def in_backward(compute: Callable[[], Result]) -> Result:
    """Call a function in a backward pass of its own, which has no other effect.

    Within one pass a checkpointed function runs once more for all that its nodes did not save, and
    not for each look at it; each of them can be looked at once.
    """
    found: list[Result] = []
    with torch.enable_grad():
        anchor = torch.zeros((), device="cpu", requires_grad=True)
        end = _Backward.apply(anchor, lambda: found.append(compute()))  # type: ignore[no-untyped-call]
    torch.autograd.grad(end, anchor, allow_unused=True)
    return found[0]


class _Backward(torch.autograd.Function):
    """Does nothing but call a function in its backward."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, compute: Callable[[], None]) -> torch.Tensor:
        ctx.compute = compute
        return anchor.clone()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        ctx.compute()
        return None, None


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply a function to tensors that no transform of `torch.func` wraps, which is not looked for.

    That would take a quarter of what a small function takes in all.
    """
    quick: Any = super(torch.autograd.Function, function)
    are_transformed = torch._C._are_functorch_transforms_active()
    return (function if are_transformed else quick).apply(*arguments)


def taken(ctx: Any) -> list[Any]:
    """Give what a custom function saved, which nothing else keeps alive if backward is its last."""
    saved = [*ctx.saved_tensors]
    ctx.maybe_clear_saved_tensors()
    return saved


def is_intercepted() -> bool:
    """Say whether a mode or a transform may make other than plain tensors of what is computed."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._are_functorch_transforms_active()


class TensorType(Protocol):
    """What a node knows of one tensor that its operation made."""

    shape: Sequence[int]
    dtype: torch.dtype
    device: torch.device


def output_types(node: Node) -> Sequence[TensorType]:
    """Give shape, dtype and device of each tensor that the node's operation made."""
    types: Sequence[TensorType] = getattr(node, "_input_metadata")  # noqa: B009 (not declared)
    return types


def keeps(node: Node, name: str) -> bool:
    """Say whether nodes of this kind have something saved under a name."""
    return hasattr(type(node), f"_saved_{name}")
