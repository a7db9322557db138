"""Read what a node saved from the forward pass: the arguments and tensors that backward needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import torch
from torch.autograd import forward_ad
from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_class, next_functions
from leafgrad._autograd.saved import SLOTS, saved_slots, signed
from leafgrad._autograd.tensor import plain

Result = TypeVar("Result")


def kept(node: Node, name: str) -> Any:
    """Return the argument or tensor that a node saved under a name, as its backward would get it.

    A tensor is still connected to its graph, and the hooks for saved tensors run. PyTorch raises an
    error if the graph was freed or the tensor was changed in place.
    """
    value = getattr(node, f"_saved_{name}")
    return signed(value) if isinstance(value, (int, tuple)) else value


def kind_keeps(kind: type[Node], name: str) -> bool:
    """Return whether nodes of the type `kind` save an argument or tensor under this name."""
    return hasattr(kind, f"_saved_{name}")


def reader_of_kept(*names: str) -> Callable[[Node], Any]:
    """Return a function that reads the saved arguments with these names from a node.

    It returns a tuple for two or more names. Pass the result to `signed`: PyTorch shows negative
    integers without their sign.
    """
    return attrgetter(*[f"_saved_{name}" for name in names])


@cache
def reader_of_settings(kind: type[Node]) -> Callable[[Node], Any]:
    """Return a function that reads all saved arguments, except tensors, from nodes of a type.

    `kind` is the type. The function also reads the class of the node, so that it always has
    something to return. Use it only for types of PyTorch's own operations.
    """
    names = [name for name in dir(kind) if name.startswith("_saved_")]
    names = [name for name in names if not hasattr(kind, f"_raw{name}")]
    return attrgetter(*names, "__class__")


class Recomputation(Exception):  # noqa: N818 (not an error: callers read the tensor in another way)
    """Raised if reading a saved tensor would make a checkpoint recompute its block."""


_REFUSAL = "leafgrad does not run a checkpointed function for one look at what was saved"
_refusal: Callable[[], str | None]
_refuse: Callable[[str, bool], None]
_allow: Callable[[], None]
_refusal, _refuse, _allow = (
    getattr(torch._C._autograd, f"_saved_tensors_hooks_{name}")
    for name in ("get_disabled_error_message", "disable", "enable")
)


def kept_at_hand(node: Node, name: str) -> Any:
    """Return a saved tensor; raise `Recomputation` if a checkpoint would have to recompute it.

    A checkpoint pushes hooks for saved tensors before it recomputes its block. Forbidding these
    hooks is faster than checking whether the tensor has a checkpoint's hook.
    """
    before = _refusal()
    _refuse(_REFUSAL, False)  # noqa: FBT003 (do not fail if hooks are set)
    try:
        return getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        if _REFUSAL in str(error):
            raise Recomputation from None
        raise
    finally:
        _put_back(before)


def _put_back(before: str | None) -> None:
    """Restore the earlier setting for saved-tensor hooks: allow them, or refuse with a message.

    `before` is that message, or None if they were allowed.
    """
    if before is None:
        _allow()
    else:
        _refuse(before, False)  # noqa: FBT003


def saved_is_at_hand(nodes: Iterable[Node]) -> bool:
    """Return whether all tensors that the nodes saved can be read without recomputing any of them.

    Each tensor is read as by the backward pass. PyTorch raises an error if the graph was freed or a
    saved tensor was changed in place.
    """
    before = _refusal()
    _refuse(_REFUSAL, False)  # noqa: FBT003
    try:
        for node in nodes:
            _read(node)
    except RuntimeError as error:
        if _REFUSAL in str(error):
            return False
        raise
    finally:
        _put_back(before)
    return True


def was_freed(start: Node) -> bool:
    """Return whether a backward pass freed the saved tensors of `start` or of the nodes behind it.

    The search ends at the first nodes with saved tensors. A pass that frees the graph reaches one
    of these before all others.
    """
    ahead, seen = [start], {start}
    while ahead:
        node = ahead.pop()
        try:
            if _read(node):
                continue
        except RuntimeError:
            return True
        following = {after for after, _ in next_functions(node) if after is not None} - seen
        ahead.extend(following)
        seen |= following
    return False


def _read(node: Node) -> int:
    """Read every tensor that a node saved, and return the number of names that it saves under."""
    slots = SLOTS[type(node)]
    for _, public, _ in slots:
        getattr(node, public)
    return len(slots)


def run_in_backward(compute: Callable[[], Result]) -> Result:
    """Call a function within a backward pass and return its result.

    The pass computes no gradients. If the function reads saved tensors, a checkpoint recomputes its
    block once for all of its nodes, not once for each tensor. Each tensor can be read only once.
    """
    found: list[Result] = []
    with torch.enable_grad():
        anchor = torch.zeros((), device="cpu", requires_grad=True)
        end = CallInBackward.apply(anchor, lambda: found.append(compute()))  # type: ignore[no-untyped-call]
    torch.autograd.grad(end, anchor, allow_unused=True)
    return found[0]


class CallInBackward(torch.autograd.Function):
    """Calls a function in its backward, and passes on no gradient."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, compute: Callable[[], None]) -> torch.Tensor:
        ctx.compute = compute
        return torch.zeros((), device="cpu")

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        ctx.compute()
        return None, None


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Return the result of applying an autograd function to tensors.

    If no `torch.func` transform is active, the check for wrapped tensors is skipped. It would take
    a quarter of the time of a small function.
    """
    quick: Any = super(torch.autograd.Function, function)
    are_transformed = torch._C._are_functorch_transforms_active()
    return (function if are_transformed else quick).apply(*arguments)


def pop_saved_tensors(ctx: Any) -> list[Any]:
    """Return the saved tensors of a custom function, and remove them from its ``ctx``.

    After the last backward pass, nothing else keeps them alive.
    """
    saved = [*ctx.saved_tensors]
    ctx.maybe_clear_saved_tensors()
    return saved


def is_transformed() -> bool:
    """Return whether a `torch.func` transform is active."""
    return torch._C._are_functorch_transforms_active()


def is_intercepted() -> bool:
    """Return whether a dispatch mode or a `torch.func` transform may intercept operations."""
    return torch._C._len_torch_dispatch_stack() > 0 or is_transformed()


def is_observed(tensor: torch.Tensor) -> bool:
    """Return whether an operation on the tensor may do more than compute its result.

    This is the case under a dispatch mode, a `torch.func` transform, forward-mode AD or autocast.
    """
    return is_intercepted() or forward_ad._current_level >= 0 or is_cast(tensor)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return whether the tensor carries a tangent of forward-mode AD."""
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor` without its graph but with its forward-mode tangent."""
    if not has_tangent(tensor):
        return tensor.detach()
    primal, tangent = forward_ad.unpack_dual(tensor)
    dual: torch.Tensor = forward_ad.make_dual(primal.detach(), tangent.detach())
    return dual


def without_tangents() -> AbstractContextManager[None]:
    """Disable forward-mode AD within the context."""
    return forward_ad._set_fwd_grad_enabled(False)  # noqa: FBT003


def is_cast(tensor: torch.Tensor) -> bool:
    """Return whether autocast is on for the tensor's device.

    The check whether autocast is on for any device comes first, because it is faster.
    """
    return torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(tensor.device.type)


def as_number(tensor: torch.Tensor) -> float | None:
    """Return the number in a tensor that PyTorch may have made from a Python number, else None.

    The tensor must have no axes, be real, lie on the CPU and not require grad, and nothing may
    intercept operations.
    """
    if tensor.dim() or tensor.requires_grad or type(tensor) is not torch.Tensor:
        return None
    is_watched = is_intercepted() or forward_ad._current_level >= 0
    if is_watched or not tensor.is_cpu or tensor.is_complex():
        return None
    return float(tensor)


class TensorType(Protocol):
    """The shape, dtype and device of one output of a node's forward operation."""

    shape: Sequence[int]
    dtype: torch.dtype
    device: torch.device


def output_types(node: Node) -> Sequence[TensorType]:
    """Return the shape, dtype and device of each output of the node's forward operation."""
    types: Sequence[TensorType] = getattr(node, "_input_metadata")  # noqa: B009 (not declared)
    return types


def keeps(node: Node, name: str) -> bool:
    """Return whether nodes of this node's type save an argument or tensor named `name`."""
    return hasattr(type(node), f"_saved_{name}")


def results_in_slots(node: Node) -> Iterator[tuple[Node, int, torch.Tensor]]:
    """Yield each saved tensor of a node that was computed by an operation in the graph.

    Each item is the node of that operation, the number of its output, and the saved tensor. Skip
    tensors that were changed since they were saved, and tensors that a hook packed.
    """
    for slot in saved_slots(node):
        if slot.tensor is None or slot.state != "live" or slot.saved_version is None:
            continue
        if slot.saved_version != slot.current_version:
            continue
        tensor = slot.tensor
        if not (plain(tensor, "grad_fn") or forward_class(node) or "[" in slot.name):
            tensor = kept(node, slot.name)  # the slot holds the node's own result without its graph
        maker = plain(tensor, "grad_fn")
        if maker is not None:
            yield maker, plain(tensor, "output_nr"), tensor
