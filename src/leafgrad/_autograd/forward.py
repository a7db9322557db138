"""What a node kept of its forward operation: the arguments and tensors that backward needs."""

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
    """Return what the node saved under a name, as backward would get it.

    A tensor comes with the graph that it was saved with. PyTorch raises where the graph was freed,
    or the tensor was changed in place, and calls the hooks for saved tensors.
    """
    value = getattr(node, f"_saved_{name}")
    return signed(value) if isinstance(value, (int, tuple)) else value


def kind_keeps(kind: type[Node], name: str) -> bool:
    """Return whether nodes of a kind save something under this name."""
    return hasattr(kind, f"_saved_{name}")


def reader_of_kept(*names: str) -> Callable[[Node], Any]:
    """Return what reads the numbers that a node saved under some names, a tuple of two or more.

    They are as PyTorch shows them, for `signed` to undo.
    """
    return attrgetter(*[f"_saved_{name}" for name in names])


@cache
def reader_of_settings(kind: type[Node]) -> Callable[[Node], Any]:
    """Return what reads all that nodes of a kind of PyTorch's own saved, except tensors."""
    names = [name for name in dir(kind) if name.startswith("_saved_")]
    names = [name for name in names if not hasattr(kind, f"_raw{name}")]
    return attrgetter(*names, "__class__")


class Recomputation(Exception):  # noqa: N818 (not an error: there is another way)
    """Raised where a checkpoint would run its function once more for each look."""


_REFUSAL = "leafgrad does not run a checkpointed function for one look at what was saved"
_refusal: Callable[[], str | None]
_refuse: Callable[[str, bool], None]
_allow: Callable[[], None]
_refusal, _refuse, _allow = (
    getattr(torch._C._autograd, f"_saved_tensors_hooks_{name}")
    for name in ("get_disabled_error_message", "disable", "enable")
)


def kept_at_hand(node: Node, name: str) -> Any:
    """Return what `kept` does of a tensor, or raise `Recomputation`.

    Before a checkpoint runs its function, it pushes hooks for saved tensors. That is refused here,
    which takes less time than to look for a checkpoint's hook.
    """
    before = _refusal()
    _refuse(_REFUSAL, False)  # noqa: FBT003 (whether to complain of hooks that are there)
    try:
        return getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        if _REFUSAL in str(error):
            raise Recomputation from None
        raise
    finally:
        _put_back(before)


def _put_back(before: str | None) -> None:
    """Let hooks refuse as they did before, or allow them again."""
    if before is None:
        _allow()
    else:
        _refuse(before, False)  # noqa: FBT003


def saved_is_at_hand(nodes: Iterable[Node]) -> bool:
    """Read the tensors that nodes saved, as their backward would; False where one is computed anew.

    PyTorch raises where the graph was freed, or such a tensor was changed in place.
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


def was_passed(start: Node) -> bool:
    """Return whether what a node saved, or those did behind it that it leads to, was freed.

    A pass that frees comes through one of them first, the first on each way that saved a tensor.
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
    """Read each tensor that a node saved, and return how many names it has for them."""
    slots = SLOTS[type(node)]
    for _, public, _ in slots:
        getattr(node, public)
    return len(slots)


def in_backward(compute: Callable[[], Result]) -> Result:
    """Call a function in a backward pass of its own, which has no other effect.

    Within one pass a checkpointed function runs once more for all that its nodes did not save, and
    not for each look at it; each of them can be looked at once.
    """
    found: list[Result] = []
    with torch.enable_grad():
        anchor = torch.zeros((), device="cpu", requires_grad=True)
        end = CallInBackward.apply(anchor, lambda: found.append(compute()))  # type: ignore[no-untyped-call]
    torch.autograd.grad(end, anchor, allow_unused=True)
    return found[0]


class CallInBackward(torch.autograd.Function):
    """Does nothing but call a function in its backward."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, compute: Callable[[], None]) -> torch.Tensor:
        ctx.compute = compute
        return torch.zeros((), device="cpu")

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
    """Return what a custom function saved, kept alive by nothing else if backward is its last."""
    saved = [*ctx.saved_tensors]
    ctx.maybe_clear_saved_tensors()
    return saved


def is_transformed() -> bool:
    """Return whether a transform of `torch.func` is on."""
    return torch._C._are_functorch_transforms_active()


def is_intercepted() -> bool:
    """Return whether a mode or a transform may make other than plain tensors of computations."""
    return torch._C._len_torch_dispatch_stack() > 0 or is_transformed()


def is_observed(tensor: torch.Tensor) -> bool:
    """Return whether a mode, a transform, forward mode AD or autocast changes what is computed."""
    return is_intercepted() or forward_ad._current_level >= 0 or is_cast(tensor)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return whether forward mode AD carries a tangent along with the tensor."""
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without its graph, and with its tangent, which `detach` takes off."""
    if not has_tangent(tensor):
        return tensor.detach()
    primal, tangent = forward_ad.unpack_dual(tensor)
    dual: torch.Tensor = forward_ad.make_dual(primal.detach(), tangent.detach())
    return dual


def without_tangents() -> AbstractContextManager[None]:
    """Keep forward mode AD from following what is computed inside."""
    return forward_ad._set_fwd_grad_enabled(False)  # noqa: FBT003


def is_cast(tensor: torch.Tensor) -> bool:
    """Return whether autocast is on for the tensor's device, which takes long to be asked for."""
    return torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(tensor.device.type)


def as_number(tensor: torch.Tensor) -> float | None:
    """Return the number that a tensor is, as PyTorch makes one of a number; None for any other.

    Of no axes, real, on the CPU, and a constant to whoever differentiates or intercepts.
    """
    if tensor.dim() or tensor.requires_grad or type(tensor) is not torch.Tensor:
        return None
    is_watched = is_intercepted() or forward_ad._current_level >= 0
    if is_watched or not tensor.is_cpu or tensor.is_complex():
        return None
    return float(tensor)


class TensorType(Protocol):
    """What a node knows of one tensor that its operation made."""

    shape: Sequence[int]
    dtype: torch.dtype
    device: torch.device


def output_types(node: Node) -> Sequence[TensorType]:
    """Return shape, dtype and device of each tensor that the node's operation made."""
    types: Sequence[TensorType] = getattr(node, "_input_metadata")  # noqa: B009 (not declared)
    return types


def keeps(node: Node, name: str) -> bool:
    """Return whether nodes of this kind have something saved under a name."""
    return hasattr(type(node), f"_saved_{name}")


def results_in_slots(node: Node) -> Iterator[tuple[Node, int, torch.Tensor]]:
    """Yield results of operations among what a node saved: which output of which node each is.

    Only what is as it was when it was saved, and read without a hook.
    """
    for slot in saved_slots(node):
        if slot.tensor is None or slot.state != "live" or slot.saved_version is None:
            continue
        if slot.saved_version != slot.current_version:
            continue
        tensor = slot.tensor
        if not (plain(tensor, "grad_fn") or forward_class(node) or "[" in slot.name):
            tensor = kept(node, slot.name)  # a slot shows the node's own result without its graph
        maker = plain(tensor, "grad_fn")
        if maker is not None:
            yield maker, plain(tensor, "output_nr"), tensor
